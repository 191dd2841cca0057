"""Changes knobs of a rank while it runs: thread counts, and what the program offers.

It calls the same functions of the libraries as threadpoolctl, which a program may not have.
"""

import ctypes
import os
import sys
import traceback

import rank_report

_BLAS, _OPENCV = "omp_threads", "opencv_threads"


class Knobs:
    """Groups of knobs; those of a group are applied and read together.

    Thread counts come first, because new loader workers inherit them.
    """

    def __init__(self):
        self._groups = []  # (names, apply, read)
        self._started = {}  # the values that the program's own knobs had at the start

    def offer(self, names, apply, read=None):
        """Take knobs from the program: see :class:`rank_live.Agent`."""
        self._groups.append((tuple(names), apply, read))

    def begin(self):
        """Return each knob that can be changed from now on with its value; None: not known."""
        self._started = self.read({})
        groups, pools = [], Pools()
        if pools.started:
            groups.append(((_BLAS,), pools.apply, pools.read))
        # Running loader workers have counts of their own: to set the rank's alone would not do.
        if "cv2" in sys.modules and (_OPENCV in self._started or not _has_children()):
            started = rank_report.opencv_threads()

            def set_opencv(values):
                threads = values[_OPENCV]
                sys.modules["cv2"].setNumThreads(started if threads is None else int(threads))

            groups.append(((_OPENCV,), set_opencv, lambda: {_OPENCV: rank_report.opencv_threads()}))
        self._groups[:0] = groups
        return self.read({})

    def change(self, values):
        """Apply values by name, None for how the job started; return what went wrong by name."""
        offered = {name for names, _, _ in self._groups for name in names}
        errors = {name: "cannot be changed here" for name in values if name not in offered}
        for names, apply, _ in self._groups:
            new = {name: values[name] for name in names if name in values}
            for name, value in new.items():
                if value is None:  # thread counts stay None: each pool knows its number
                    new[name] = self._started.get(name)
            try:
                if new:
                    apply(new)
            except Exception as error:  # of a library, or of the program's own function
                traceback.print_exc()  # for the reader of the job's output
                errors.update(dict.fromkeys(new, _error_text(error)))
        return errors

    def read(self, errors):
        """Return the values in force by name, None if not known; add what fails to `errors`."""
        values = {}
        for names, _, read in self._groups:
            values.update(dict.fromkeys(names))
            try:
                values.update({} if read is None else read())
            except Exception as error:
                for name in names:
                    errors.setdefault(name, _error_text(error))
        return values


def _error_text(error):
    return " ".join(f"{type(error).__name__}: {error}".split()).rstrip(": ")[:300]


class Pools:
    """Every pool of BLAS and OpenMP in this process, PyTorch's own included."""

    def __init__(self):
        #: The count of each pool at the start, or when it was first seen, by its name.
        self.started = {name: read() for name, (read, _) in _pools().items()}

    def apply(self, values):
        """Set the number of threads of all pools; None sets each to the number that it began with.

        The number is capped as the environment would cap it, which no library does inside a
        process: above the CPUs that it may use an OpenBLAS becomes hundreds of times slower.
        """
        threads, cpus = values[_BLAS], len(os.sched_getaffinity(0))
        pools = _pools()
        for name, (read, _) in pools.items():  # before any is set: one may set another
            self.started.setdefault(name, read())
        for name, (_, write) in pools.items():
            write(self.started[name] if threads is None else min(int(threads), cpus))

    def read(self):
        """Return the count in force: the largest of all pools."""
        return {_BLAS: max(read() for read, _ in _pools().values())}


def _pools():
    """Return (read, write) of each pool by name, PyTorch last: it sets its libraries itself."""
    pools = {}
    for path in rank_report.pool_libraries():
        counter = rank_report.counter(path)
        if counter is not None:
            library, symbol = counter
            pools[path] = getattr(library, symbol), _setter(library, symbol)
    torch = sys.modules.get("torch")
    if torch is not None:
        pools["torch"] = torch.get_num_threads, torch.set_num_threads
    return pools


def _setter(library, symbol):
    """Return ``omp_set_num_threads`` for ``omp_get_max_threads``, and so on."""
    name = symbol.replace("get_max", "set_num").replace("Get_Max", "Set_Num")
    function = getattr(library, name.replace("_get_", "_set_"))
    # BLIS takes 64 bits, the others the lower 32 of them.
    function.argtypes, function.restype = (ctypes.c_long,), None
    return function


def _has_children():
    """Return whether this process has children, as loader workers; True if that is not known."""
    tasks = "/proc/self/task"
    try:
        for task in os.listdir(tasks):
            with open(f"{tasks}/{task}/children") as file:
                if file.read().strip():
                    return True
    except OSError:
        return True
    return False
