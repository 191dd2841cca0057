"""What torchrun prints, taken from real runs of torch 2.13."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.launch import torchrun_errors
from tuner.launch.crash import explain
from tuner.launch.torchrun_errors import Root
from tuner.model import FailureKind

STARS = "*" * 41
BANNER = f"""
{STARS}
Setting OMP_NUM_THREADS environment variable for each process to be 1 in default, to avoid your \
system being overloaded, please further tune the variable for optimal performance in your \
application as needed.
{STARS}
"""
API = "lib/python3.11/site-packages/torch/distributed/elastic/multiprocessing/api.py"
MODULE = "torch.distributed.elastic.multiprocessing"
TRACEBACK = """Traceback (most recent call last):
  File "<frozen runpy>", line 198, in _run_module_as_main
  File "lib/python3.11/site-packages/torch/distributed/launcher/api.py", line 383, in launch_agent
    raise ChildFailedError(
"""
STOPPED = f"""W1122 05:11:53.381000 30287 {API}:1028] Sending process 30298 closing signal SIGTERM
{TRACEBACK}{MODULE}.api.SignalException: Process 7856 got signal: 15
"""

NO_PORT = """Traceback (most recent call last):
  File "lib/python3.11/site-packages/torch/distributed/run.py", line 1028, in main
    run(args)
  File "lib/python3.11/site-packages/torch/distributed/elastic/rendezvous/static.py", line 67
    self._store = TCPStore(
torch.distributed.DistNetworkError: The server socket has failed to listen on any local network \
address. port: 29577, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use
"""


def failed(code: int, name: str = "") -> str:
    """Torchrun's end after rank 1 ended with ``code``."""
    return f"""\
W1122 05:11:53.381000 30287 {API}:1028] Sending process 30298 closing signal SIGTERM
E1122 05:11:53.383000 30287 {API}:1002] failed (exitcode: {code}) local_rank: 1 (pid: 30299) of \
binary: /bin/sh
{TRACEBACK}{MODULE}.errors.ChildFailedError:
{"=" * 60}
/bin/sh FAILED
{"-" * 60}
Failures:
[1]:
  time      : 2026-11-22_05:11:53
  host      : localhost
  rank      : 0 (local_rank: 0)
  exitcode  : -15 (pid: 30298)  (SIGTERM)
  error_file: <N/A>
  traceback : Signal 15 (SIGTERM) received by PID 30298
{"-" * 60}
Root Cause (first observed failure):
[0]:
  time      : 2026-11-22_05:11:53
  host      : localhost
  rank      : 1 (local_rank: 1)
  exitcode  : {code} (pid: 30299) {name}
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
{"=" * 60}
"""


RAISED = """Traceback (most recent call last):
  File "train.py", line 5, in <module>
    raise ValueError("a bad thing")
ValueError: a bad thing
"""
GONE = """Traceback (most recent call last):
  File "train.py", line 9, in <module>
    loss.backward()
RuntimeError: Connection closed by peer [127.0.0.1]:30125
"""


def tagged(rank: int, text: str) -> str:
    return "".join(f"[rank{rank}]: {line}\n" for line in text.splitlines())


@pytest.mark.parametrize(
    ("text", "kind", "reason"),
    [
        (RAISED + failed(1), FailureKind.CRASHED, "exit code 1: ValueError: a bad thing"),
        ("no data here\n" + failed(3), FailureKind.CRASHED, "exit code 3: no data here"),
        (failed(3), FailureKind.CRASHED, "exit code 3: rank 1 was the first to end"),
        ("epoch 1\n" + failed(-9, "(SIGKILL)"), FailureKind.CRASHED, "killed by SIGKILL: rank 1"),
        (GONE + failed(-11, "(SIGSEGV)"), FailureKind.CRASHED, "killed by SIGSEGV: rank 1"),
        (
            tagged(1, RAISED) + tagged(0, GONE) + failed(1),
            FailureKind.CRASHED,
            "exit code 1: ValueError: a bad thing",
        ),
        (tagged(0, GONE), FailureKind.CRASHED, "exit code 1: RuntimeError: Connection closed"),
        ("sh: 1: exec: train: not found\n" + failed(127), FailureKind.LAUNCHER, "code 127: sh: 1"),
        ("MemoryError\n" + failed(1), FailureKind.OUT_OF_MEMORY, "out of memory: MemoryError"),
        (NO_PORT, FailureKind.LAUNCHER, "DistNetworkError: The server socket has failed to listen"),
        (
            "usage: torchrun\ntorchrun: error: no such option",
            FailureKind.LAUNCHER,
            "no such option",
        ),
        (STOPPED, FailureKind.INTERRUPTED, "torchrun was ended by SIGTERM from outside"),
    ],
)
def test_the_ranks_own_words_are_the_reason(text: str, kind: FailureKind, reason: str) -> None:
    found_kind, found = explain(1, BANNER + text)
    assert found_kind is kind
    assert reason in found


def test_a_rank_that_was_killed_for_memory() -> None:
    kind, reason = explain(1, BANNER + failed(-9, "(SIGKILL)"), oom_kills=1)
    assert kind is FailureKind.OUT_OF_MEMORY
    assert "ended by the kernel for want of memory" in reason
    kind, _ = explain(1, BANNER + failed(1), oom_kills=1)
    assert kind is FailureKind.CRASHED


def test_nothing_of_torchrun_is_taken_for_the_ranks() -> None:
    told = torchrun_errors.read((BANNER + "epoch 1\n" + failed(-9) + "epoch 2").split("\n"))
    assert [line for line in told.own if line] == ["epoch 1", "epoch 2"]
    assert told.root == Root(1, -9)


@given(st.text(alphabet="abc:=-[]\n "))
def test_other_programs_keep_every_line(text: str) -> None:
    lines = text.split("\n")
    assert torchrun_errors.read(lines) == torchrun_errors.Told(lines)
