"""What a rank's main thread does, by its frames: data loading, exchange, or its own work.

MPI methods of mpi4py leave no frame: the innermost line is read in the program's source instead.
PyTorch's backward pass waits for the other ranks' gradients in C++: if the thread sleeps there
while ``torch.distributed`` is in use and no GPU, that counts as exchange.

It must run in the oldest Python a user may have: no annotations, nothing newer than 3.6.
"""

import os
import sys
import time

_HERE = os.path.dirname(__file__) + "/"  # noqa: PTH120

_DEPTH = 120  # frames
_MOST_CODES = 4096
_MOST_LINES = 500

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
# The ranks find each other: it belongs to the start, like imports.
_STARTING = frozenset(("init_process_group", "new_group", "destroy_process_group"))
_BACKWARD = "/torch/autograd/"
_IMPORT = "<frozen importlib"
_LOADER_NAMES = frozenset(
    verb + "_" + noun
    for verb in ("load", "read", "fetch", "next", "get", "prefetch")
    for noun in ("batch", "batches", "minibatch")
)


def _kind(filename, name):
    """What code of this file and function stands for; None says nothing."""
    if filename.startswith(_IMPORT):
        return "import"
    if name in _STARTING and filename.endswith("/torch/distributed/distributed_c10d.py"):
        return "starting"
    if any(part in filename for part in _EXCHANGE):
        return "exchange"
    if name in _LOADER_NAMES or any(part in filename for part in _LOADER):
        return "loader"
    return "backward" if _BACKWARD in filename else None


def _is_the_users(filename):
    library = os.path.dirname(os.__file__)  # noqa: PTH120
    return not (filename.startswith(("<", library)) or "-packages/" in filename)


def _exchanges_in_backward():
    """True if gradients are exchanged by PyTorch while the main thread waits on a CPU."""
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
        """(code, line) from the innermost frame outwards; lines only if they are needed.

        No frame is kept: whoever drops the last reference to one runs the destructors in it.
        """
        stack = []
        placed = False
        frame = sys._current_frames().get(self._main)
        while frame is not None and len(stack) < _DEPTH:
            code = frame.f_code
            if not code.co_filename.startswith(_HERE):  # it waits for our own end
                users = not placed and self._known(code)[1]
                # To work out a line takes longer than all the rest of a look.
                stack.append((code, frame.f_lineno if users or not stack else 0))
                placed = placed or users
            frame = frame.f_back
        return stack

    def _phase(self, stack):
        """The phase of a stack and its place; None if it does not count."""
        found = word = place = None
        if stack:
            code, line = stack[0]
            word = self._mpi(code, line)
            found = "exchange" if word else None
        importing = False
        for code, line in stack:
            kind, users = self._known(code)
            if kind == "starting":
                return None, ""
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
            self._sources[filename] = mpi_lines(filename)
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


# --- lines of source that call MPI by mpi4py, whose methods leave no frame ----------------

_MOST_SOURCE = 1 << 20  # bytes

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
_OWNERS = frozenset(("communicator", "world", "mpi", "cart", "req", "reqs", "request"))


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
        if name in _SHARED and not _is_owner(words[-1]):
            continue
        if name in _UPPER or name in _LOWER:
            return name.lower()
    return None


def _is_owner(word):
    """True for ``self.comm``, ``MPI.COMM_WORLD``, ``reqs[0]`` and the like."""
    for mark in "._[]()":
        word = word.replace(mark, " ")
    names = [name.rstrip("0123456789") for name in word.split()]
    return any(name in _OWNERS or name.endswith("comm") for name in names)


def mpi_lines(filename):
    """The lines of a source file that call MPI, each with the method."""
    try:
        with open(filename, "rb") as file:  # noqa: PTH123
            lines = file.read(_MOST_SOURCE).decode("utf-8", "replace").split("\n")
    except (OSError, ValueError):
        return {}
    calls = ((number, mpi_call(line)) for number, line in enumerate(lines, 1) if "(" in line)
    return {number: name for number, name in calls if name}
