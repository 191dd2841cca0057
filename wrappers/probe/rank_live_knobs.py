"""The knobs that a rank can change while it runs: thread counts, and what the program offers.

The same functions of the libraries are called as by threadpoolctl, which a program may not have.
"""

import ctypes
import os
import sys
import traceback

import rank_report

_OPENCV = "opencv_threads"


class Knobs:
    """Name -> how it is applied, read and settled; threads first: new workers inherit them."""

    def __init__(self):
        self._offered = {}
        self._all = {}
        self._first = {}

    def offer(self, name, apply, read, settle=None):
        """Take one from the program, in place of our own of that name: see :class:`Agent`."""
        self._offered[name] = apply, read, settle

    def begin(self):
        """Note how the job started.

        Returns:
            Each knob that can be changed from now on, with its value; None if it is not known.
        """
        pools = Pools()
        if pools.known:
            self._all["omp_threads"] = pools.apply, pools.read, None
        if "cv2" in sys.modules:
            self._take_opencv()
        self._all.update(self._offered)
        self._first = {name: self._read(name, {}) for name in self._all}
        return dict(self._first)

    def _take_opencv(self):
        """Those of this process: alone, or before the program's own, which are its workers'."""
        first = rank_report.opencv_threads()

        def apply_here(threads):
            sys.modules["cv2"].setNumThreads(first if threads is None else int(threads))

        if _OPENCV in self._offered:
            apply, read, settle = self._offered[_OPENCV]

            def apply_both(threads):
                apply_here(threads)
                apply(threads)

            self._offered[_OPENCV] = apply_both, read, settle
        elif not has_children():
            self._all[_OPENCV] = apply_here, rank_report.opencv_threads, None

    def change(self, values):
        """Apply values in the order of the knobs, then settle them.

        Args:
            values: Name -> value; None is how the job started.

        Returns:
            Name -> what went wrong.
        """
        errors = {name: "cannot be changed here" for name in values if name not in self._all}
        settles = []
        for name in [name for name in self._all if name in values]:
            apply, _, settle = self._all[name]
            # Our own know how they started: not each pool with the same number.
            as_started = values[name] is None and name in self._offered
            try:
                apply(self._first[name] if as_started else values[name])
            except Exception as error:  # of a library, or of the program's own function
                traceback.print_exc()  # for the reader of the job's output
                errors[name] = _text(error)
            if settle is not None and settle not in settles:
                settles.append(settle)
        for settle in settles:
            try:
                settle()
            except Exception as error:
                traceback.print_exc()
                for name in values:  # it concerns each knob that shares it
                    if name in self._all and self._all[name][2] == settle:
                        errors.setdefault(name, _text(error))
        return errors

    def _read(self, name, errors):
        read = self._all[name][1]
        try:
            return None if read is None else read()
        except Exception as error:
            errors.setdefault(name, _text(error))
            return None

    def state(self, rank, errors):
        """What this rank runs with now, and what went wrong."""
        errors = dict(errors)
        values = {name: self._read(name, errors) for name in self._all}
        state = {"rank": rank, "pid": os.getpid(), "values": values, "errors": errors}
        state.update(threads_state())
        return state


def _text(error):
    return " ".join(f"{type(error).__name__}: {error}".split()).rstrip(": ")[:300]


class Pools:
    """Every pool of BLAS and OpenMP in this process, PyTorch's own included."""

    def __init__(self):
        #: Each with its count at the start, or when it was first seen.
        self.known = {name: read() for name, (read, _) in _pools().items()}

    def apply(self, threads):
        """Set the count; None: to the first of each.

        It is capped as the environment would cap it, which no library does inside a process:
        above the CPUs that it may use an OpenBLAS becomes hundreds of times slower.
        """
        most = len(os.sched_getaffinity(0))
        pools = _pools()
        for name, (read, _) in pools.items():  # before any is set: one may tell another
            self.known.setdefault(name, read())
        for name, (_, write) in pools.items():
            write(self.known[name] if threads is None else min(int(threads), most))

    def read(self):
        """The count that is in force: the largest."""
        return max(read() for read, _ in _pools().values())


def _pools():
    """Name -> (read, write) of each pool, PyTorch last: it tells its libraries itself."""
    pools = {}
    for path in rank_report.pool_libraries():
        found = rank_report.counter(path)
        if found is not None:
            library, symbol = found
            pools[path] = getattr(library, symbol), _setter(library, symbol)
    torch = sys.modules.get("torch")
    if torch is not None:
        pools["torch"] = torch.get_num_threads, torch.set_num_threads
    return pools


def _setter(library, symbol):
    """``omp_set_num_threads`` for ``omp_get_max_threads``, and so on."""
    name = symbol.replace("get_max", "set_num").replace("Get_Max", "Set_Num")
    function = getattr(library, name.replace("_get_", "_set_"))
    # BLIS takes 64 bits, the others the lower 32 of them.
    function.argtypes, function.restype = (ctypes.c_long,), None
    return function


def has_children():
    """True if processes of this one run, such as loader workers: they keep their own counts.

    Also if the kernel does not tell.
    """
    tasks = "/proc/self/task"
    try:
        for task in os.listdir(tasks):
            with open(f"{tasks}/{task}/children") as file:
                if file.read().strip():
                    return True
    except OSError:
        return True
    return False


def threads_state():
    """What this process runs with: BLAS and OpenCV threads, pools, CPUs and allocator."""
    pools = [
        ["/".join(pool["library"].split("/")[-2:]), pool["threads"]] for pool in rank_report.pools()
    ]
    blas = [pool for pool in pools if pool[0].rpartition("/")[2].startswith(rank_report.BLAS)]
    blas.sort(key=lambda pool: ("opencv" in pool[0], not pool[0].startswith("numpy")))
    return {
        "blas_threads": blas[0][1] if blas else None,
        "opencv_threads": rank_report.opencv_threads(),
        "pools": pools,
        "affinity": sorted(os.sched_getaffinity(0)),
        "allocator": rank_report.allocator(),
    }
