from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Tune
from tuner.hosts import interference
from tuner.model import Load


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interference, "load_now", lambda: Load(0.0))


def test_a_host_that_a_study_can_run_on(tune: Tune, mpirun: str) -> None:
    done = tune("doctor", "--mpirun", mpirun, "--", "sh", "train.sh", "--json")
    assert (done.code, done.err) == (0, "")
    assert f"launcher       Open MPI 5.0.11, {mpirun}" in done.out
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


@pytest.mark.parametrize(("program", "code"), [("sh", 0), ("no-such-program", 3)])
def test_as_json(tune: Tune, mpirun: str, program: str, code: int) -> None:
    done = tune("doctor", "--json", "--mpirun", mpirun, "--", program)
    document = json.loads(done.out)
    assert (done.code, document["would_fail"]) == (code, code == 3)
    assert document["schema"] == "tuner.doctor/1" and document["machine"]["affinity_cpus"] > 0
    (check,) = (check for check in document["checks"] if check["name"] == "program")
    assert set(check) == {"name", "state", "saw", "why", "mend"}
    assert check["state"] == ("failure" if code else "ok")
