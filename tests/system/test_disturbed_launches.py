"""A real neighbour beside a real mpirun job: its launch is excluded and made again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.replay.recording import Recording
from tests.system.jobs import spec_of
from tuner.hosts import interference
from tuner.model import Choice, Env, Knob, Load, Purpose
from tuner.store import Store
from tuner.study import tune
from tuner.study.events import Event, LaunchEnded, LaunchStarted

pytestmark = [pytest.mark.system, pytest.mark.slow]

#: Each rank computes for a while.
TRAINER = """
start = time.monotonic()
while time.monotonic() - start < 0.6:
    pass
if rank == 0:
    report(time.monotonic() - start)
"""


def test_a_launch_beside_a_busy_neighbour_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNE_LOCK_DIR", str(tmp_path / "lock"))
    monkeypatch.delenv("TUNE_DISTURBED")
    # Whatever else the machine does while this is tested, it counts as quiet before.
    monkeypatch.setattr(interference, "before", lambda: Load(0.0))
    busy: list[subprocess.Popen[bytes]] = []

    def beside_the_first(event: Event) -> None:
        if isinstance(event, LaunchStarted) and event.number == 1:
            argv = [sys.executable, "-c", "while True: pass"]
            for _ in range(2 * (os.cpu_count() or 1)):
                busy.append(subprocess.Popen(argv, start_new_session=True))
        elif isinstance(event, LaunchEnded):
            while busy:
                with busy.pop() as process:
                    process.kill()

    knob = Knob("flavour", Choice(("plain",)), Env(("TUNE_TEST_FLAVOUR",)))
    spec = spec_of(tmp_path, TRAINER, knobs=(knob,), confirm="none", warm_ups=0)
    database = tmp_path / "tune.db"
    result = tune(spec, storage=str(database), on_event=beside_the_first, policy=Recording(1))
    with Store.open(f"sqlite:///{database}", create=False) as store:
        disturbed, *rest = store.launches(spec.name)
    assert disturbed.outcome.exclusion is not None
    assert "other processes used" in disturbed.outcome.exclusion.text
    assert disturbed.outcome.load is not None
    assert disturbed.outcome.load.others_cores > 0.25
    assert disturbed.outcome.load.busiest.startswith("pid ")
    # Whoever else is busy here may disturb the next one too.
    again, other = [record for record in rest if record.outcome.exclusion is None]
    assert (again.setting, again.purpose) == (disturbed.setting, Purpose.RECORD)
    assert other.setting != again.setting
    assert any("excluded" in note for note in result.notes)
