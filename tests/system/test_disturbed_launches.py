"""A real neighbour beside a real mpirun job: its launch is set aside and made again."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from benchmarks.replay.recording import Recording
from tuner.hosts import interference, machine
from tuner.launch import launchers
from tuner.model import Choice, Env, Knob, LaunchRecord, Layout, Load, Purpose, StudySpec
from tuner.store.store import Store
from tuner.study import tune
from tuner.study.events import Event, LaunchEnded, LaunchStarted

pytestmark = [pytest.mark.system, pytest.mark.slow]

#: Each rank computes for a while; rank 0 writes the log.
TRAINER = """
import json, os, sys, time
start = time.monotonic()
while time.monotonic() - start < 0.6:
    pass
if os.environ.get("OMPI_COMM_WORLD_RANK", os.environ.get("PMI_RANK", "0")) == "0":
    with open(sys.argv[1] + "/log", "w") as file:
        json.dump([{"iteration": 5, "elapsed_time": time.monotonic() - start}], file)
"""

SPIN = "while True: pass"
SLEEP = "import time; time.sleep(600)"


@contextmanager
def others(code: str, number: int) -> Iterator[set[int]]:
    """Processes of somebody else, each in a session of its own; their ids."""
    started = [
        subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
        for _ in range(number)
    ]
    try:
        yield {process.pid for process in started}
    finally:
        for process in started:
            process.kill()
        for process in started:
            process.wait()


@dataclass
class Beside:
    """Listens to a study: during its first launch others are busy."""

    number: int
    stack: ExitStack = field(default_factory=ExitStack)
    pids: set[int] = field(default_factory=set)

    def __call__(self, event: Event) -> None:
        if isinstance(event, LaunchStarted) and event.number == 1:
            self.pids = self.stack.enter_context(others(SPIN, self.number))
        elif isinstance(event, LaunchEnded):
            self.stack.close()


def spec_of(folder: Path) -> StudySpec:
    script = folder / "train.py"
    script.write_text(TRAINER)
    return StudySpec(
        name="beside",
        command=(sys.executable, str(script), "{out}"),
        launcher=launchers.find(None, environ=os.environ),
        layout=Layout(2),
        machine=machine.this_machine(),
        knobs=(Knob("flavour", Choice(("plain",)), Env(("TUNE_TEST_FLAVOUR",))),),
        confirm=False,
        warm_ups=0,
    )


def records(database: Path) -> list[LaunchRecord]:
    with Store.open(f"sqlite:///{database}", create=False) as store:
        return store.launches("beside")


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else the machine does while this is tested, it counts as quiet before."""
    monkeypatch.setenv("TUNE_LOCK_DIR", str(tmp_path / "lock"))
    monkeypatch.delenv("TUNE_DISTURBED")
    monkeypatch.setattr(interference, "before", lambda: interference.Before(Load(0.0)))


def test_a_launch_beside_a_busy_neighbour_is_made_again(tmp_path: Path) -> None:
    beside = Beside(2 * (os.cpu_count() or 1))
    with beside.stack:
        found = tune(
            spec_of(tmp_path),
            storage=str(tmp_path / "tune.db"),
            on_event=beside,
            policy=Recording(1),
        )
    disturbed, again, other = records(tmp_path / "tune.db")
    assert disturbed.outcome.exclusion is not None
    assert "other processes used" in disturbed.outcome.exclusion.text
    assert disturbed.outcome.load is not None
    assert disturbed.outcome.load.others_cores > 0.25
    assert disturbed.outcome.load.busiest.startswith("pid ")
    assert (again.setting, again.purpose) == (disturbed.setting, Purpose.RECORD)
    assert again.outcome.exclusion is None
    assert other.setting != again.setting
    assert any("excluded" in note for note in found.notes)


def test_neighbours_that_only_sleep_disturb_nobody(tmp_path: Path) -> None:
    """The same program, but idle: it is not named, whatever else the machine does."""
    with others(SLEEP, 3) as pids:
        tune(spec_of(tmp_path), storage=str(tmp_path / "tune.db"), policy=Recording(1))
    for record in records(tmp_path / "tune.db"):
        assert record.outcome.load is not None
        named = record.outcome.load.busiest.split(" ")[:2]
        assert named not in [["pid", str(pid)] for pid in pids]
