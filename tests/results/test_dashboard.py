"""The note and the address of the dashboard; the pages are tested in a browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from tests.serving import Answer, ask, serving
from tests.study_samples import HOSTILE, launched, searched
from tests.study_surface import CONFIRMED, FakeRunner, study_in
from tuner.cli import stored
from tuner.model import Failed, FailureKind
from tuner.model.errors import BusyError, UsageError
from tuner.results.dashboard import access, web_server
from tuner.results.dashboard.annotations import annotate, note
from tuner.results.dashboard.web_server import DashboardServer
from tuner.store import Store


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A database with a study that was really searched and confirmed, on a synthetic machine."""
    folder = tmp_path_factory.mktemp("dash{b}oard")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TUNE_LOCK_DIR", str(folder))
        study_in(folder, FakeRunner(), CONFIRMED, outputs=folder / "outputs")
    return f"sqlite:///{folder / 'tune.db'}"


def test_the_note_is_saved_again_and_again_the_same(url: str) -> None:
    with Store.open(url, create=False) as store:
        data = stored.load(store, None)
        annotate(url, data)
        study = store.search(data.spec.name)
        before = study._storage.get_study_system_attrs(study._study_id)
        annotate(url, data)
        after = study._storage.get_study_system_attrs(study._study_id)
    assert before == after
    assert "times faster than your defaults (95 % interval" in str(before["dashboard:note_str:0"])


@pytest.fixture(scope="module")
def pages(url: str) -> Iterator[DashboardServer]:
    """A dashboard that answers."""
    with serving(url) as server:
        yield server


def answer(server: DashboardServer, path: str) -> Answer:
    """Send one request with the token."""
    token = {"Authorization": f"Bearer {server.token}"}
    return ask(urlsplit(server.page).netloc, path, headers=token)


@pytest.mark.system
def test_its_first_page_is_the_report_of_the_latest_study(pages: DashboardServer) -> None:
    address = urlsplit(pages.url)
    assert address.netloc.startswith("127.0.0.1:")
    assert (address.path, address.query) == ("/", f"token={pages.token}")
    latest, named = answer(pages, "/"), answer(pages, f"/report/{CONFIRMED.name}")
    assert latest.headers["content-type"] == "text/html; charset=utf-8"
    assert latest.body == named.body
    assert '<a href="/dashboard/">All studies' in latest.body
    missing = answer(pages, "/report/<b>other")
    assert missing.status == 404
    assert "<b>" not in missing.body
    assert "Optuna" in answer(pages, "/dashboard/").body


@pytest.mark.system
def test_a_port_in_use_is_one_error(pages: DashboardServer, url: str) -> None:
    port = urlsplit(pages.page).port
    assert port is not None
    with (
        pytest.raises(BusyError, match=f"port {port} on 127.0.0.1 is in use"),
        web_server.bind(url, str, port=port),
    ):
        pass


@pytest.mark.parametrize("host", ["", "::", "::1", "192.0.2.1", "nowhere.invalid"])
def test_what_is_no_address_of_this_machine_is_one_error(url: str, host: str) -> None:
    with pytest.raises(UsageError) as caught, web_server.bind(url, str, host=host, port=0):
        pass
    assert host in caught.value.message
    assert "--host" in caught.value.hint


@pytest.mark.parametrize(
    "given", ["", "fifteen-letters", "a" * 15 + ";", "a" * 15 + "\n", "é" * 20], ids=ascii
)
def test_a_token_that_could_be_guessed_or_not_be_sent_is_refused(given: str) -> None:
    with pytest.raises(UsageError, match="TUNE_DASHBOARD_TOKEN") as caught:
        access.token_of(given)
    assert not given or given not in str(caught.value)


def test_what_a_program_wrote_is_no_markdown() -> None:
    text = note(launched(searched(Failed(FailureKind.CRASHED, HOSTILE))))
    (line,) = [line for line in text.splitlines() if line.startswith("- Your defaults:")]
    for shown in (line.removeprefix("- "), text.splitlines()[2].strip("*")):
        assert "\\<script>alert(1)\\</script> \\<img src=" in shown
        assert not re.search(r"(?<!\\)[][<`*!&~|]", shown)
        assert not re.search(r"://|www\.|[\x1b\u202e]|@\w", shown)
