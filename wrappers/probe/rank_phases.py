"""Looks some ten times a second at what a rank's main thread does; started by ``sitecustomize.py``.

Each look walks up the main thread's frames: data loading, exchange between ranks, or its own
work; and reads from ``schedstat`` how long the thread ran, waited for a CPU and slept since the
look before. ``TUNE_PROBE_DIR/rank-N.PID.phases`` has the sums, renewed about once a second, so
that a rank that is killed leaves it too. Time in which a module is imported is the program's
start and not counted.

MPI methods of mpi4py leave no frame: the innermost line is read in the program's source instead.
PyTorch's backward pass waits for the other ranks' gradients in C++: where the thread sleeps there
while ``torch.distributed`` is in use and no GPU, that is taken for exchange.

The thread takes no signals, is no thread of ``threading``, is gone during a fork, and imports
nothing. It must run in the oldest Python a user may have: no annotations, nothing newer than 3.6.
"""

import _signal
import _thread
import _warnings
import os
import sys
import time

#: The thread's own name, by which ``tune`` leaves it out where it looks whether a rank lives.
NAME = "tune-probe"

_PAUSE_S = 0.1  # between two looks, give or take half
_YOUNG_S = 10.0  # a short launch is looked at more often …
_YOUNG = 0.4  # … after this part of the pause
_WRITE_S = 1.0
_SHARE = 500  # a look and a write may take one part in so many of the thread's time
_DEPTH = 120  # frames
_MOST_CODES = 4096
_MOST_LINES = 500
_MOST_SOURCE = 1 << 20  # bytes
_LEAST_LOOKS = 2  # a helper that is over at once has nothing to say
_STOP_S = 0.2  # a fork or an exit waits for no longer

_LOADER = (
    "/chainer/iterators/",
    "/torch/utils/data/",
    "/multiprocessing/queues.py",
    "/multiprocessing/pool.py",
    "/multiprocessing/connection.py",
    "/nvidia/dali/",
    "/webdataset/",
    "/tensorflow/python/data/",
)
# Not all of torch.distributed, horovod and mpi4py: their wrappers (FSDP, optimizers, run.py) are
# below the whole training.
_EXCHANGE = (
    "/chainermn/communicators/",
    "/torch/distributed/distributed_c10d.py",
    "/torch/distributed/_functional_collectives",
    "/torch/distributed/nn/functional.py",
    "/mpi4py/util/",
    "/mpi4py/futures/",
    "/mpi_ops.py",
)
_BACKWARD = "/torch/autograd/"
_IMPORT = "<frozen importlib"
_LOADER_NAMES = frozenset(
    verb + "_" + noun
    for verb in ("load", "read", "fetch", "next", "get", "prefetch")
    for noun in ("batch", "batches", "minibatch")
)

_POINT = ("send", "bsend", "ssend", "rsend", "isend", "recv", "irecv", "mrecv", "sendrecv")
_COLLECTIVE = (
    "allreduce", "reduce", "bcast", "gather", "scatter", "allgather", "alltoall", "scan",
    "exscan", "barrier", "gatherv", "scatterv", "allgatherv", "alltoallv", "alltoallw",
    "reduce_scatter", "reduce_scatter_block",
)  # fmt: skip
_OTHERS = (
    "wait", "waitall", "waitany", "waitsome", "test", "testall", "probe", "sendrecv_replace",
    "neighbor_alltoall", "neighbor_allgather", "fence", "accumulate",
)  # fmt: skip
_LOWER = frozenset(_POINT + _COLLECTIVE + _OTHERS) | frozenset("i" + n for n in _COLLECTIVE)
#: As mpi4py writes the methods that take buffers; nobody else's are called so.
_UPPER = frozenset(name[0].upper() + name[1:] for name in _LOWER)
#: Others than communicators and requests have these as well …
_SHARED = frozenset((
    "reduce", "gather", "scatter", "scan", "send", "recv", "wait", "test", "probe", "accumulate",
    "fence",
))  # fmt: skip
#: … so they count by what a communicator or request is called.
_OWNERS = ("comm", "world", "mpi", "cart", "req")


def mpi_call(line):
    """The MPI method that a line of source calls, in small letters; None without one.

    For the source of a program that uses mpi4py: elsewhere a ``bcast`` may be something else.
    """
    for piece in line.partition("#")[0].split("(")[:-1]:
        owner, dot, name = piece.rpartition(".")
        name = name.strip()
        words = owner.lower().split()
        if not dot or not words:
            continue
        if name in _SHARED and not any(part in words[-1] for part in _OWNERS):
            continue
        if name in _UPPER or name in _LOWER:
            return name.lower()
    return None


def _kind(filename, name):
    """What code of this file and function stands for; None says nothing."""
    if filename.startswith(_IMPORT):
        return "import"
    if any(part in filename for part in _EXCHANGE):
        return "exchange"
    if name in _LOADER_NAMES or any(part in filename for part in _LOADER):
        return "loader"
    return "backward" if _BACKWARD in filename else None


def _is_the_users(filename):
    library = os.path.dirname(os.__file__)  # noqa: PTH120
    return not (filename.startswith(("<", library)) or "-packages/" in filename)


def _exchanges_in_backward():
    """True where gradients are exchanged by PyTorch while the main thread waits on a CPU."""
    group = sys.modules.get("torch.distributed.distributed_c10d")
    cuda = sys.modules.get("torch.cuda")
    try:
        return bool(group and group.is_initialized()) and not (cuda and cuda.is_initialized())
    except Exception:  # another version of PyTorch
        return False


def _ns(main):
    """When, and how long the main thread has run and waited for a CPU, ns."""
    with open("/proc/self/task/%d/schedstat" % main, "rb") as file:  # noqa: PTH123, UP031
        run, queued = file.read().split()[:2]
    return int(time.monotonic() * 1e9), int(run), int(queued)


class Looks:
    """The sums so far.

    Args:
        main: The main thread as ``_thread`` numbers it.
        pid: The process, whose main thread the kernel numbers the same.
    """

    def __init__(self, main, pid):
        self._main, self._pid = main, pid
        self._codes = {}
        self._sources = {}
        self._before = _ns(pid)
        #: phase -> [ran, waited for a CPU, slept], ns
        self.sums = {phase: [0, 0, 0] for phase in ("loader", "exchange", "compute")}
        self._lines = {}
        self.number = 0

    def look(self):
        """Attribute the time since the last look to what the main thread does now."""
        now = _ns(self._pid)
        passed, ran, queued = [new - old for new, old in zip(now, self._before)]  # noqa: B905
        self._before = now
        phase, where = self._phase(self._stack())
        if phase is None:
            return
        self.number += 1
        slept = max(0, passed - ran - queued)
        if phase == "backward":
            if slept and _exchanges_in_backward():
                self._add("exchange", where, (0, 0, slept))
                slept = 0
            phase = "compute"
        self._add(phase, where, (ran, queued, slept))

    def _add(self, phase, where, parts):
        self.sums[phase] = [old + new for old, new in zip(self.sums[phase], parts)]  # noqa: B905
        if (phase, where) in self._lines or len(self._lines) < _MOST_LINES:
            self._lines[phase, where] = self._lines.get((phase, where), 0) + sum(parts)

    def _stack(self):
        """(code, line) from the innermost frame outwards; lines only where they are asked for.

        No frame is kept: whoever drops the last reference to one runs the destructors in it.
        """
        stack = []
        placed = False
        frame = sys._current_frames().get(self._main)
        while frame is not None and len(stack) < _DEPTH:
            code = frame.f_code
            if code.co_filename != __file__:  # it waits for our own end
                users = not placed and self._known(code)[1]
                # To work out a line takes longer than all the rest of a look.
                stack.append((code, frame.f_lineno if users or not stack else 0))
                placed = placed or users
            frame = frame.f_back
        return stack

    def _phase(self, stack):
        """The phase of a stack and where it is; None for what is not counted."""
        found = word = place = None
        if stack:
            code, line = stack[0]
            word = self._mpi(code, line)
            found = "exchange" if word else None
        importing = False
        for code, line in stack:
            kind, users = self._known(code)
            importing = importing or kind == "import"
            unnamed = place is None or word.startswith("<")  # <listcomp>
            if kind is not None and (found is None or (kind == found and unnamed)):
                found, word = kind, code.co_name  # the call that stands in the user's line
            if place is None and users:
                place, word = (code, line), word or code.co_name
        if not stack or (importing and found in (None, "import", "backward")):
            return None, ""
        code, line = place or stack[0]
        name = os.path.basename(code.co_filename)  # noqa: PTH119
        return found or "compute", "{}:{} {}".format(name, line, word or code.co_name)  # noqa: UP032

    def _known(self, code):
        # Not by the code itself: two of the same content are equal, whatever their files.
        key = code.co_filename, code.co_name
        known = self._codes.get(key)
        if known is None:
            if len(self._codes) >= _MOST_CODES:
                self._codes.clear()
            known = self._codes[key] = _kind(*key), _is_the_users(key[0])
        return known

    def _mpi(self, code, line):
        """The MPI method that the line calls."""
        if "mpi4py.MPI" not in sys.modules:
            return None
        filename = code.co_filename
        if filename not in self._sources:
            self._sources[filename] = _mpi_lines(filename)
        return self._sources[filename].get(line)

    def text(self):
        """The sums as lines: phase, s on a CPU, s waiting for one, s asleep, line seen most."""
        rows = []
        for phase, parts in self.sums.items():
            lines = {where: ns for (of, where), ns in self._lines.items() if of == phase}
            where = max(lines, key=lines.get) if lines else ""
            numbers = ["%.6f" % (ns / 1e9) for ns in parts]
            rows.append("\t".join([phase, *numbers, " ".join(where.split())]))
        return "\n".join(rows) + "\n"


def _mpi_lines(filename):
    """The lines of a source file that call MPI, each with the method."""
    try:
        with open(filename, "rb") as file:  # noqa: PTH123
            lines = file.read(_MOST_SOURCE).decode("utf-8", "replace").split("\n")
    except (OSError, ValueError):
        return {}
    calls = ((number, mpi_call(line)) for number, line in enumerate(lines, 1) if "(" in line)
    return {number: name for number, name in calls if name}


class Phases:
    """The thread, and the file that it writes."""

    def __init__(self, folder, rank):
        pid = os.getpid()
        self._pid = pid
        self._path = os.path.join(folder, "rank-{}.{}.phases".format(rank, pid))  # noqa: PTH118, UP032
        self._looks = Looks(_thread.get_ident(), pid)
        self._random = pid
        self._wake = self._ended = None
        self._task = ""
        self._ends = False
        self._begun_s = time.monotonic()
        self._write_at_s = self._begun_s + _WRITE_S

    def start(self):
        """Start the thread with every signal blocked: those are for the program's threads."""
        self._wake, self._ended = _thread.allocate_lock(), _thread.allocate_lock()
        self._wake.acquire()
        self._ended.acquire()
        # 32 and 33 are the C library's own.
        signals = [number for number in range(1, _signal.NSIG) if number not in (32, 33)]
        before = _signal.pthread_sigmask(_signal.SIG_BLOCK, signals)
        try:
            _thread.start_new_thread(self._run, (self._wake, self._ended))
        except RuntimeError:  # no thread to be had: the program needs them more
            self._wake = None
        finally:
            _signal.pthread_sigmask(_signal.SIG_SETMASK, before)

    def pause(self):
        """End the thread; waits for a moment at most, where its disk hangs."""
        wake, ended = self._wake, self._ended
        if wake is not None and os.getpid() == self._pid:
            self._wake = None
            wake.release()
            if ended.acquire(True, _STOP_S):
                _until_gone(self._task)

    def before_fork(self):
        """Be gone, so that the child inherits no lock that the thread holds."""
        if os.getpid() == self._pid:
            self.pause()
            _mind_warnings(self._pid)

    def resume(self):
        """Go on, after a fork, in the process that forked: the child is not looked at."""
        if self._wake is None and os.getpid() == self._pid:
            self.start()

    def stop(self):
        """The program ends: note what came last."""
        self._ends = True
        self.pause()

    def _run(self, wake, ended):
        try:
            self._task = "/proc/" + os.readlink("/proc/thread-self")  # noqa: PTH115
            _call_it(NAME)
            self._follow(wake)
        except Exception:  # the figures are lost; the program must not show it
            pass
        finally:
            ended.release()

    def _follow(self, wake):
        pause_s = _PAUSE_S * _YOUNG
        while not wake.acquire(True, pause_s * (0.5 + self._number())):
            begun_s = _own_s()
            self._looks.look()
            young = time.monotonic() - self._begun_s < _YOUNG_S
            pause_s = max(_PAUSE_S * (_YOUNG if young else 1), _SHARE * (_own_s() - begun_s))
            if time.monotonic() >= self._write_at_s:
                self._write()
        if self._ends:
            self._looks.look()
            self._write()

    def _number(self):
        """A number from 0 to 1 that keeps the looks out of step with the program."""
        self._random = (self._random * 1103515245 + 12345) % (1 << 31)
        return self._random / (1 << 31)

    def _write(self):
        if self._looks.number < _LEAST_LOOKS:
            return
        begun_s = _own_s()
        partial = self._path + "~"
        # Only for the owner, whatever the umask.
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            os.write(descriptor, self._looks.text().encode("utf-8", "replace"))
        finally:
            os.close(descriptor)
        os.replace(partial, self._path)  # noqa: PTH105
        self._write_at_s = time.monotonic() + max(_WRITE_S, _SHARE * (_own_s() - begun_s))


def _own_s():
    return time.clock_gettime(time.CLOCK_THREAD_CPUTIME_ID)


def _call_it(name):
    """Name this thread, for who looks from outside."""
    with open("/proc/thread-self/comm", "w") as file:  # noqa: PTH123
        file.write(name)


def _until_gone(task):
    """Wait for the end of a thread whose last line has run: the kernel still counts it."""
    end_s = time.monotonic() + _STOP_S
    while os.access(task, os.F_OK) and time.monotonic() < end_s:
        time.sleep(1e-4)


def _mind_warnings(pid):
    """Before a fork: have Python warn of the program's own threads, and not of ours.

    Python 3.12 and later count the threads after the fork in the process that forked, 3.13 only
    once ours is back. At the fork there is none, and where the program has none either the
    warning would be false. A filter that ignores keeps no state: no other warning changes.
    """
    if sys.version_info < (3, 12):
        return
    filters = getattr(sys.modules.get("warnings"), "filters", _warnings.filters)
    text = (
        "This process (pid={}) is multi-threaded, use of {}() may lead to deadlocks in the child."
    )
    ours = [
        ("ignore", text.format(pid, call), DeprecationWarning, None, 0)
        for call in ("fork", "forkpty")
    ]
    alone = len(os.listdir("/proc/self/task")) == 1  # noqa: PTH208
    if filters[:2] == ours and alone:
        return
    for each in ours:
        if each in filters:
            filters.remove(each)
    if alone:
        filters[:0] = ours


def _is_worker():
    """True in the processes that ``multiprocessing`` starts anew."""
    with open("/proc/self/cmdline", "rb") as file:  # noqa: PTH123
        return b"from multiprocessing." in file.read()


def start(folder, rank):
    """Start looking; what stops it is to be called before the process ends."""
    if _is_worker():
        return lambda: None
    phases = Phases(folder, rank)
    phases.start()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=phases.before_fork, after_in_parent=phases.resume)
    return phases.stop
