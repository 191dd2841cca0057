"""Why a launch failed: what launchers and programs print, taken from real runs."""

from __future__ import annotations

import pytest

from tuner.launch.failure import LINE_CHARACTERS, TAIL_LINES, clean, death, explain, lost_host, tail
from tuner.model import FailureKind

MEMORY, THREADS = FailureKind.OUT_OF_MEMORY, FailureKind.THREADS
DISK, HOST, CRASHED = FailureKind.DISK_FULL, FailureKind.LOST_HOST, FailureKind.CRASHED
LAUNCHER = FailureKind.LAUNCHER

RULE = "-" * 74


def notice(text: str) -> str:
    return f"{RULE}\n{text}\n{RULE}\n"


def raised(line: str, code: str = "step()") -> str:
    return f'Traceback (most recent call last):\n  File "train.py", line 2\n    {code}\n{line}\n'


# Open MPI 5.0.11 and 4.1.4, MPICH.
ABNORMAL = notice(
    "prterun detected that one or more processes exited with non-zero status,\n"
    "thus causing the job to be terminated. The first process to do so was:\n\n"
    "   Process name: [prterun-host-12216@1,1]\n   Exit code:    3"
)
SEGFAULT = notice("prterun noticed that process rank 1 exited on\nsignal 11 (Segmentation fault).")
KILLED = notice("prterun noticed that process rank 1 exited on\nsignal 9 (Killed).")
NO_PROGRAM = notice(
    "prterun was unable to launch the specified application as it could not\n"
    "access an executable:\n\n   Executable: /nonexistent\n   Node: host"
)
NO_DAEMON = f"""{RULE[14:]}
A daemon failed to report back after being spawned. This could
be because the daemon failed to start, or because of a failure to establish a
TCP connection
back to prterun:

  Local host:    h1
  Remote host:   h3
{RULE[14:]}
"""
LOST = notice(
    "PRTE has lost communication with a remote daemon.\n\n"
    "  HNP daemon   : [prterun-h1-166@0,0] on node h1\n"
    "  Remote daemon: [prterun-h1-166@0,2] on node h3\n"
)
HYDRA = """
===================================================================================
=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES
=   EXIT CODE: 11
===================================================================================
YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Segmentation fault (signal 11)
This typically refers to a problem with your application.
"""
CRASH_OVER_SSH = """[h2:06639] *** Process received signal ***
[h2:06639] Signal: Segmentation fault (11)
[h2:06639] [ 0] /lib/x86_64-linux-gnu/libc.so.6(+0x3c050)[0x7fd2d7b5c050]
[h2:06639] *** End of error message ***
"""
MPI_ERROR = "".join(
    f"[h1:00000] *** {line}\n"
    for line in (
        "An error occurred in MPI_Send",
        "reported by process [319094785,0]",
        "on communicator MPI_COMM_WORLD",
        "MPI_ERR_RANK: invalid rank",
        "MPI_ERRORS_ARE_FATAL (processes in this communicator will now abort,",
    )
)
LAMMPS = (  # its last line is not its reason
    "ERROR: Cannot open input script in.lj: No such file or directory (src/lammps.cpp:528)\n"
    "Last command: (unknown)\n"
)
NO_THREADS = "OpenBLAS blas_thread_init: pthread_create failed for thread 5 of 8: Resource"
TRACEBACK = raised("ValueError: bad batch size")


@pytest.mark.parametrize(
    ("code", "text", "kind", "reason"),
    [
        (1, TRACEBACK + ABNORMAL, CRASHED, "exit code 1: ValueError: bad batch size"),
        (1, LAMMPS, CRASHED, "1: ERROR: Cannot open input script in.lj: No such file"),
        (139, "epoch 1\n" + SEGFAULT, CRASHED, "(SIGSEGV): prterun noticed that process"),
        (11, "epoch 1" + HYDRA, CRASHED, "EXIT STRING: Segmentation fault"),
        (183, NO_PROGRAM, LAUNCHER, "executable: Executable: /nonexistent Node: host"),
        (127, "sh: 1: exec: train: not found", LAUNCHER, "train: not found"),
        (1, NO_THREADS + "\nbye\n", THREADS, "could not start its threads"),
        (14, CRASH_OVER_SSH, CRASHED, "Signal: Segmentation fault (11)"),
        (6, MPI_ERROR, CRASHED, "MPI_ERR_RANK: inv"),
        (5, "", CRASHED, "exit code 5, and it printed nothing"),
    ],
)
def test_a_telling_line_is_the_reason(code: int, text: str, kind: FailureKind, reason: str) -> None:
    explanation = explain(code, text)
    assert reason in explanation.reason
    assert explanation.kind is kind


def test_output_is_made_safe_for_a_terminal_and_its_tail_is_short() -> None:
    assert clean("\x1b[31mred\x1b[0m\x07\r\n10%\r20%\ttab") == "red\n10%\n20%\ttab"
    assert clean("\x1b]0;a title\x07\x1b(Bred\x1b]8;;") == "red]8;;"
    assert len(clean("x" * 10_000)) == LINE_CHARACTERS
    lines = [str(number) for number in range(100)]
    assert tail("\n".join(lines) + "\n\n").split("\n") == lines[-TAIL_LINES:]


NO_SPACE = "No space left on device (28)"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (raised("numpy._core._exceptions._ArrayMemoryError: Unable to allocate 9 TiB"), MEMORY),
        ("terminate called after throwing an instance of 'std::bad_alloc'\n", MEMORY),
        ("slurmstepd: error: Detected 1 oom_kill event in StepId=7.0.\nsrun: done\n", MEMORY),
        (raised("RuntimeError: can't start new thread"), THREADS),
        (raised("BlockingIOError: [Errno 11] Resource", "os.fork()\n    ~~~~^^^^"), THREADS),
        (raised("OSError: [Errno 122] Disk quota exceeded: 'log'"), DISK),
        ("cat: write error: No space left on device\n", DISK),
        ("ssh: connect to host h2 port 22: No route to host\n", HOST),
        (LOST, HOST),
        # Shared memory is no disk.
        (raised(f"RuntimeError: unable to write to file </torch_4711_1>: {NO_SPACE}"), MEMORY),
        (raised(f"OSError: [Errno 28] {NO_SPACE}", "SharedMemory(create=True)"), MEMORY),
        # A word alone decides nothing.
        ("this trainer handles MemoryError gracefully\n" + TRACEBACK, CRASHED),
        (raised("MemoryError") + "\nDuring handling of the above exception\n" + TRACEBACK, CRASHED),
    ],
)
def test_failures_have_kinds(text: str, kind: FailureKind) -> None:
    assert explain(1, text).kind is kind
    assert explain(1, "epoch 1\n" + text + ABNORMAL).kind is kind


def test_a_lost_host_is_named_in_whole_sentences() -> None:
    gone = "exit code 1: a host is gone or cannot be reached: "
    assert explain(1, NO_DAEMON).reason == f"{gone}A daemon failed to report back after being" + (
        " spawned: h3"
    )
    assert lost_host(LOST) == "PRTE has lost communication with a remote daemon: h3"
    assert explain(1, LOST).reason == gone + lost_host(LOST)
    # A rule of a program's is none of Open MPI's.
    assert explain(1, f"{RULE[14:]}\nstep 1\n{RULE[14:]}\nError: x\n").reason.endswith("Error: x")


def test_a_kill_is_a_want_of_memory_if_the_kernel_counts_one() -> None:
    assert explain(137, KILLED).kind is CRASHED
    explanation = explain(137, KILLED, oom_kills=1)
    said = "exit code 137 (SIGKILL): ended by the kernel for want of memory: "
    assert explanation.kind is MEMORY and explanation.reason.startswith(said)
    intel = HYDRA.replace("EXIT CODE: 11", "KILLED BY SIGNAL: 9 (Killed)")
    assert explain(9, intel, oom_kills=1).kind is MEMORY
    worker = raised("RuntimeError: DataLoader worker (pid 4711) is killed by signal: Killed.")
    assert explain(1, worker).kind is CRASHED
    assert explain(1, worker, oom_kills=1).kind is MEMORY
    # The count is that of a group that others are in too.
    for code, text in ((1, TRACEBACK + ABNORMAL), (139, ""), (139, SEGFAULT), (11, HYDRA)):
        assert explain(code, "epoch 1\n" + text, oom_kills=1).kind is CRASHED


# --- torchrun 2.13 --------------------------------------------------------------------------------

STARS = "*" * 41
BANNER = f"\n{STARS}\nSetting OMP_NUM_THREADS environment variable for each process to 1\n{STARS}\n"
API = "lib/python3.11/site-packages/torch/distributed/elastic/multiprocessing/api.py"
MODULE = "torch.distributed.elastic.multiprocessing"
SENDING = f"W1122 05:11:53.381000 30287 {API}:1028] Sending process 30298 closing signal SIGTERM\n"
LAUNCH_TRACEBACK = raised("", "raise ChildFailedError(").rstrip() + "\n"
NO_PORT = """Traceback (most recent call last):
  File "lib/python3.11/site-packages/torch/distributed/run.py", line 1028, in main
    run(args)
torch.distributed.DistNetworkError: The server socket has failed to listen on any local network
"""


def failed(code: int, name: str = "") -> str:
    """Torchrun's end after rank 1 ended with ``code``."""
    return f"""\
{SENDING}{LAUNCH_TRACEBACK}{MODULE}.errors.ChildFailedError:
{"=" * 60}
/bin/sh FAILED
{"-" * 60}
Failures:
[1]:
  rank      : 0 (local_rank: 0)
  exitcode  : -15 (pid: 30298)  (SIGTERM)
{"-" * 60}
Root Cause (first observed failure):
[0]:
  rank      : 1 (local_rank: 1)
  exitcode  : {code} (pid: 30299) {name}
{"=" * 60}
"""


GONE = raised("RuntimeError: Connection closed by peer [127.0.0.1]:30125", "loss.backward()")


def tagged(rank: int, text: str) -> str:
    return "".join(f"[rank{rank}]: {line}\n" for line in text.splitlines())


UNSET = "ValueError: env:// rendezvous: environment variable RANK expected, but not set"


@pytest.mark.parametrize(
    ("text", "kind", "reason"),
    [
        (raised(UNSET), CRASHED, "(--launcher torchrun sets it for each"),
        (TRACEBACK + failed(1), CRASHED, "exit code 1: ValueError: bad batch size"),
        (GONE + failed(-11, "(SIGSEGV)"), CRASHED, "killed by SIGSEGV: rank 1 was killed"),
        (tagged(1, TRACEBACK) + tagged(0, GONE) + failed(1), CRASHED, "1: ValueError: bad batch"),
        (NO_PORT, LAUNCHER, "DistNetworkError: The server socket has failed to listen"),
    ],
)
def test_under_torchrun_ranks_say_the_reason(text: str, kind: FailureKind, reason: str) -> None:
    explanation = explain(1, BANNER + text)
    assert explanation.kind is kind and reason in explanation.reason


# --- a death behind exit code 0 -------------------------------------------------------------------

BEHIND = "ValueError: halo of 4"
HALO = raised(BEHIND, 'raise ValueError("halo of 4")\n    ~~~~^^^')


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f"model starts\n{HALO}", BEHIND),
        ("".join(line * 2 for line in HALO.splitlines(keepends=True)), BEHIND),  # of two ranks
        (tagged(1, HALO), BEHIND),
        ("usage: model.py [--chunk N]\nmodel.py: error: argument --chunk: invalid choice: 4\n",
         "model.py: error: argument --chunk: invalid choice: 4"),
        ("run.sh: line 3: 71 Segmentation fault      (core dumped) ./solver\n",
         "run.sh: line 3: 71 Segmentation fault      (core dumped) ./solver"),
        ("Bus error\n\nreal\t0m0.1s\nuser\t0m0.0s\nsys\t0m0.0s\n", "Bus error"),
        (KILLED, "prterun noticed that process rank 1 exited on signal 9 (Killed)."),
        (CRASH_OVER_SSH, "[h2:06639] *** Process received signal ***"),
        (HYDRA, "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES"),
        (MPI_ERROR, "[h1:00000] *** An error occurred in MPI_Send"),
        ("Abort(7) on node 0 (rank 0 in comm 0): Fatal error in PMPI_Recv: error stack:\n"
         "PMPI_Recv(177)........: MPI_Recv(src=5, MPI_COMM_WORLD) failed\n",
         "Abort(7) on node 0 (rank 0 in comm 0): Fatal error in PMPI_Recv: error stack:"),
        ("Fortran runtime error: End of file\n\nError termination. Backtrace:\n#0  0x7f in ???\n",
         "Fortran runtime error: End of file"),
        ("forrtl: severe (174): SIGSEGV, segmentation fault occurred\n"
         "Image              PC                Routine            Line        Source\n"
         "a.out              000000000040A3B4  Unknown               Unknown  Unknown\n",
         "forrtl: severe (174): SIGSEGV, segmentation fault occurred"),
        *[(f"{line}\n", line) for line in (
            "corrupted size vs. prev_size", "malloc(): corrupted top size",
            "munmap_chunk(): invalid pointer",
            "[h1:mpi_rank_0][error_sighandler] Caught error: Segmentation fault (signal 11)")],
    ],
)  # fmt: skip
def test_an_output_that_ends_in_a_death(text: str, line: str) -> None:
    assert death(text, has_figure=True) == line
    assert death(f"{text}step 2\nstep 3\n", has_figure=False) == "", "the program went on"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "STOP converged\n",
        "Error: 0.001\nMax error 3e-4\n",
        "run.sh: line 9: 71 Killed                  ./monitor\n",
        f"done\nException ignored in: <function Pool.__del__ at 0x7f>\n{HALO}",
        f"done\nError in atexit._run_exitfuncs:\n{HALO}",
        f"{HALO}done\n",
        f"{HALO}  epoch 1\n",
        f"the figures\n{RULE}\na table\n{RULE}\n",
    ],
)
def test_what_is_no_death(text: str) -> None:
    assert death(text, has_figure=False) == ""


@pytest.mark.parametrize("above", ["Exception in thread Thread-1 (load):", "Process Process-2:"])
def test_a_part_that_died_is_a_death_if_no_figure_shows_that_the_work_was_done(above: str) -> None:
    text = f"done\n{above}\n{HALO}"
    assert death(text, has_figure=False) == BEHIND
    assert death(text, has_figure=True) == ""
