"""A running job is improved in its first minutes, and loses little by what is tried."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tuner.hosts.probe import python_path
from tuner.live import learning
from tuner.live.learning import Learning

pytestmark = pytest.mark.system

#: A job whose pace depends on its workers; it ends once it is asked to, and prints their number.
JOB = """
import sys, time
from pathlib import Path
from tuner import live

workers, end = [2], Path(sys.argv[1])
session = live.session()
session.on("iterator_workers", lambda n: workers.__setitem__(0, n), read=lambda: workers[0])
while not end.exists() or session.more():
    time.sleep({times_s}[workers[0]])
    session.step()
print(workers[0])
"""


@pytest.mark.parametrize(
    ("times_s", "workers", "said"),
    [
        (
            {1: 0.03, 2: 0.02, 4: 0.01},
            *("4", "the running job goes on with iterator_workers 2 -> 4"),
        ),
        ({1: 0.2, 2: 0.02, 4: 0.6}, "2", ""),
    ],
    ids=["more are faster", "others are far slower"],
)
def test_a_job_ends_with_the_fastest_setting_that_was_tried_in_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    times_s: dict[int, float],
    workers: str,
    said: str,
) -> None:
    monkeypatch.setattr(learning, "LEAST_S", 0.2)
    improvements: list[str] = []
    job_learning = Learning(1, 4, tmp_path, improvements.append)
    rank = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1"}
    environ = {**os.environ, **python_path(os.environ), **job_learning.environment, **rank}
    argv = [sys.executable, "-c", JOB.format(times_s=times_s), str(tmp_path / "end")]
    with subprocess.Popen(argv, env=environ, stdout=subprocess.PIPE, text=True) as job:
        end_s = time.monotonic() + 60
        while not job_learning.is_over and time.monotonic() < end_s:
            assert job_learning() == ""
            time.sleep(0.02)
        (tmp_path / "end").touch()
        assert job.communicate(timeout=20)[0] == f"{workers}\n"  # though tune is still there
    job_learning.close()
    assert job_learning.is_over
    assert [text.split(":")[0] for text in improvements] == [said] * bool(said)
    assert job_learning.lost_s < learning.MOST_LOST_S
    assert job_learning() == ""  # nothing is left to do
