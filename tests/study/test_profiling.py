"""A stored study's command, to be launched once more."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from tests.study_samples import SPEC
from tuner.launch.secrets import redact_spec
from tuner.model.errors import UsageError
from tuner.study.profiling import with_command

OPEN = replace(SPEC, command=("/bin/python", "train.py", "--out", "{out}", "--password", "hunter2"))
KEPT = redact_spec(OPEN, os.environ)


def test_a_command_without_secrets_is_taken_as_it_is() -> None:
    assert with_command(SPEC, None) == SPEC


def test_one_with_secrets_must_be_typed_again() -> None:
    with pytest.raises(UsageError, match="the stored command hides a secret") as caught:
        with_command(KEPT, None)
    assert "type the command again" in caught.value.hint
    assert with_command(KEPT, ("python", *OPEN.command[1:])) == OPEN


@pytest.mark.parametrize("typed", [("python", "other.py"), ("python",), OPEN.command[:-1]])
def test_another_command_is_refused(typed: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="is not the command of mnist"):
        with_command(KEPT, typed)
