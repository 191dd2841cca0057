"""Looks some twenty times a second at what a rank's main thread does, from a thread of its own.

Each look walks up the main thread's frames: data loading, exchange between ranks, or its own work;
and reads from ``schedstat`` how long the thread ran, waited for a CPU and slept since the look
before. ``TUNE_PROBE_DIR/rank-N.PID.phases`` has the sums, renewed about once a second, so that a
rank that is killed leaves it too. Time in which a module is imported is the program's start and
not counted.

MPI methods of mpi4py leave no frame: the innermost line is read in the program's source instead.
PyTorch's backward pass waits for the other ranks' gradients in C++: if the thread sleeps there
while ``torch.distributed`` is in use and no GPU, that counts as exchange.

The thread imports nothing.
"""

import _thread
import atexit
import os
import sys
import time

import rank_thread

_HERE = os.path.dirname(__file__) + "/"

_PAUSE_S = 0.05  # between two looks, give or take half
_WRITE_S = 1.0
_SHARE = 500  # a look and a write may take one part in this many of the thread's time
_LEAST_LOOKS = 2  # a helper that is over at once has nothing to say
_STOP_S = 0.2  # an exit waits for no longer

_DEPTH = 120  # frames
_MOST_CODES = 4096
_MOST_SOURCE = 1 << 20  # bytes


# --- the thread ---------------------------------------------------------------------------


def start(folder, rank):
    """Start looking, until this process exits; its forked children are not looked at."""
    pid = os.getpid()
    looks = Looks(_thread.get_ident(), pid)
    path = os.path.join(folder, f"rank-{rank}.{pid}.phases")
    wake = _thread.allocate_lock()
    wake.acquire()

    def stop():
        if os.getpid() == pid:
            wake.release()
            ended.acquire(True, _STOP_S)  # its disk may hang

    ended = rank_thread.start(lambda: _follow(looks, path, wake))
    atexit.register(stop)


def _follow(looks, path, wake):
    pause_s, write_at_s = _PAUSE_S, time.monotonic() + _WRITE_S
    while not wake.acquire(True, pause_s * (0.5 + os.urandom(1)[0] / 255)):  # out of step
        look_s = _own_s()
        looks.look()
        pause_s = max(_PAUSE_S, _SHARE * (_own_s() - look_s))
        now_s = time.monotonic()
        if now_s >= write_at_s and looks.number >= _LEAST_LOOKS:
            look_s = _own_s()
            write_file(path, looks.text().encode("utf-8", "replace"))
            write_at_s = now_s + max(_WRITE_S, _SHARE * (_own_s() - look_s))
    looks.look()
    if looks.number >= _LEAST_LOOKS:
        write_file(path, looks.text().encode("utf-8", "replace"))


def _own_s():
    return time.clock_gettime(time.CLOCK_THREAD_CPUTIME_ID)


def write_file(path, data):
    """Write a file at once, and for its owner only, whatever the umask."""
    partial = path + "~"
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    os.replace(partial, path)


# --- what a stack stands for ----------------------------------------------------------------

# Not multiprocessing's pool: it shares out any work, and joblib's threads wait in it.
_LOADER = (
    "/chainer/iterators/",
    "/torch/utils/data/",
    "/multiprocessing/queues.py",
    "/multiprocessing/connection.py",
    "/nvidia/dali/",
    "/webdataset/",
    "/tensorflow/python/data/",
)
_LOADER_NAMES = frozenset(
    verb + "_" + noun
    for verb in ("load", "read", "fetch", "next", "get", "prefetch")
    for noun in ("batch", "batches", "minibatch")
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
# The ranks find each other: it belongs to the start, like imports.
_STARTING = frozenset(("init_process_group", "new_group", "destroy_process_group"))


def _kind(filename, name):
    """Return the phase that code of this file and function belongs to, None if it does not tell."""
    if filename.startswith("<frozen importlib"):
        return "import"
    if name in _STARTING and filename.endswith("/torch/distributed/distributed_c10d.py"):
        return "starting"
    if any(part in filename for part in _EXCHANGE):
        return "exchange"
    if name in _LOADER_NAMES or any(part in filename for part in _LOADER):
        return "loader"
    return "backward" if "/torch/autograd/" in filename else None


def _is_the_users(filename):
    library = os.path.dirname(os.__file__)
    return not (filename.startswith(("<", library)) or "-packages/" in filename)


def _exchanges_in_backward():
    """Return whether gradients are exchanged by PyTorch while the main thread waits on a CPU."""
    group = sys.modules.get("torch.distributed.distributed_c10d")
    cuda = sys.modules.get("torch.cuda")
    try:
        return bool(group and group.is_initialized()) and not (cuda and cuda.is_initialized())
    except Exception:  # another version of PyTorch
        return False


def _ns(main):
    """Return the time, and how long the main thread has run and waited for a CPU, ns."""
    with open(f"/proc/self/task/{main}/schedstat", "rb", 0) as file:
        run, queued = file.read().split()[:2]
    return int(time.monotonic() * 1e9), int(run), int(queued)


class Looks:
    """The sums so far: ``_thread`` numbers the main thread ``main``, the kernel ``pid``."""

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
        passed, ran, queued = [new - old for new, old in zip(now, self._before)]
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
        self.sums[phase] = [old + new for old, new in zip(self.sums[phase], parts)]
        self._lines[phase, where] = self._lines.get((phase, where), 0) + sum(parts)

    def _stack(self):
        """Return (code, line) from the innermost frame outwards; the line is 0 if nobody needs it.

        No frame is kept: whoever drops the last reference to one runs the destructors in it.
        """
        stack = []
        placed = False
        frame = sys._current_frames().get(self._main)
        while frame is not None and len(stack) < _DEPTH:
            code = frame.f_code
            if not code.co_filename.startswith(_HERE):  # it waits for our own end
                users = not placed and self._kind_of(code)[1]
                # To work out a line takes longer than all the rest of a look.
                stack.append((code, frame.f_lineno if users or not stack else 0))
                placed = placed or users
            frame = frame.f_back
        return stack

    def _phase(self, stack):
        """Return the phase of a stack and its place; None if it does not count."""
        if not stack:
            return None, ""
        word = self._mpi(*stack[0])
        phase, place, importing = "exchange" if word else None, None, False
        for code, line in stack:
            kind, users = self._kind_of(code)
            if kind == "starting":
                return None, ""
            importing = importing or kind == "import"
            unnamed = place is None or word.startswith("<")  # <listcomp>
            if kind is not None and (phase is None or (kind == phase and unnamed)):
                phase, word = kind, code.co_name  # the call that stands in the user's line
            if place is None and users:
                place, word = (code, line), word or code.co_name
        if importing and phase in (None, "import", "backward"):
            return None, ""
        code, line = place or stack[0]
        name = os.path.basename(code.co_filename)
        return phase or "compute", f"{name}:{line} {word or code.co_name}"

    def _kind_of(self, code):
        """Return what code stands for, and whether it is the user's."""
        # Not by the code itself: two of the same content are equal, whatever their files.
        key = code.co_filename, code.co_name
        if key not in self._codes:
            if len(self._codes) >= _MOST_CODES:
                self._codes.clear()
            self._codes[key] = _kind(*key), _is_the_users(key[0])
        return self._codes[key]

    def _mpi(self, code, line):
        """Return the MPI method that the line calls."""
        if "mpi4py.MPI" not in sys.modules:
            return None
        filename = code.co_filename
        if filename not in self._sources:
            self._sources[filename] = _mpi_lines(filename)
        return self._sources[filename].get(line)

    def text(self):
        """Return the sums as lines: phase, s on a CPU, queued for one, asleep, line seen most."""
        rows = []
        for phase, parts in self.sums.items():
            lines = {where: ns for (of, where), ns in self._lines.items() if of == phase}
            where = max(lines, key=lines.get) if lines else ""
            numbers = [f"{ns / 1e9:.6f}" for ns in parts]
            rows.append("\t".join([phase, *numbers, " ".join(where.split())]))
        return "\n".join(rows) + "\n"


# --- lines of source that call MPI by mpi4py, whose methods leave no frame ----------------

#: Others than communicators and requests have these as well: they count by the owner's name.
_SHARED = frozenset("reduce gather scatter scan send recv wait test probe accumulate fence".split())
_OWNERS = frozenset("communicator world mpi cart req reqs request".split())
#: Each of them may begin with an i, and with a capital for a buffer.
_METHODS = _SHARED.union(
    "bsend ssend rsend mrecv sendrecv sendrecv_replace waitall waitany waitsome testall".split(),
    "allreduce bcast allgather alltoall exscan barrier gatherv scatterv allgatherv".split(),
    "alltoallv alltoallw reduce_scatter reduce_scatter_block".split(),
    "neighbor_alltoall neighbor_allgather".split(),
)


def mpi_call(line):
    """Return the method of mpi4py that a line of source calls, in small letters, or None."""
    for piece in line.partition("#")[0].split("(")[:-1]:
        owner, _, name = piece.rpartition(".")
        name, owner = name.strip(), owner.split()[-1:]
        method = name.lower()
        is_mpi = method in _METHODS or (method[:1] == "i" and method[1:] in _METHODS)
        if not owner or not is_mpi or name not in (method, method.capitalize()):
            continue
        if name not in _SHARED or _is_communicator(owner[0]):
            return method
    return None


def _is_communicator(word):
    """Return whether a word is ``self.comm``, ``MPI.COMM_WORLD``, ``reqs[0]`` or the like."""
    names = "".join(letter if letter.isalpha() else " " for letter in word.lower()).split()
    return any(name in _OWNERS or name.endswith("comm") for name in names)


def _mpi_lines(filename):
    """Return the lines of a source file that call MPI, each with the method."""
    try:
        with open(filename, "rb") as file:
            lines = file.read(_MOST_SOURCE).decode("utf-8", "replace").split("\n")
    except (OSError, ValueError):
        return {}
    calls = ((number, mpi_call(line)) for number, line in enumerate(lines, 1) if "(" in line)
    return {number: name for number, name in calls if name}
