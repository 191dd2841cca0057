"""The address and the token of the dashboard; the pages are tested in a browser."""

from __future__ import annotations

import pytest

from tuner.model.errors import UsageError
from tuner.results.dashboard import access, web_server


@pytest.mark.parametrize("host", ["", "::1", "192.0.2.1", "nowhere.invalid"])
def test_what_is_no_address_of_this_machine_is_one_error(host: str) -> None:
    with pytest.raises(UsageError) as caught, web_server.bind("sqlite://", str, host=host, port=0):
        pass
    assert host in caught.value.message
    assert "--host" in caught.value.hint


@pytest.mark.parametrize("given", ["", "fifteen-letters", "a" * 15 + ";", "é" * 20], ids=ascii)
def test_a_token_that_could_be_guessed_or_not_be_sent_is_refused(given: str) -> None:
    with pytest.raises(UsageError, match="TUNE_DASHBOARD_TOKEN") as caught:
        access.token_of(given)
    assert not given or given not in str(caught.value)
