"""A study on the hosts of a bench, as tests and campaigns start it."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

from tests.hosts.several.bench import Bench
from tuner.model import LaunchRecord, Telemetry
from tuner.model.errors import UsageError
from tuner.store.store import Store
from tuner.store.urls import resolve_url

#: A rank that has a daemon of its own, in a session of its own, and computes for a while.
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

#: How programs begin of which rank 0 writes Chainer's log: they call ``ended`` after an iteration.
LOGGING = """
import json, os, sys, time
from mpi4py import MPI
world, out, log, begun_s = MPI.COMM_WORLD, sys.argv[1], [], time.monotonic()
def ended():
    log.append({"iteration": len(log) + 1, "elapsed_time": time.monotonic() - begun_s})
    if world.rank == 0:
        with open(out + "/draft", "w") as draft:
            json.dump(log, draft)
        os.replace(out + "/draft", out + "/log")
"""

#: Options that make few launches: a setting, the baseline, and what leaves a knob out.
SHORT = ("--warm-ups", "0", "--no-confirm", "--trials", "1", "--knob", "omp_threads=1,2")

#: A word of an agent.
AGENT = "import base64,zlib;exec("

#: What can be lost, and how: a host, a word of a command on it, a signal.
LOSSES = {
    "tune": ("h1", "--hosts", signal.SIGKILL),
    "mpirun": ("h1", "prterun", signal.SIGKILL),
    "an ssh of mpirun": ("h1", "ssh h3", signal.SIGKILL),
    "a session of sshd": ("h3", "sshd: root@", signal.SIGKILL),
    "a rank": ("h2", "program.py", signal.SIGKILL),
    "the daemon of the MPI": ("h3", "prted", signal.SIGKILL),
    "an agent": ("h2", AGENT, signal.SIGKILL),
    "an agent that is stopped": ("h3", AGENT, signal.SIGSTOP),
}

#: ``tune`` beside this interpreter.
TUNE = str(Path(sys.executable).parent / "tune")


class StudyOnHosts:
    """``tune`` on the first host, over others; ``words`` are its options, and after ``--`` those
    of the program. By default it is :data:`PROGRAM`, which runs as long as the file `seconds` says.
    """

    def __init__(
        self, bench: Bench, folder: Path, *words: str, program: str = "", seconds: float = 0.3
    ) -> None:
        self.bench, self.folder = bench, folder
        (folder / "program.py").write_text(program or PROGRAM)
        self.let_it_run(seconds)
        options, arguments = list(words), [str(folder / "seconds")]
        if "--" in words:
            options, arguments = options[: words.index("--")], options[words.index("--") + 1 :]
        objective = () if program else ("--objective", "wall")
        self.storage = str(folder / "study.db")
        self.words = [TUNE, "--storage", self.storage, "--name", "study", *objective, *options,
                      "--", sys.executable, str(folder / "program.py"), *arguments]  # fmt: skip
        self.start()

    def let_it_run(self, seconds: float) -> None:
        """So long does :data:`PROGRAM` run in each launch from now on."""
        (self.folder / "seconds").write_text(str(seconds))

    def start(self) -> None:
        self.process = self.bench.start("h1", *self.words, env={**os.environ})

    def end(self, code: int = 0) -> str:
        """Wait for its end; all that it printed."""
        printed = "".join(self.process.communicate(timeout=200))
        assert self.process.returncode == code, printed
        return printed

    def records(self) -> list[LaunchRecord]:
        with (
            suppress(UsageError),  # there is no study yet
            Store.open(resolve_url(self.storage, {}), create=False) as store,
        ):
            return list(store.launches("study"))
        return []

    def telemetry(self, number: int) -> Telemetry | None:
        with Store.open(resolve_url(self.storage, {}), create=False) as store:
            return store.telemetry("study", number)

    def send(self, number: int, host: str, word: str) -> None:
        """Signal what has this in one of its words on a host, or whose command begins so."""
        processes = self.bench.processes(host, with_sessions=word.startswith("sshd")).items()
        pids = [pid for pid, argv in processes if _has(argv, word)]
        if not pids:
            raise LookupError(f"nothing on {host} has {word!r}")
        for pid in pids:
            with suppress(ProcessLookupError):  # it has ended with another one
                os.kill(pid, number)

    def kill_tune(self) -> None:
        """Kill ``tune`` itself, and wait until it is gone."""
        self.send(signal.SIGKILL, "h1", "--hosts")
        self.process.wait(timeout=20)

    def close(self) -> None:
        if self.process.poll() is None:
            self.kill_tune()

    def of_launch(self) -> set[int]:
        """All processes of the other hosts that are not agents."""
        processes = (self.bench.processes(host) for host in ("h2", "h3"))
        return {pid for some in processes for pid, argv in some.items() if not _has(argv, AGENT)}

    def is_running(self) -> bool:
        """Both ranks run, and have their daemons."""
        return all(
            ["sleep", "1000", ""] in self.bench.processes(host).values() for host in ("h2", "h3")
        )


def _has(argv: list[str], word: str) -> bool:
    return " ".join(argv).startswith(word) or any(word in each for each in argv)
