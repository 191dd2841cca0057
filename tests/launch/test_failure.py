from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.launch.failure import LINE_CHARACTERS, clean, ended, explain
from tuner.model import FailureKind

RULE = "-" * 74

# What Open MPI 5.0.11 prints, taken from real runs.
ABNORMAL = f"""{RULE}
prterun detected that one or more processes exited with non-zero status,
thus causing the job to be terminated. The first process to do so was:

   Process name: [prterun-host-12216@1,1]
   Exit code:    3
{RULE}
"""
KILLED = f"""{RULE}
prterun noticed that process rank 1 with PID 12257 on node host exited on
signal 11 (Segmentation fault).
{RULE}
"""
NO_PROGRAM = f"""{RULE}
prterun was unable to launch the specified application as it could not
access an executable:

   Executable: /nonexistent
   Node: host

while attempting to start process rank 0.
{RULE}
"""
TRACEBACK = """Traceback (most recent call last):
  File "train.py", line 2, in <module>
    raise ValueError("bad batch size")
ValueError: bad batch size
"""
HYDRA = """
===================================================================================
=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES
=   PID 123 RUNNING AT host
=   EXIT CODE: 11
=   CLEANING UP REMAINING PROCESSES
=   YOU CAN IGNORE THE BELOW CLEANUP MESSAGES
===================================================================================
YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Segmentation fault (signal 11)
This typically refers to a problem with your application.
Please see the FAQ page for debugging suggestions
"""
NO_THREADS = (
    "OpenBLAS blas_thread_init: pthread_create failed for thread 5 of 8: "
    "Resource temporarily unavailable"
)


# The same by Open MPI 4.1.4; and LAMMPS, whose last line is not its reason.
OPENMPI_4 = (
    "--------------------------------------------------------------------------\n"
    "Primary job  terminated normally, but 1 process returned\n"
    "a non-zero exit code. Per user-direction, the job has been aborted.\n"
    "--------------------------------------------------------------------------\n"
)
ADVICE = "Try 'sleep --help' for more information.\n"
LAMMPS = (
    "LAMMPS (29 Sep 2021 - Update 2)\n"
    "ERROR: Cannot open input script in.lj: No such file or directory (src/lammps.cpp:528)\n"
    "Last command: (unknown)\n"
)


@pytest.mark.parametrize(
    ("code", "text", "kind", "reason"),
    [
        (1, TRACEBACK + ABNORMAL, FailureKind.CRASHED, "exit code 1: ValueError: bad batch size"),
        (3, ABNORMAL, FailureKind.CRASHED, "exit code 3: prterun detected that one or more"),
        (3, "no data here\n" + ABNORMAL, FailureKind.CRASHED, "exit code 3: no data here"),
        (3, "no data here\n" + OPENMPI_4, FailureKind.CRASHED, "exit code 3: no data here"),
        (1, LAMMPS, FailureKind.CRASHED, "1: ERROR: Cannot open input script in.lj: No such file"),
        (2, "a.py: error: no image\nbye\n", FailureKind.CRASHED, "2: a.py: error: no image"),
        (1, f"sleep: bad time\n{ADVICE}", FailureKind.CRASHED, "exit code 1: sleep: bad time"),
        (1, "Error:\nno image\n", FailureKind.CRASHED, "exit code 1: no image"),
        (139, "epoch 1\n" + KILLED, FailureKind.CRASHED, "(SIGSEGV): prterun noticed that process"),
        (-9, "epoch 1\n", FailureKind.CRASHED, "killed by SIGKILL: epoch 1"),
        (11, "epoch 1" + HYDRA, FailureKind.CRASHED, "EXIT STRING: Segmentation fault"),
        (183, NO_PROGRAM, FailureKind.LAUNCHER, "executable: Executable: /nonexistent Node: host"),
        (127, "sh: 1: exec: train: not found", FailureKind.LAUNCHER, "train: not found"),
        (1, "MemoryError\n", FailureKind.OUT_OF_MEMORY, "out of memory: MemoryError"),
        (1, NO_THREADS + "\nbye\n", FailureKind.THREADS, "could not start its threads"),
        (1, "  File 'x'\nSyntaxError: invalid syntax\n", FailureKind.CRASHED, "1: SyntaxError: in"),
        (5, "", FailureKind.CRASHED, "exit code 5, and it printed nothing"),
    ],
)
def test_the_most_telling_line_is_the_reason(
    code: int | None, text: str, kind: FailureKind, reason: str
) -> None:
    found = explain(code, text)
    assert reason in found.reason
    assert found.kind is kind


def test_output_is_made_safe_for_a_terminal() -> None:
    assert clean("\x1b[31mred\x1b[0m\x07\r\n10%\r20%\ttab") == "red\n10%\n20%\ttab"
    assert len(clean("x" * 10_000)) == LINE_CHARACTERS


@given(
    st.none() | st.integers(-300, 300), st.text() | st.binary().map(lambda b: b.decode("latin-1"))
)
def test_any_output_has_a_reason_of_one_line(code: int | None, text: str) -> None:
    reason = explain(code, clean(text)).reason
    assert reason.startswith(ended(code))
    assert "\n" not in reason
    assert not any(ord(character) < 32 and character != "\t" for character in reason)


def raised(line: str, code: str = "step()") -> str:
    return f'Traceback (most recent call last):\n  File "train.py", line 2\n    {code}\n{line}\n'


MEMORY, THREADS = FailureKind.OUT_OF_MEMORY, FailureKind.THREADS
DISK, HOST, CRASHED = FailureKind.DISK_FULL, FailureKind.LOST_HOST, FailureKind.CRASHED


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (raised("numpy._core._exceptions._ArrayMemoryError: Unable to allocate 9 TiB"), MEMORY),
        (raised("OSError: [Errno 12] Cannot allocate memory"), MEMORY),
        (raised("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried 2 GiB"), MEMORY),
        ("terminate called after throwing an instance of 'std::bad_alloc'\n", MEMORY),
        ("slurmstepd: error: Detected 1 oom_kill event in StepId=7.0.\nsrun: done\n", MEMORY),
        ("/bin/sh: 1: Cannot fork\n", THREADS),
        (raised("RuntimeError: can't start new thread"), THREADS),
        (
            raised("BlockingIOError: [Errno 11] Resource temporarily unavailable", "os.fork()"),
            THREADS,
        ),
        ("libgomp: Thread creation failed: Resource temporarily unavailable\n", THREADS),
        (NO_THREADS + "\n" + 8 * raised("KeyboardInterrupt"), THREADS),
        (raised("OSError: [Errno 28] No space left on device"), DISK),
        (raised("OSError: [Errno 122] Disk quota exceeded: 'log'"), DISK),
        ("cat: write error: No space left on device\n", DISK),
        (raised("OSError: [Errno 28] No space left on device: '/dev/shm/psm'"), MEMORY),
        ("ssh: connect to host h2 port 22: No route to host\n", HOST),
        (f"{RULE}\nPRTE has lost communication with a remote daemon.\n{RULE}\n", HOST),
        (f"{RULE}\nAn ORTE daemon has unexpectedly failed after launch\n{RULE}\n", HOST),
        ("[mpiexec@h1] control_cb (mpiexec/cb.c:280): assert (!closed) failed\n", HOST),
    ],
)
def test_failures_have_kinds(text: str, kind: FailureKind) -> None:
    assert explain(1, text).kind is kind
    assert explain(1, "epoch 1\n" + text + ABNORMAL).kind is kind


NO_SPACE = "No space left on device (28)"
SHM = "the shared memory (/dev/shm) is full"
BUS_ERROR = "ERROR: Unexpected bus error encountered in worker. This might be caused by "


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        (raised(f"RuntimeError: unable to write to file </torch_4711_1>: {NO_SPACE}"), SHM),
        (raised(f"RuntimeError: unable to open shared memory object </a>: {NO_SPACE}"), SHM),
        (raised("OSError: '/dev/shm/joblib/1.pkl': No space left on device"), SHM),
        (
            raised(
                "RuntimeError: DataLoader worker (pid 4711) is killed by signal: Bus error. It is"
                " possible that dataloader's workers are out of shared memory."
            ),
            SHM,
        ),
        (BUS_ERROR + "insufficient shared memory (shm).\n" + 9 * "step\n", SHM),
        (
            raised(
                "RuntimeError: unable to mmap 64 bytes from file </torch_4711_1>:"
                " Cannot allocate memory (12)"
            ),
            ": out of memory: ",
        ),
    ],
)
def test_what_pytorch_says_of_shared_memory_is_no_full_disk(text: str, meaning: str) -> None:
    for whole in (text, "epoch 1\n" + text + ABNORMAL):
        kind, reason = explain(1, whole)[:2]
        assert kind is MEMORY and meaning in reason


@pytest.mark.parametrize(
    "text",
    [
        "this trainer handles MemoryError gracefully\n" + TRACEBACK,
        "MemoryError: caught, going on with less\n" + 10 * "step\n" + TRACEBACK,
        "No space left on device? then use --tmp\n" + TRACEBACK,
        raised("MemoryError")
        + "\nDuring handling of the above exception, another …:\n"
        + TRACEBACK,
        raised("BlockingIOError: [Errno 11] Resource temporarily unavailable", "sock.recv(1)"),
        "Out of memory is a film\n" + 10 * "step\n",
        raised("RuntimeError: the pipe broke"),
    ],
)
def test_a_word_alone_decides_nothing(text: str) -> None:
    assert explain(1, text).kind is CRASHED


def test_a_kill_is_a_want_of_memory_where_the_kernel_counts_one() -> None:
    killed = KILLED.replace("11 (Segmentation fault)", "9 (Killed)")
    assert explain(137, killed).kind is CRASHED
    assert explain(137, killed, oom_kills=1).kind is MEMORY
    assert explain(1, killed, oom_kills=1).kind is MEMORY
    assert explain(139, KILLED, oom_kills=1).kind is CRASHED
    assert explain(1, TRACEBACK + ABNORMAL, oom_kills=1).kind is CRASHED
    reason = explain(137, killed, oom_kills=1).reason
    assert reason.startswith("exit code 137 (SIGKILL): ended by the kernel for want of memory: ")


POOL = "concurrent.futures.process.BrokenProcessPool: A process in the process pool was terminated"


@pytest.mark.parametrize(
    "line",
    [
        "RuntimeError: DataLoader worker (pid 4711) is killed by signal: Killed.",
        "RuntimeError: DataLoader worker (pid(s) 4711) exited unexpectedly",
        POOL + " abruptly while the future was running or pending.",
        "joblib.externals.loky.process_executor.TerminatedWorkerError: A worker process managed",
    ],
)
def test_so_is_a_killed_worker_that_the_program_tells_of(line: str) -> None:
    assert explain(1, raised(line) + ABNORMAL).kind is CRASHED
    found = explain(1, raised(line) + ABNORMAL, oom_kills=1)
    assert found.kind is MEMORY
    assert found.reason == f"exit code 1: ended by the kernel for want of memory: {line}"
    assert explain(139, raised(line) + KILLED, oom_kills=1).kind is CRASHED


def test_a_kill_of_its_own_decides_whatever_is_printed() -> None:
    for text in ("", "epoch 1\n", TRACEBACK + ABNORMAL):
        assert explain(1, text, oom_kills=1).kind is CRASHED
        assert explain(1, text, oom_kills=0, certain=True).kind is CRASHED
        assert explain(1, text, oom_kills=1, certain=True).kind is MEMORY
    found = explain(1, raised("RuntimeError: can't start new thread"), oom_kills=1, certain=True)[
        :2
    ]
    assert found[0] is THREADS, "it tells more"


@pytest.mark.parametrize(("code", "text"), [(139, ""), (-11, ""), (139, KILLED), (11, HYDRA)])
def test_but_a_fault_is_a_crash(code: int, text: str) -> None:
    """The count may be that of a group that others are in too."""
    assert explain(code, "epoch 1\n" + text, oom_kills=1, certain=True).kind is CRASHED


@pytest.mark.parametrize(
    "text",
    [
        "usage: t.py [-h]\nt.py: error: unrecognized arguments: -c 1\n",
        "could not find an executable for ffmpeg\n" + TRACEBACK,
        "t.py: unrecognized option '--colour'\n" + ABNORMAL,
    ],
)
def test_only_the_launcher_tells_that_it_could_not_launch(text: str) -> None:
    assert explain(2, text).kind is CRASHED


@pytest.mark.parametrize(
    "text",
    [
        f"{RULE}\nAn unrecognized option was included on the mpirun command line:\n{RULE}\n",
        f"epoch 1\n{RULE}\nThere are not enough slots available in the system\n{RULE}\n",
        "[proxy:0@h1] HYDU_create_process (lib/launch.c:73): execvp error on file x (No such\n",
        "[mpiexec@h1] match_arg (lib/utils/args.c:166): unrecognized argument foo\n",
    ],
)
def test_what_launchers_say_of_that(text: str) -> None:
    assert explain(1, text).kind is FailureKind.LAUNCHER


@pytest.mark.parametrize(
    "tag",
    [
        "[1,0]<stderr>:",  # Open MPI 4
        "[prterun-host-1@1,0]<stderr>: ",  # Open MPI 5
        "[prterun-host-1@1,0][host:32396]<stderr>: ",  # … --output tag-detailed
        "[0] ",  # Hydra -prepend-rank
    ],
)
def test_the_tags_of_ranks_are_not_their_words(tag: str) -> None:
    tagged = "".join(tag + line + "\n" for line in raised("MemoryError").splitlines())
    kind, reason = explain(1, tagged + ABNORMAL)[:2]
    assert (kind, reason) == (MEMORY, "exit code 1: out of memory: MemoryError")
    assert explain(1, tag + "no data\n" + ABNORMAL).reason == "exit code 1: no data"


@pytest.mark.parametrize(
    ("line", "code", "kind"),
    [
        ("BlockingIOError: [Errno 11] Resource temporarily unavailable", "os.fork()", THREADS),
        ("OSError: [Errno 28] No space left on device", "SharedMemory(create=True)", MEMORY),
    ],
)
def test_the_marks_below_the_code_are_passed_over(line: str, code: str, kind: FailureKind) -> None:
    """Python 3.11 and later draw them."""
    assert explain(1, raised(line, f"self.x = {code}\n             ~~~~~^^^^")).kind is kind


# --- torchrun, taken from real runs of torch 2.13 ----------------------------------------

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
LAUNCH_TRACEBACK = """Traceback (most recent call last):
  File "<frozen runpy>", line 198, in _run_module_as_main
  File "lib/python3.11/site-packages/torch/distributed/launcher/api.py", line 383, in launch_agent
    raise ChildFailedError(
"""
STOPPED = f"""W1122 05:11:53.381000 30287 {API}:1028] Sending process 30298 closing signal SIGTERM
{LAUNCH_TRACEBACK}{MODULE}.api.SignalException: Process 7856 got signal: 15
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
{LAUNCH_TRACEBACK}{MODULE}.errors.ChildFailedError:
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
        ("epoch 1\n" + failed(3) + "epoch 2", FailureKind.CRASHED, "exit code 3: epoch 2"),
        (STOPPED, FailureKind.INTERRUPTED, "torchrun was ended by SIGTERM from outside"),
    ],
)
def test_under_torchrun_the_ranks_own_words_are_the_reason(
    text: str, kind: FailureKind, reason: str
) -> None:
    found = explain(1, BANNER + text)
    assert found.kind is kind
    assert reason in found.reason


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("mmap: Out of memory\n" + 4 * "step\n" + "step", FailureKind.CRASHED),
        ("mmap: Out of memory\n" + 3 * "step\n" + "step", FailureKind.OUT_OF_MEMORY),
        ("libgomp: Out of memory allocating 8 bytes\n" + 100 * "step\n", FailureKind.OUT_OF_MEMORY),
        (
            f"{TRACEBACK}MemoryError\n{TRACEBACK}RuntimeError: can't start new thread\n",
            FailureKind.THREADS,
        ),
    ],
)
def test_how_far_from_the_end_words_count(text: str, kind: FailureKind) -> None:
    assert explain(1, text).kind is kind
