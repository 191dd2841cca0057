"""``tune doctor``."""

from __future__ import annotations

import json
import os

import pytest

from tests.cli.conftest import Tune
from tuner.cli import console
from tuner.hosts import interference
from tuner.model import Load


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interference, "before", lambda: Load(0.0))


def test_a_host_that_a_study_can_run_on(tune: Tune, mpirun: str) -> None:
    done = tune("doctor", "--mpirun", mpirun, "--", "sh", "train.sh", "--json")
    assert (done.code, done.err) == (0, "")
    assert f"launcher        Open MPI 5.0.11, {mpirun}" in done.out
    assert "A study can run here: 0 failures" in done.out
    assert "\x1b" not in done.out, "no colour in a pipe"


def test_a_host_on_which_a_study_would_fail(tune: Tune) -> None:
    done = tune("doctor", "--mpirun", "/nowhere/mpirun", "--", "sh")
    assert done.code == 3
    lines = [line.strip() for line in done.out.splitlines()]
    (place,) = [n for n, line in enumerate(lines) if "there is no /nowhere/mpirun" in line]
    assert lines[place + 1] == "why: It starts the ranks of every launch."
    assert lines[place + 2] == "next: give the path of an mpirun"
    assert lines[-1].startswith("A study would fail here: 1 failure, ")


def test_no_program_after_the_dashes(tune: Tune) -> None:
    assert tune("doctor", "--").code == 2


def test_hosts_that_cannot_be_read(tune: Tune) -> None:
    for hosts in ("-x", "h1,h2:2", ""):
        done = tune("doctor", "--hosts", hosts)
        assert (done.code, "--hosts" in done.err) == (2, True), done.err


def test_as_json(tune: Tune, mpirun: str) -> None:
    for program, code in (("sh", 0), ("no-such-program", 3)):
        done = tune("doctor", "--json", "--mpirun", mpirun, "--", program)
        document = json.loads(done.out)
        assert (done.code, document["would_fail"]) == (code, code == 3)
        assert document["schema"] == "tuner.doctor/1" and document["machine"]["affinity_cpus"] > 0
        first = document["checks"][0]
        assert set(first) == {"name", "state", "saw", "why", "mend"}
        assert (first["name"], first["state"]) == ("program", "failure" if code else "ok")


def test_a_stream_that_cannot_hold_the_marks_gets_others(
    tune: Tune, mpirun: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout", open(os.dup(1), "w", encoding="ascii"))  # noqa: SIM115, PTH123
    done = tune("doctor", "--mpirun", mpirun, "--", "sh")
    assert "+ launcher" in done.out and "\\u" not in done.out


def test_commands_are_whole_and_texts_are_wrapped_in_a_narrow_terminal(
    tune: Tune, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "is_live", lambda _: True)
    monkeypatch.setenv("COLUMNS", "50")
    monkeypatch.delenv("NO_COLOR", raising=False)
    lines = tune("doctor", "--mpirun", "/nowhere/mpirun", "--", "sh").out.splitlines()
    assert any("\x1b[31m" in line and "launcher" in line for line in lines), "in red"
    texts = [line[18:] for line in lines[2:-2] if "\x1b" not in line]
    too_long = [text for text in texts if len(text) > 50 - 18 and " " in text]
    assert texts and all(text.startswith(("next: ", "try:  ")) for text in too_long), too_long
