"""Why a launch failed: what launchers and programs print, taken from real runs."""

from __future__ import annotations

from tuner.launch.failure import LINE_CHARACTERS, TAIL_LINES, clean, explain, lost_host, tail
from tuner.model import FailureKind

MEMORY, THREADS = FailureKind.OUT_OF_MEMORY, FailureKind.THREADS
DISK, HOST, CRASHED = FailureKind.DISK_FULL, FailureKind.LOST_HOST, FailureKind.CRASHED
LAUNCHER = FailureKind.LAUNCHER

RULE = "-" * 74


def notice(text: str) -> str:
    return f"{RULE}\n{text}\n{RULE}\n"


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
  Daemon exit status: 255

This may also be caused by a firewall on the remote host. Please
check that any firewall (e.g., iptables) has been disabled and
try again.
{RULE[14:]}
"""
OPENMPI_4 = notice(
    "Primary job  terminated normally, but 1 process returned\na non-zero exit code."
)
HYDRA = """
===================================================================================
=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES
=   EXIT CODE: 11
===================================================================================
YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Segmentation fault (signal 11)
This typically refers to a problem with your application.
Please see the FAQ page for debugging suggestions
"""

CRASH_OVER_SSH = """[h2:06639] *** Process received signal ***
[h2:06639] Signal: Segmentation fault (11)
[h2:06639] Signal code: Address not mapped (1)
[h2:06639] [ 0] /lib/x86_64-linux-gnu/libc.so.6(+0x3c050)[0x7fd2d7b5c050]
[h2:06639] *** End of error message ***
"""


def of_open_mpi(where: str, what: str) -> str:
    words = (
        *(f"An error occurred in {where}", "reported by process [319094785,0]"),
        *("on a NULL communicator", what),
        "MPI_ERRORS_ARE_FATAL (processes in this communicator will now abort,",
        "   and MPI will try to terminate your MPI job as well)",
    )
    return "".join(f"[h1:00000] *** {each}\n" for each in words)


ADVICE = "Try 'sleep --help' for more information.\n"
LAMMPS = (  # its last line is not its reason
    "ERROR: Cannot open input script in.lj: No such file or directory (src/lammps.cpp:528)\n"
    "Last command: (unknown)\n"
)
NO_THREADS = "OpenBLAS blas_thread_init: pthread_create failed for thread 5 of 8: Resource"


def raised(line: str, code: str = "step()") -> str:
    return f'Traceback (most recent call last):\n  File "train.py", line 2\n    {code}\n{line}\n'


TRACEBACK = raised("ValueError: bad batch size")


def test_the_most_telling_line_is_the_reason() -> None:
    for code, text, kind, reason in (
        (1, TRACEBACK + ABNORMAL, CRASHED, "exit code 1: ValueError: bad batch size"),
        (3, ABNORMAL, CRASHED, "exit code 3: prterun detected that one or more"),
        (3, "no data here\n" + ABNORMAL, CRASHED, "exit code 3: no data here"),
        (3, "no data here\n" + OPENMPI_4, CRASHED, "exit code 3: no data here"),
        (1, LAMMPS, CRASHED, "1: ERROR: Cannot open input script in.lj: No such file"),
        (2, "a.py: error: no image\nbye\n", CRASHED, "2: a.py: error: no image"),
        (1, f"sleep: bad time\n{ADVICE}", CRASHED, "exit code 1: sleep: bad time"),
        (1, "Error:\nno image\n", CRASHED, "exit code 1: no image"),
        (139, "epoch 1\n" + SEGFAULT, CRASHED, "(SIGSEGV): prterun noticed that process"),
        (-9, "epoch 1\n", CRASHED, "killed by SIGKILL: epoch 1"),
        (11, "epoch 1" + HYDRA, CRASHED, "EXIT STRING: Segmentation fault"),
        (183, NO_PROGRAM, LAUNCHER, "executable: Executable: /nonexistent Node: host"),
        (127, "sh: 1: exec: train: not found", LAUNCHER, "train: not found"),
        (1, "MemoryError\n", MEMORY, "out of memory: MemoryError"),
        (1, NO_THREADS + "\nbye\n", THREADS, "could not start its threads"),
        (1, "  File 'x'\nSyntaxError: invalid syntax\n", CRASHED, "1: SyntaxError: in"),
        (14, of_open_mpi("Socket closed", "Unknown error"), CRASHED, "occurred in Socket closed"),
        (14, CRASH_OVER_SSH, CRASHED, "Signal: Segmentation fault (11)"),
        (6, of_open_mpi("MPI_Send", "MPI_ERR_RANK: invalid rank"), CRASHED, "MPI_ERR_RANK: inv"),
        (5, "", CRASHED, "exit code 5, and it printed nothing"),
    ):
        found = explain(code, text)
        assert reason in found.reason
        assert found.kind is kind


def test_output_is_made_safe_for_a_terminal_and_its_tail_is_short() -> None:
    assert clean("\x1b[31mred\x1b[0m\x07\r\n10%\r20%\ttab") == "red\n10%\n20%\ttab"
    assert clean("\x1b]0;a title\x07\x1b(Bred\x1b]8;;") == "red]8;;"
    assert len(clean("x" * 10_000)) == LINE_CHARACTERS
    lines = [str(number) for number in range(100)]
    assert tail("\n".join(lines) + "\n\n").split("\n") == lines[-TAIL_LINES:]


NO_SPACE = "No space left on device (28)"
BUS_ERROR = "ERROR: Unexpected bus error encountered in worker. This might be caused by "


def test_failures_have_kinds() -> None:
    for text, kind in (
        (raised("numpy._core._exceptions._ArrayMemoryError: Unable to allocate 9 TiB"), MEMORY),
        (raised("OSError: [Errno 12] Cannot allocate memory"), MEMORY),
        (raised("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried 2 GiB"), MEMORY),
        ("terminate called after throwing an instance of 'std::bad_alloc'\n", MEMORY),
        ("slurmstepd: error: Detected 1 oom_kill event in StepId=7.0.\nsrun: done\n", MEMORY),
        (raised("RuntimeError: unable to mmap </torch_1>: Cannot allocate memory (12)"), MEMORY),
        ("/bin/sh: 1: Cannot fork\n", THREADS),
        (raised("RuntimeError: can't start new thread"), THREADS),
        (raised("BlockingIOError: [Errno 11] Resource temporarily", "os.fork()"), THREADS),
        # Python 3.11 and later draw marks below the code.
        (raised("BlockingIOError: [Errno 11] Resource", "os.fork()\n    ~~~~^^^^"), THREADS),
        ("libgomp: Thread creation failed: Resource temporarily unavailable\n", THREADS),
        (NO_THREADS + "\n" + 8 * raised("KeyboardInterrupt"), THREADS),
        (raised("OSError: [Errno 28] No space left on device"), DISK),
        (raised("OSError: [Errno 122] Disk quota exceeded: 'log'"), DISK),
        ("cat: write error: No space left on device\n", DISK),
        ("ssh: connect to host h2 port 22: No route to host\n", HOST),
        (notice("PRTE has lost communication with a remote daemon."), HOST),
        (NO_DAEMON, HOST),
        (notice("An ORTE daemon has unexpectedly failed after launch"), HOST),
        ("[mpiexec@h1] control_cb (mpiexec/cb.c:280): assert (!closed) failed\n", HOST),
        # A word alone decides nothing.
        ("this trainer handles MemoryError gracefully\n" + TRACEBACK, CRASHED),
        ("MemoryError: caught, going on with less\n" + 10 * "step\n" + TRACEBACK, CRASHED),
        ("No space left on device? then use --tmp\n" + TRACEBACK, CRASHED),
        (raised("MemoryError") + "\nDuring handling of the above exception\n" + TRACEBACK, CRASHED),
        (raised("BlockingIOError: [Errno 11] Resource temporarily", "sock.recv(1)"), CRASHED),
        ("Out of memory is a film\n" + 10 * "step\n", CRASHED),
        (raised("RuntimeError: the pipe broke"), CRASHED),
    ):
        assert explain(1, text).kind is kind
        assert explain(1, "epoch 1\n" + text + ABNORMAL).kind is kind


def test_a_lost_host_is_named_in_whole_sentences() -> None:
    gone = "exit code 1: a host is gone or cannot be reached: "
    said = "A daemon failed to report back after being spawned: h3"
    assert explain(1, NO_DAEMON).reason == gone + said
    lost = notice(
        "PRTE has lost communication with a remote daemon.\n\n"
        "  HNP daemon   : [prterun-h1-166@0,0] on node h1\n"
        "  Remote daemon: [prterun-h1-166@0,2] on node h3\n\n"
        "This is usually due to either a failure of the TCP network"
    )
    said = "PRTE has lost communication with a remote daemon: h3"
    assert explain(1, lost).reason == gone + said
    assert lost_host(lost) == said
    # A rule of a program's is none of Open MPI's.
    assert explain(1, f"{RULE[14:]}\nstep 1\n{RULE[14:]}\nError: x\n").reason.endswith("Error: x")


def test_what_is_said_of_shared_memory_is_no_full_disk() -> None:
    for text in (
        raised(f"RuntimeError: unable to write to file </torch_4711_1>: {NO_SPACE}"),
        raised(f"RuntimeError: unable to open shared memory object </a>: {NO_SPACE}"),
        raised("OSError: '/dev/shm/joblib/1.pkl': No space left on device"),
        raised("OSError: [Errno 28] No space left on device", "SharedMemory(create=True)"),
        raised(
            "RuntimeError: DataLoader worker (pid 4711) is killed by signal: Bus error. It is"
            " possible that dataloader's workers are out of shared memory."
        ),
        BUS_ERROR + "insufficient shared memory (shm).\n" + 9 * "step\n",
    ):
        for whole in (text, "epoch 1\n" + text + ABNORMAL):
            found = explain(1, whole)
            assert found.kind is MEMORY and "the shared memory (/dev/shm) is full" in found.reason


def test_how_far_from_the_end_words_count() -> None:
    for text, kind in (
        ("mmap: Out of memory\n" + 4 * "step\n" + "step", CRASHED),
        ("mmap: Out of memory\n" + 3 * "step\n" + "step", MEMORY),
        ("libgomp: Out of memory allocating 8 bytes\n" + 100 * "step\n", MEMORY),
        (raised("MemoryError") + raised("RuntimeError: can't start new thread"), THREADS),
    ):
        assert explain(1, text).kind is kind


def test_a_kill_is_a_want_of_memory_if_the_kernel_counts_one() -> None:
    assert explain(137, KILLED).kind is CRASHED
    found = explain(137, KILLED, oom_kills=1)
    assert found.kind is MEMORY
    said = "exit code 137 (SIGKILL): ended by the kernel for want of memory: "
    assert found.reason.startswith(said)
    assert explain(1, KILLED, oom_kills=1).kind is MEMORY
    for text in ("", "epoch 1\n", TRACEBACK + ABNORMAL):
        assert explain(1, text, oom_kills=1).kind is CRASHED
        assert explain(1, text, oom_kills=1, certain=True).kind is MEMORY
    threads = raised("RuntimeError: can't start new thread")
    assert explain(1, threads, oom_kills=1, certain=True).kind is THREADS, "it tells more"
    # The count may be that of a group that others are in too.
    for code, text in ((139, ""), (-11, ""), (139, SEGFAULT), (11, HYDRA)):
        assert explain(code, "epoch 1\n" + text, oom_kills=1, certain=True).kind is CRASHED


POOL = "concurrent.futures.process.BrokenProcessPool: A process in the process pool was terminated"


def test_so_is_a_killed_worker_that_the_program_tells_of() -> None:
    for line in (
        "RuntimeError: DataLoader worker (pid 4711) is killed by signal: Killed.",
        "RuntimeError: DataLoader worker (pid(s) 4711) exited unexpectedly",
        POOL + " abruptly while the future was running or pending.",
        "joblib.externals.loky.process_executor.TerminatedWorkerError: A worker process managed",
    ):
        assert explain(1, raised(line) + ABNORMAL).kind is CRASHED
        found = explain(1, raised(line) + ABNORMAL, oom_kills=1)
        assert found.kind is MEMORY
        assert found.reason == f"exit code 1: ended by the kernel for want of memory: {line}"


def test_only_the_launcher_tells_that_it_could_not_launch() -> None:
    for text, kind in (
        (notice("An unrecognized option was included on the mpirun command line:"), LAUNCHER),
        ("epoch 1\n" + notice("There are not enough slots available in the system"), LAUNCHER),
        ("[proxy:0@h1] HYDU_create_process (lib/launch.c:73): execvp error on file x", LAUNCHER),
        ("[mpiexec@h1] match_arg (lib/utils/args.c:166): unrecognized argument foo", LAUNCHER),
        ("usage: t.py [-h]\nt.py: error: unrecognized arguments: -c 1\n", CRASHED),
        ("could not find an executable for ffmpeg\n" + TRACEBACK, CRASHED),
        ("t.py: unrecognized option '--colour'\n" + ABNORMAL, CRASHED),
    ):
        assert explain(2, text).kind is kind


def test_the_tags_of_ranks_are_not_their_words() -> None:
    for tag in (
        "[1,0]<stderr>:",  # Open MPI 4
        "[prterun-host-1@1,0][host:32396]<stderr>: ",  # Open MPI 5, --output tag-detailed
        "[0] ",  # Hydra -prepend-rank
    ):
        tagged = "".join(tag + line + "\n" for line in raised("MemoryError").splitlines())
        found = explain(1, tagged + ABNORMAL)
        assert found == (MEMORY, "exit code 1: out of memory: MemoryError", "MemoryError")
        assert explain(1, tag + "no data\n" + ABNORMAL).reason == "exit code 1: no data"


# --- torchrun 2.13 --------------------------------------------------------------------------------

STARS = "*" * 41
BANNER = (
    f"\n{STARS}\nSetting OMP_NUM_THREADS environment variable for each process to be 1\n{STARS}\n"
)
API = "lib/python3.11/site-packages/torch/distributed/elastic/multiprocessing/api.py"
MODULE = "torch.distributed.elastic.multiprocessing"
SENDING = f"W1122 05:11:53.381000 30287 {API}:1028] Sending process 30298 closing signal SIGTERM\n"
LAUNCH_TRACEBACK = raised("", "raise ChildFailedError(").rstrip() + "\n"
STOPPED = f"{SENDING}{LAUNCH_TRACEBACK}{MODULE}.api.SignalException: Process 7856 got signal: 15\n"
NO_PORT = """Traceback (most recent call last):
  File "lib/python3.11/site-packages/torch/distributed/run.py", line 1028, in main
    run(args)
torch.distributed.DistNetworkError: The server socket has failed to listen on any local network \
address. port: 29577, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use
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
  traceback : Signal 15 (SIGTERM) received by PID 30298
{"-" * 60}
Root Cause (first observed failure):
[0]:
  time      : 2026-11-22_05:11:53
  rank      : 1 (local_rank: 1)
  exitcode  : {code} (pid: 30299) {name}
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
{"=" * 60}
"""


RAISED = raised("ValueError: a bad thing")
GONE = raised("RuntimeError: Connection closed by peer [127.0.0.1]:30125", "loss.backward()")


def tagged(rank: int, text: str) -> str:
    return "".join(f"[rank{rank}]: {line}\n" for line in text.splitlines())


BOTH = tagged(1, RAISED) + tagged(0, GONE)
USAGE = "usage: torchrun\ntorchrun: error: no such option"


def test_under_torchrun_the_ranks_own_words_are_the_reason() -> None:
    unset = "rendezvous: environment variable RANK expected, but not set"
    for text, kind, reason in (
        (raised(f"ValueError: env:// {unset}"), CRASHED, "(--launcher torchrun sets it for each"),
        (RAISED + failed(1), CRASHED, "exit code 1: ValueError: a bad thing"),
        ("no data here\n" + failed(3), CRASHED, "exit code 3: no data here"),
        (failed(3), CRASHED, "exit code 3: rank 1 was the first to end"),
        ("epoch 1\n" + failed(-9, "(SIGKILL)"), CRASHED, "killed by SIGKILL: rank 1 was killed"),
        (GONE + failed(-11, "(SIGSEGV)"), CRASHED, "killed by SIGSEGV: rank 1 was killed"),
        (BOTH + failed(1), CRASHED, "exit code 1: ValueError: a bad thing"),
        (tagged(0, GONE), CRASHED, "exit code 1: RuntimeError: Connection closed"),
        ("sh: 1: exec: train: not found\n" + failed(127), LAUNCHER, "code 127: sh: 1"),
        ("MemoryError\n" + failed(1), MEMORY, "out of memory: MemoryError"),
        (NO_PORT, LAUNCHER, "DistNetworkError: The server socket has failed to listen"),
        (USAGE, LAUNCHER, "no such option"),
        ("epoch 1\n" + failed(3) + "epoch 2", CRASHED, "exit code 3: epoch 2"),
        (STOPPED, FailureKind.INTERRUPTED, "torchrun was ended by SIGTERM from outside"),
    ):
        found = explain(1, BANNER + text)
        assert found.kind is kind
        assert reason in found.reason
        killed = explain(1, BANNER + failed(-9, "(SIGKILL)"), oom_kills=1)
        assert killed.kind is MEMORY and "by the kernel for want of memory" in killed.reason
