"""Writes a report of a rank when it ends, and after each switch of a live job.

``TUNE_PROBE_DIR/rank-N.json`` holds the thread pools as they are at that moment, so a limit that a
program sets for a while and takes back is not seen.
"""

import ctypes
import json
import os
import sys
import time

from rank_phases import write_file

# With the prefix of the builds in NumPy's and SciPy's wheels, and the suffix of 64-bit integers.
_OPENBLAS = tuple(
    prefix + "openblas_get_num_threads" + suffix
    for prefix in ("", "scipy_")
    for suffix in ("", "64_")
)
#: How the files of libraries begin, and the functions that tell their thread counts.
_POOLS = (
    (("libscipy_openblas", "libopenblas", "libblas"), _OPENBLAS),
    (("libmkl_rt",), ("MKL_Get_Max_Threads",)),
    (("libblis",), ("bli_thread_get_num_threads",)),
    (("libgomp", "libiomp", "libomp"), ("omp_get_max_threads",)),
)
#: Packages that bear on speed, by the names that programs import.
_PACKAGES = (
    "numpy", "scipy", "numba", "mpi4py", "cv2", "PIL", "h5py",
    "torch", "torchvision", "pytorch_pfn_extras", "lightning", "pytorch_lightning", "accelerate",
    "transformers", "deepspeed", "horovod", "apex", "triton",
    "chainer", "chainermn", "cupy", "ideep4py", "tensorflow", "keras", "jax", "jaxlib", "mxnet",
)  # fmt: skip


def _mapped_libraries(prefixes):
    """Return the paths of the shared libraries in this process whose names begin so."""
    paths = set()
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        for line in maps:
            fields = line.rstrip("\n").split(None, 5)  # the sixth is the path, if there is one
            if len(fields) == 6 and os.path.basename(fields[5]).startswith(prefixes):
                paths.add(fields[5])
    return sorted(paths)


def counter(path):
    """Return the handle of a mapped library and the name of the function that tells its threads.

    None: the library is of no known kind.
    """
    # RTLD_NOLOAD: the library is mapped already, and is not loaded again.
    library = ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
    name = os.path.basename(path)
    for prefixes, symbols in _POOLS:
        for symbol in symbols if name.startswith(prefixes) else ():
            function = getattr(library, symbol, None)
            if function is not None:
                function.argtypes, function.restype = (), ctypes.c_int
                return library, symbol
    return None


def _built_for(library, symbol):
    """Return the most threads an OpenBLAS was built for, from its ``MAX_THREADS=64``."""
    config = getattr(library, symbol.replace("num_threads", "config"), None)
    if "openblas" not in symbol or config is None:
        return None
    config.argtypes, config.restype = (), ctypes.c_char_p
    text = (config() or b"").decode("ascii", "replace")
    number = text.partition("MAX_THREADS=")[2].split(" ")[0]
    return int(number) if number.isdigit() else None


def pool_libraries():
    """Return the paths of the shared libraries in this process that have a pool of threads."""
    return _mapped_libraries(tuple(prefix for prefixes, _ in _POOLS for prefix in prefixes))


def pools():
    """Return each pool of threads in this process: its library, threads, and the most threads."""
    reports = []
    for path in pool_libraries():
        thread_counter = counter(path)
        if thread_counter is not None:
            library, symbol = thread_counter
            threads, most = getattr(library, symbol)(), _built_for(library, symbol)
            reports.append({"library": path, "threads": threads, "built_for": most})
    torch = sys.modules.get("torch")
    if torch is not None:
        reports.append({"library": "torch", "threads": torch.get_num_threads(), "built_for": None})
    return reports


def allocator():
    """Return which library malloc comes from: one that was preloaded, else the C library."""
    loaded = _mapped_libraries(("libjemalloc", "libtcmalloc"))
    if not loaded:
        return "glibc" if _mapped_libraries(("libc.so", "libc-")) else None
    return "jemalloc" if "libjemalloc" in loaded[0] else "tcmalloc"


def opencv_threads():
    """Return OpenCV's number of threads; None if it is not loaded."""
    cv2 = sys.modules.get("cv2")
    return None if cv2 is None else cv2.getNumThreads()


def _mpi():
    """Return the size of MPI's world and the library's name, by local calls alone."""
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is None or not mpi.Is_initialized() or mpi.Is_finalized():
        return None
    # Only name and version of "Open MPI v5.0.11, package: …" and "MPICH Version:      5.0.2\n…".
    library = mpi.Get_library_version().strip("\0\n ").splitlines()[0].split(",")[0]
    return {"world_size": mpi.COMM_WORLD.Get_size(), "library": " ".join(library.split())}


def packages():
    """Return the versions of Python and of the packages that bear on speed.

    Only packages that the program has loaded are in it: nothing is imported for the report.
    """
    versions = {"python": ".".join(map(str, sys.version_info[:3]))}
    for name in _PACKAGES:
        version = getattr(sys.modules.get(name), "__version__", None)
        if version is not None:
            versions[name] = str(version)
    return versions


def _report(rank, size):
    # Without the command line, which may hold secrets.
    report = {"rank": rank, "pid": os.getpid(), "launcher_size": size, "errors": []}
    # Python sets last_type for an exception that nothing caught. A pipe may hide the exit code.
    report["uncaught"] = getattr(getattr(sys, "last_type", None), "__name__", "")
    report["ended_s"] = time.clock_gettime(7)  # CLOCK_BOOTTIME, as in /proc/PID/stat
    parts = {
        "affinity": lambda: sorted(os.sched_getaffinity(0)),
        "pools": pools,
        "opencv_threads": opencv_threads,
        "allocator": allocator,
        "mpi": _mpi,
    }
    if rank == 0:  # the other ranks have the same ones
        parts["packages"] = packages
    for name, read in parts.items():
        try:
            report[name] = read()
        except Exception as error:  # a foreign library may raise anything
            report[name] = None
            report["errors"].append(f"{name}: {type(error).__name__}: {error}")
    return report


def _weight(report):
    """Return what reports are compared by: of several Pythons in a rank the trainer's is kept."""
    return (bool(report.get("mpi")), bool(report.get("opencv_threads")), bool(report.get("pools")))


def write(folder, rank, size):
    """Write the report, unless another process of this rank has written one that tells more."""
    path = os.path.join(folder, f"rank-{rank}.json")
    report = _report(rank, size)
    try:
        with open(path, encoding="utf-8") as old:
            if _weight(json.load(old)) > _weight(report):
                return
    except FileNotFoundError:
        pass
    write_file(path, json.dumps(report, default=str).encode())
