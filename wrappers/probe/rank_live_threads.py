"""The thread counts of a rank: changed while it runs, and read back.

The same functions of the libraries are called as by threadpoolctl, which a program may not have.
"""

import ctypes
import os
import sys

import rank_report

_BLAS = ("libscipy_openblas", "libopenblas", "libblas", "libmkl_rt", "libblis")


def capped(threads):
    """As the environment would cap a count: inside a process no library does.

    Above the CPUs that it may use an OpenBLAS becomes hundreds of times slower.
    """
    return min(int(threads), len(os.sched_getaffinity(0)))


class Pools:
    """Every pool of BLAS and OpenMP in this process, PyTorch's own included."""

    def __init__(self):
        self._first = {}

    def begin(self):
        """Keep what the pools have now as how the job started.

        Returns:
            Whether there is any.
        """
        self._first = {name: read() for name, (read, _) in _pools().items()}
        return bool(self._first)

    def apply(self, threads):
        """Set the count; None: to what each pool had when it was first seen."""
        pools = _pools()
        for name, (read, _) in pools.items():  # before any is set: one may tell another
            self._first.setdefault(name, read())
        for name, (_, write) in pools.items():
            write(self._first[name] if threads is None else capped(threads))

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


class OpenCV:
    """OpenCV's threads in this process: not those of its loader workers."""

    def __init__(self):
        self._first = rank_report.opencv_threads()

    def apply(self, threads):
        """Set the count; None: to what it was."""
        sys.modules["cv2"].setNumThreads(self._first if threads is None else int(threads))

    def read(self):
        """The count that is in force."""
        return rank_report.opencv_threads()


def has_children():
    """True where processes of this one run, such as loader workers: they keep their own counts.

    Also where a kernel does not tell.
    """
    tasks = "/proc/self/task"
    try:
        return any(_text(f"{tasks}/{task}/children") for task in os.listdir(tasks))  # noqa: PTH208
    except OSError:
        return True


def _text(path):
    with open(path) as file:  # noqa: PTH123
        return file.read().strip()


def state():
    """What this process runs with: BLAS and OpenCV threads, pools, CPUs and allocator."""
    pools = [
        ["/".join(pool["library"].split("/")[-2:]), pool["threads"]] for pool in rank_report.pools()
    ]
    blas = [pool for pool in pools if pool[0].rpartition("/")[2].startswith(_BLAS)]
    blas.sort(key=lambda pool: ("opencv" in pool[0], not pool[0].startswith("numpy")))
    return {
        "blas_threads": blas[0][1] if blas else None,
        "opencv_threads": rank_report.opencv_threads(),
        "pools": pools,
        "affinity": sorted(os.sched_getaffinity(0)),
        "allocator": rank_report.allocator(),
    }
