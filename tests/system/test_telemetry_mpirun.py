"""What is recorded of a real job: who burns, who sleeps, who has others work for it."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.jobs import finished, run_trainer
from tuner.model import Track

pytestmark = [pytest.mark.system, pytest.mark.slow]

#: Rank 0 burns so many seconds of CPU time, rank 1 sleeps, rank 2 waits for a child that burns.
TRAINER = """
seconds = float(sys.argv[2])
BURN = f"import time\\nwhile time.process_time() < {seconds}: sum(range(99999))"
if rank == 0:
    report(0.1)
    exec(BURN)
    report(0.1, seconds)
elif rank == 1:
    time.sleep(seconds)
else:
    subprocess.run([sys.executable, "-c", BURN], check=True)
"""

#: Not of the job: burns a CPU.
NEIGHBOUR = """
print("begins", flush=True)
while True:
    pass
"""


@pytest.fixture
def neighbour() -> Iterator[None]:
    argv = [sys.executable, "-c", NEIGHBOUR]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield
        process.kill()


def total(track: Track, name: str) -> float:
    """The sum over time: of cores CPU seconds, of shares seconds."""
    begins = (0.0, *track.times_s)
    return sum(
        (end_s - begin_s) * value
        for begin_s, end_s, value in zip(begins, track.times_s, track.columns[name], strict=False)
        if value is not None
    )


@pytest.mark.usefixtures("neighbour")
def test_each_rank_is_recorded_by_what_it_does(tmp_path: Path) -> None:
    outcome = run_trainer(tmp_path, TRAINER, "2.0", ranks=3, trial_limit_s=60.0)
    finished(outcome)
    assert not any(thread.name == "telemetry" for thread in threading.enumerate())
    telemetry = outcome.telemetry
    assert telemetry is not None
    assert [track.rank for track in telemetry.tracks] == [None, 0, 1, 2]
    host, burner, sleeper, parent = telemetry.tracks

    assert total(burner, "own_user_cores") > 1.0
    assert total(burner, "children_cores") == 0.0
    assert total(sleeper, "own_user_cores") < 0.5, "its start-up"
    assert total(parent, "own_user_cores") < 0.5
    assert total(parent, "children_cores") > 1.0
    assert total(host, "others_cores") > 0.5
    assert total(host, "user_cores") > total(burner, "own_user_cores")
    assert 0 < telemetry.cost_cores < 1
