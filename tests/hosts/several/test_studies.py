"""Studies over two hosts: what is measured, and that nothing is left, whatever is killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.hosts.several.bench import Bench
from tests.marked import eventually
from tuner.model import Failed, FailureKind, Finished, LaunchRecord
from tuner.store import Store, resolve_url

pytestmark = [pytest.mark.system, pytest.mark.slow]

#: A rank that has a daemon of its own, in a session of its own, and then computes for a while.
PROGRAM = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 256)  # mpirun waits for whoever holds its pipes
        os.execvp("sleep", ["sleep", "1000"])
    os._exit(0)
os.wait()
from mpi4py import MPI
world, end = MPI.COMM_WORLD, time.monotonic() + float(open(sys.argv[1]).read())
while world.allreduce(time.monotonic() < end):
    time.sleep(0.02)
print("ranks", world.size, flush=True)
"""

#: Options that make few launches: a warm-up, a setting, the baseline, and what leaves a knob out.
SHORT = ("--objective", "wall", "--no-confirm", "--trials", "1", "--knob", "omp_threads=1,2")

#: A word of an agent.
AGENT = "import base64,zlib;exec("
#: An agent is stopped, not killed.
STOPPED = "SIGSTOP"


class Tune:
    """``tune`` on the first host, over the other two."""

    def __init__(
        self,
        bench: Bench,
        folder: Path,
        seconds: float,
        *options: str,
        length: tuple[str, ...] = SHORT,
    ) -> None:
        self.bench, self.folder = bench, folder
        (folder / "program.py").write_text(PROGRAM)
        (folder / "seconds").write_text(str(seconds))
        self.words = [
            str(Path(sys.executable).parent / "tune"),
            *length,
            *("--storage", str(folder / "study.db"), "--name", "study"),
            *(options or ("--hosts", "h2:1,h3:1")),
            *("--", sys.executable, str(folder / "program.py"), str(folder / "seconds")),
        ]
        self.process = self.start()

    def start(self) -> subprocess.Popen[str]:
        env = {**os.environ}
        return self.bench.start("h1", *self.words, env=env)

    def end(self) -> tuple[int, str]:
        """Its exit code and all that it printed."""
        output, errors = self.process.communicate(timeout=120)
        return self.process.returncode, output + errors

    def records(self) -> tuple[LaunchRecord, ...]:
        with Store.open(resolve_url(str(self.folder / "study.db"), {}), create=False) as store:
            return tuple(store.launches("study"))

    def kill(self, host: str, word: str) -> None:
        """Send SIGKILL to the processes of a host that have this in one of their words."""
        self.send(signal.SIGKILL, host, word)

    def send(self, number: int, host: str, word: str) -> None:
        """Send a signal to them, or to those whose command begins so."""
        found = self.bench.processes(host, with_sessions=word.startswith("sshd")).items()
        pids = [pid for pid, argv in found if _has(argv, word)]
        assert pids
        for pid in pids:
            with suppress(ProcessLookupError):  # it has ended with another one
                os.kill(pid, number)

    def of_launch(self) -> set[int]:
        """All processes of the other hosts that are not agents."""
        found = [self.bench.processes(host) for host in ("h2", "h3")]
        return {pid for each in found for pid, argv in each.items() if not _has(argv, AGENT)}

    def is_running(self) -> bool:
        """Both ranks run, and have their daemons."""
        return all(
            ["sleep", "1000", ""] in self.bench.processes(host).values() for host in ("h2", "h3")
        )

    def are_empty(self) -> bool:
        return not any(self.bench.processes(host) for host in ("h2", "h3"))


def _has(argv: list[str], word: str) -> bool:
    return " ".join(argv).startswith(word) or any(word in each for each in argv)


@pytest.fixture
def study(bench: Bench, folder: Path) -> Iterator[Callable[..., Tune]]:
    """Starts a study; afterwards all hosts are empty."""
    yield lambda seconds, *options: Tune(bench, folder, seconds, *options)
    eventually(lambda: not any(bench.processes(host) for host in bench.names))


def test_a_study_over_two_hosts_measures_and_leaves_nothing(study: Callable[..., Tune]) -> None:
    tune = study(0.3)
    code, printed = tune.end()
    assert code == 0, printed
    records = tune.records()
    assert len(records) >= 3  # one more may leave out a knob
    for record in records:
        assert isinstance(record.outcome.ending, Finished), record.outcome.ending
        assert "ranks 2" in Path(record.folder, "output.log").read_text()


def test_kill_9_of_tune_empties_all_hosts(study: Callable[..., Tune]) -> None:
    tune = study(100)
    eventually(tune.is_running)
    tune.kill("h1", "--hosts")
    eventually(tune.are_empty)
    # Nothing is held either: the same command goes on.
    (tune.folder / "seconds").write_text("0.3")
    tune.process = tune.start()
    code, printed = tune.end()
    assert code == 0, printed


def test_a_stopped_agent_does_not_keep_its_host_from_the_same_study(
    study: Callable[..., Tune],
) -> None:
    tune = study(100)
    eventually(tune.is_running)
    tune.send(signal.SIGSTOP, "h3", AGENT)
    tune.kill("h1", "--hosts")
    (tune.folder / "seconds").write_text("0.3")
    tune.process = tune.start()
    code, printed = tune.end()
    assert code == 0, printed
    eventually(tune.are_empty)


@pytest.mark.parametrize(
    ("host", "word", "kind"),
    [
        ("h1", "prterun", FailureKind.INTERRUPTED),
        ("h1", "ssh h3", FailureKind.LOST_HOST),
        ("h3", "sshd: root@", FailureKind.LOST_HOST),
        ("h2", "program.py", FailureKind.CRASHED),
        ("h3", "prted", FailureKind.LOST_HOST),
        ("h2", AGENT, FailureKind.LOST_HOST),
        ("h2", STOPPED, FailureKind.LOST_HOST),
    ],
    ids=[
        "mpirun",
        "its ssh",
        "its session of sshd",
        "a rank",
        "the daemon of the MPI",
        "an agent",
        "a stopped agent",
    ],
)
def test_whatever_is_killed_its_launch_leaves_nothing_and_the_study_goes_on(
    study: Callable[..., Tune], host: str, word: str, kind: FailureKind
) -> None:
    tune = study(3)
    eventually(tune.is_running)
    of_launch = tune.of_launch()
    if word == STOPPED:
        tune.send(signal.SIGSTOP, host, AGENT)
    else:
        tune.kill(host, word)
    eventually(lambda: not of_launch & tune.of_launch())
    code, printed = tune.end()
    assert code == 0, printed
    endings = [record.outcome.ending for record in tune.records()]
    failed = [each for each in endings if isinstance(each, Failed)]
    assert [each.kind for each in failed] == [kind], failed
    if kind is FailureKind.LOST_HOST:
        lost = "h3" if word == "ssh h3" else host
        assert re.search(rf"the host {lost} is lost: |remote daemon: {lost}$", failed[0].reason)
    assert len(endings) - len(failed) >= 3 - (kind is FailureKind.CRASHED)


def test_a_host_whose_link_goes_down_is_named_and_the_study_goes_on_later(
    bench: Bench, study: Callable[..., Tune]
) -> None:
    tune = study(3)
    eventually(tune.is_running)
    bench.link("h3", "down")
    try:
        code, printed = tune.end()
        assert code == 3
        assert re.search(r"error: .*\bh3\b", printed), printed
        eventually(tune.are_empty)  # the one that is cut off has swept itself
    finally:
        bench.link("h3", "up")
    tune.process = tune.start()
    code, printed = tune.end()
    assert code == 0, printed
    endings = [record.outcome.ending for record in tune.records()]
    (lost,) = [each for each in endings if isinstance(each, Failed)]
    assert lost.kind is FailureKind.LOST_HOST
    assert "h3" in lost.reason


@pytest.mark.parametrize(
    ("source", "loss"), [("--hosts", "its processes"), ("--hosts-from", "its link")]
)
def test_another_host_takes_the_place_of_a_lost_one(
    bench: Bench, study: Callable[..., Tune], folder: Path, source: str, loss: str
) -> None:
    there = folder / "there"
    there.write_text("h2 1\nh3 1\n")
    options = ("--hosts", "h2:1,h3:1,h1:1", "-n", "2")
    if source == "--hosts-from":
        options = ("--hosts-from", f"cat '{there}'", "-n", "2")
    tune = study(3, *options)
    eventually(tune.is_running)
    there.write_text("h2 1\nh1 1\n")
    if loss == "its link":
        bench.link("h3", "down")
    else:
        tune.kill("h3", "")
    try:
        code, printed = tune.end()
        eventually(tune.are_empty)
    finally:
        bench.link("h3", "up")
    assert code == 0, printed
    replaced = loss == "its link" or source == "--hosts-from"  # else h3 is there again
    assert ("h1 takes the place of h3" in printed) == replaced, printed
    lost, *others = tune.records()
    assert isinstance(lost.outcome.ending, Failed)
    assert lost.outcome.ending.kind is FailureKind.LOST_HOST
    assert len(others) >= 3
    for record in others:
        assert isinstance(record.outcome.ending, Finished), record.outcome.ending
        assert ("h2:1,h1:1" in record.argv) == replaced
    # The same command finds the study finished, whichever hosts there are now.
    tune.process = tune.start()
    assert tune.end()[0] == 0


@pytest.mark.parametrize(
    ("hosts", "said"),
    [
        ("h2:1,nohost:1", r"no answer from nohost: ssh: Could not resolve hostname nohost"),
        ("h2:1,10.77.0.12:1", r"h2 and 10\.77\.0\.12 are the same host"),
        ("h2:1,10.77.0.99:1", r"no answer from 10\.77\.0\.99: ssh: connect to host 10\.77\.0\.99"),
    ],
)
def test_hosts_that_cannot_be_used_are_named_before_anything_starts(
    study: Callable[..., Tune], hosts: str, said: str
) -> None:
    tune = study(0, "--hosts", hosts)
    code, printed = tune.end()
    assert code in {2, 3}
    assert re.search(said, printed), printed
    assert not (tune.folder / "study.db").exists()


def test_a_host_is_measured_by_one_study_at_a_time(
    bench: Bench, folder: Path, study: Callable[..., Tune]
) -> None:
    tune = study(100, "--hosts", "h3:1")
    eventually(lambda: ["sleep", "1000", ""] in bench.processes("h3").values())
    other = ["--name", "other", "--storage", str(folder / "other.db")]
    command = tune.words.index("--")
    words = [*tune.words[:command], *other, *tune.words[command:]]
    done = bench.run("h2", *words, check=False)
    assert done.returncode == 5
    assert re.search(r"h3 is measuring for process \d+ \(study study\)", done.stderr)
    tune.kill("h1", "--hosts")
