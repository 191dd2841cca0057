"""Two launches side by side over two hosts: they take turns everywhere, and nothing is left."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from tests.hosts.several.study_on_hosts import LOGGING, LOSSES, StudyOnHosts
from tests.marked import eventually
from tuner.hosts import procfs
from tuner.hosts.process import MARKER
from tuner.model import Purpose

pytestmark = [pytest.mark.system, pytest.mark.slow]

Start = Callable[[str], StudyOnHosts]

#: An iteration takes as much CPU time as the step says. Each rank notes when it runs, at least ten
#: milliseconds of CPU time apart, and never waits in between.
PROGRAM = f"""{LOGGING}
step, beats = int(sys.argv[2]), sys.argv[3]
with open(f"{{beats}}/{{os.environ['{MARKER}']}}-{{world.rank}}", "a", buffering=1) as file:
    while len(log) < 25:
        for _ in range(2 * step):
            end_s = time.process_time() + 0.01
            while time.process_time() < end_s:
                pass
            print(time.time(), file=file)
        world.allreduce(1)
        ended()
"""


@pytest.fixture
def start(study: Callable[..., StudyOnHosts], folder: Path) -> Start:
    """Starts a study whose hosts share no folder for what launches write."""
    (folder / "beats").mkdir()
    words = ("--live", "off", "--trials", "2", "--warm-ups", "0", "--fix", "omp_threads=1")
    knob = ("--knob", "step=1,4", "--baseline", "step=4", "--run-dir", f"/tmp/{folder.name}")
    program = ("--", "{out}", "{step}", str(folder / "beats"))
    return lambda hosts: study(*words, *knob, "--hosts", hosts, *program, program=PROGRAM)


@pytest.mark.parametrize("hosts", ["h2:1,h3:1", "h1:1,h3:1"], ids=["others", "this one too"])
def test_at_any_moment_only_one_runs_on_any_host(start: Start, folder: Path, hosts: str) -> None:
    tune = start(hosts)
    assert "faster than your defaults" in tune.end()
    find = ("find", f"/tmp/{folder.name}", "-name", "out")
    outs = [tune.bench.run(name, *find, check=False).stdout for name in tune.bench.names]
    assert list(map(bool, outs)) == [True, False, False], "logs are brought; what held them is gone"
    compared = [record for record in tune.records() if record.purpose is Purpose.CONFIRM]
    assert len(compared) >= 2
    beats = sorted(
        (float(line), int(path.name.split(".")[1].split("-")[0]))
        for path in (folder / "beats").iterdir()
        for line in path.read_text().splitlines()
    )
    for record in compared:
        pair = record.outcome.side_by_side
        assert pair is not None and len(pair.slices) >= 2
        assert [rank.rank for rank in record.outcome.observation.ranks] == [0, 1]
        sides = [launch for _, launch in beats if launch in {record.number, pair.other}]
        turns = sum(one != other for one, other in pairwise(sides))
        assert 2 < turns <= 3 * len(pair.slices) < len(sides), "they run by turns"


@pytest.mark.parametrize("loss", ["tune", "an agent"])
def test_whatever_is_killed_nothing_is_left_stopped_or_alive(start: Start, loss: str) -> None:
    lost_host, word, number = LOSSES[loss]
    tune = start("h2:1,h3:1")

    def states(host: str) -> list[str]:
        processes = tune.bench.processes(host).items()
        ranks = [pid for pid, argv in processes if any("program.py" in word for word in argv)]
        return sorted(stat.state for pid in ranks if (stat := procfs.stat(pid)) is not None)

    # Both are there on both hosts, and one of them is stopped.
    eventually(lambda: all(states(host)[1:] == ["T"] for host in ("h2", "h3")), 300)
    of_pair = tune.of_launch()
    tune.send(number, lost_host, word)
    eventually(lambda: not of_pair & tune.of_launch())
    tune.close()  # another agent has ended what was left; that a study goes on is in test_studies
    tune.process.communicate(timeout=60)
