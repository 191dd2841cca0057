"""Looks some twenty times a second at what a rank's main thread does, from a thread of its own.

Each look walks up the main thread's frames, which show data loading, exchange between ranks, or the
program's own work. From ``schedstat`` it reads how long the thread ran, waited for a CPU and slept
since the look before. ``TUNE_PROBE_DIR/rank-N.PID.phases`` has the sums, written about once a
second, so that a rank that is killed leaves it too. Imports are the start, and do not count.

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
_COST_PART = 500  # a look, and a write, may take one part in this many of the time
_LEAST_LOOKS = 2  # a helper that ends before that writes no file
_STOP_S = 0.2  # the program waits for the thread at its exit

_MOST_FRAMES = 120
_MOST_CODES = 4096  # whose kinds are kept
_MOST_SOURCE_BYTES = 1 << 20


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
            running.acquire(True, _STOP_S)  # its disk may hang

    running = rank_thread.start(lambda: _follow(looks, path, wake))
    atexit.register(stop)


def _follow(looks, path, wake):
    pause_s, write_at_s = _PAUSE_S, time.monotonic() + _WRITE_S
    # Each pause has another length, so that looks keep no step with the program's iterations.
    while not wake.acquire(True, pause_s * (0.5 + os.urandom(1)[0] / 255)):
        cpu_s = _thread_cpu_s()
        looks.look()
        pause_s = max(_PAUSE_S, _COST_PART * (_thread_cpu_s() - cpu_s))
        now_s = time.monotonic()
        if now_s >= write_at_s and looks.count >= _LEAST_LOOKS:
            cpu_s = _thread_cpu_s()
            write_file(path, looks.text().encode("utf-8", "replace"))
            write_at_s = now_s + max(_WRITE_S, _COST_PART * (_thread_cpu_s() - cpu_s))
    looks.look()
    if looks.count >= _LEAST_LOOKS:
        write_file(path, looks.text().encode("utf-8", "replace"))


def _thread_cpu_s():
    return time.clock_gettime(time.CLOCK_THREAD_CPUTIME_ID)


def write_file(path, data):
    """Write a file that others see whole or not at all, for its owner only, whatever the umask."""
    partial = path + "~"
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    os.replace(partial, path)


# --- what a stack stands for ----------------------------------------------------------------

# Not multiprocessing's pool: it shares out any work, and joblib's threads wait in it.
_LOADER_FILES = (
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
_EXCHANGE_FILES = (
    "/chainermn/communicators/",
    "/torch/distributed/distributed_c10d.py",
    "/torch/distributed/_functional_collectives",
    "/torch/distributed/nn/functional.py",
    "/mpi4py/util/",
    "/mpi4py/futures/",
    "/mpi_ops.py",
)
# The ranks find each other: it belongs to the start, like imports.
_STARTING_NAMES = frozenset(("init_process_group", "new_group", "destroy_process_group"))


def _kind(filename, name):
    """Return the phase that code of this file and function belongs to; None: that is not known."""
    if filename.startswith("<frozen importlib"):
        return "import"
    if name in _STARTING_NAMES and filename.endswith("/torch/distributed/distributed_c10d.py"):
        return "starting"
    if any(part in filename for part in _EXCHANGE_FILES):
        return "exchange"
    if name in _LOADER_NAMES or any(part in filename for part in _LOADER_FILES):
        return "loader"
    return "backward" if "/torch/autograd/" in filename else None


def _is_user_code(filename):
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


def _times_ns(tid):
    """Return the time, and how long a thread has run and waited for a CPU, ns."""
    with open(f"/proc/self/task/{tid}/schedstat", "rb", 0) as file:
        run, queued = file.read().split()[:2]
    return int(time.monotonic() * 1e9), int(run), int(queued)


class Looks:
    """The sums so far: ``_thread`` numbers the main thread ``main``, the kernel ``pid``."""

    def __init__(self, main, pid):
        self._main, self._pid = main, pid
        self._kinds = {}  # (file, function) -> (kind, whether it is the user's)
        self._mpi_lines = {}  # file -> {line: MPI method that it calls}
        self._last_ns = _times_ns(pid)
        #: phase -> [ran, waited for a CPU, slept], ns
        self.sums = {phase: [0, 0, 0] for phase in ("loader", "exchange", "compute")}
        self._ns_by_line = {}  # (phase, place) -> ns
        self.count = 0  # of the looks that counted

    def look(self):
        """Attribute the time since the last look to what the main thread does now."""
        now_ns = _times_ns(self._pid)
        passed_ns, ran_ns, queued_ns = [new - old for new, old in zip(now_ns, self._last_ns)]
        self._last_ns = now_ns
        phase, place = self._phase(self._stack())
        if phase is None:
            return
        self.count += 1
        slept_ns = max(0, passed_ns - ran_ns - queued_ns)
        if phase == "backward":
            if slept_ns and _exchanges_in_backward():
                self._add("exchange", place, (0, 0, slept_ns))
                slept_ns = 0
            phase = "compute"
        self._add(phase, place, (ran_ns, queued_ns, slept_ns))

    def _add(self, phase, place, parts_ns):
        self.sums[phase] = [old + new for old, new in zip(self.sums[phase], parts_ns)]
        self._ns_by_line[phase, place] = self._ns_by_line.get((phase, place), 0) + sum(parts_ns)

    def _stack(self):
        """Return (code, line) from the innermost frame outwards; a line that is not needed is 0.

        No frame is kept: whoever drops the last reference to one runs the destructors in it.
        """
        stack = []
        has_place = False
        frame = sys._current_frames().get(self._main)
        while frame is not None and len(stack) < _MOST_FRAMES:
            code = frame.f_code
            if not code.co_filename.startswith(_HERE):  # at its exit it waits for our thread
                is_place = not has_place and self._kind_of(code)[1]
                # To work out a line takes longer than all the rest of a look.
                stack.append((code, frame.f_lineno if is_place or not stack else 0))
                has_place = has_place or is_place
            frame = frame.f_back
        return stack

    def _phase(self, stack):
        """Return the phase of a stack and the user's line, with the call in it; None: no phase."""
        if not stack:
            return None, ""
        call = self._mpi_method(*stack[0])
        phase, place, is_importing = "exchange" if call else None, None, False
        for code, line in stack:
            kind, is_users = self._kind_of(code)
            if kind == "starting":
                return None, ""
            is_importing = is_importing or kind == "import"
            is_unnamed = place is None or call.startswith("<")  # <listcomp>
            if kind is not None and (phase is None or (kind == phase and is_unnamed)):
                phase, call = kind, code.co_name  # the call that stands in the user's line
            if place is None and is_users:
                place, call = (code, line), call or code.co_name
        if is_importing and phase in (None, "import", "backward"):
            return None, ""
        code, line = place or stack[0]
        name = os.path.basename(code.co_filename)
        return phase or "compute", f"{name}:{line} {call or code.co_name}"

    def _kind_of(self, code):
        """Return the phase that code belongs to, and whether it is the user's."""
        # Not by the code itself: two of the same content are equal, whatever their files.
        key = code.co_filename, code.co_name
        if key not in self._kinds:
            if len(self._kinds) >= _MOST_CODES:
                self._kinds.clear()
            self._kinds[key] = _kind(*key), _is_user_code(key[0])
        return self._kinds[key]

    def _mpi_method(self, code, line):
        """Return the MPI method that a line of the source calls; None: it calls none."""
        if "mpi4py.MPI" not in sys.modules:
            return None
        filename = code.co_filename
        if filename not in self._mpi_lines:
            self._mpi_lines[filename] = _mpi_lines(filename)
        return self._mpi_lines[filename].get(line)

    def text(self):
        """Return the sums as lines: phase, s on a CPU, queued for one, asleep, line seen most."""
        rows = []
        for phase, parts_ns in self.sums.items():
            places = {place: ns for (name, place), ns in self._ns_by_line.items() if name == phase}
            longest = max(places, key=places.get) if places else ""
            times_s = [f"{ns / 1e9:.6f}" for ns in parts_ns]
            rows.append("\t".join([phase, *times_s, " ".join(longest.split())]))
        return "\n".join(rows) + "\n"


# --- lines of source that call MPI by mpi4py, whose methods leave no frame ----------------

#: Other objects than communicators and requests have these too: the owner's name must show it.
_COMMON = frozenset("reduce gather scatter scan send recv wait test probe accumulate fence".split())
_OWNER_NAMES = frozenset("communicator world mpi cart req reqs request".split())
#: Each of these may begin with an i, and with a capital for a buffer.
_MPI_METHODS = _COMMON.union(
    "bsend ssend rsend mrecv sendrecv sendrecv_replace waitall waitany waitsome testall".split(),
    "allreduce bcast allgather alltoall exscan barrier gatherv scatterv allgatherv".split(),
    "alltoallv alltoallw reduce_scatter reduce_scatter_block".split(),
    "neighbor_alltoall neighbor_allgather".split(),
)


def mpi_call(line):
    """Return the method of mpi4py that a line of source calls, in small letters, or None."""
    for text in line.partition("#")[0].split("(")[:-1]:  # what is before each parenthesis
        owner, _, name = text.rpartition(".")
        name, owner_words = name.strip(), owner.split()[-1:]
        method = name.lower()
        is_mpi = method in _MPI_METHODS or (method[:1] == "i" and method[1:] in _MPI_METHODS)
        if not owner_words or not is_mpi or name not in (method, method.capitalize()):
            continue
        if name not in _COMMON or _is_communicator(owner_words[0]):
            return method
    return None


def _is_communicator(word):
    """Return whether a word is ``self.comm``, ``MPI.COMM_WORLD``, ``reqs[0]`` or the like."""
    names = "".join(letter if letter.isalpha() else " " for letter in word.lower()).split()
    return any(name in _OWNER_NAMES or name.endswith("comm") for name in names)


def _mpi_lines(filename):
    """Return the lines of a source file that call MPI, each with the method."""
    try:
        with open(filename, "rb") as file:
            lines = file.read(_MOST_SOURCE_BYTES).decode("utf-8", "replace").split("\n")
    except (OSError, ValueError):
        return {}
    calls = ((number, mpi_call(line)) for number, line in enumerate(lines, 1) if "(" in line)
    return {number: name for number, name in calls if name}
