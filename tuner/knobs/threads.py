"""Threads of a rank: how many, and how they wait."""

from __future__ import annotations

from tuner.model import UNSET, Choice, Env, IntRange, Knob

THREADS = (
    Knob(
        "omp_threads",
        IntRange(1, "cores"),
        Env(
            (
                "OMP_NUM_THREADS",
                "OPENBLAS_NUM_THREADS",
                "MKL_NUM_THREADS",
                "BLIS_NUM_THREADS",
                "NUMEXPR_NUM_THREADS",
            )
        ),
        help="BLAS and OpenMP threads per rank",
        why="Each rank starts as many threads as the host has cores unless it is told: eight"
        " ranks then run eight threads on each core, which wait for each other.",
        source="OpenMP 5.2, section 21.1.2, OMP_NUM_THREADS"
        " <https://www.openmp.org/spec-html/5.2/openmpse59.html>",
        live=True,
        usual=True,
    ),
    Knob(
        "opencv_threads",
        IntRange(1, "cores"),
        Env(("OPENCV_FOR_THREADS_NUM",)),  # OpenCV does not read OMP_NUM_THREADS
        help="OpenCV threads per rank",
        why="OpenCV has a pool of its own, of one thread a core, in each rank and in each loader"
        " worker: they multiply with the workers.",
        source="OpenCV 4, cv::setNumThreads and the environment variables reference,"
        " OPENCV_FOR_THREADS_NUM"
        " <https://docs.opencv.org/4.x/d6/dea/tutorial_env_reference.html>",
        live=True,
        usual=True,
    ),
    Knob(
        "omp_wait_policy",
        Choice((UNSET, "active", "passive")),
        Env(("OMP_WAIT_POLICY",)),
        help="whether idle OpenMP threads spin or sleep",
        why="Threads that spin at a barrier start the next loop at once, but take the core from"
        " whoever else could run on it: good on free cores, ruinous on shared ones.",
        source="OpenMP 5.2, section 21.1.7, OMP_WAIT_POLICY"
        " <https://www.openmp.org/spec-html/5.2/openmpse64.html>",
        neutral=UNSET,
    ),
    Knob(
        "kmp_blocktime",
        Choice((UNSET, 0, 1, 200)),
        Env(("KMP_BLOCKTIME",)),
        help="milliseconds that threads of LLVM's or Intel's OpenMP spin before they sleep",
        why="These libraries spin for 200 ms by default, and keep a core that other ranks or"
        " loader workers wait for. Only programs with libomp or libiomp5 (MKL, numba) read it.",
        source="LLVM/OpenMP runtimes, KMP_BLOCKTIME"
        " <https://openmp.llvm.org/design/Runtimes.html#kmp-blocktime>",
        neutral=UNSET,
    ),
    Knob(
        "gomp_spincount",
        Choice((UNSET, 0, 10_000, 1_000_000)),
        Env(("GOMP_SPINCOUNT",)),
        help="how often threads of GNU's OpenMP look before they sleep",
        why="GNU's OpenMP spins for some milliseconds, and only a little where it sees more"
        " threads than cores: of the other ranks' threads it knows nothing. Only programs with"
        " libgomp (GCC, PyTorch) read it.",
        source="GNU libgomp, section 4.27, GOMP_SPINCOUNT"
        " <https://gcc.gnu.org/onlinedocs/libgomp/GOMP_005fSPINCOUNT.html>",
        neutral=UNSET,
    ),
    Knob(
        "openblas_thread_timeout",
        Choice((UNSET, 4, 10, 20, 26)),
        Env(("OPENBLAS_THREAD_TIMEOUT",)),
        help="OpenBLAS threads spin for 2 to this power of clock ticks before they sleep",
        why="NumPy's OpenBLAS keeps idle threads spinning for 2^26 ticks (some 20 ms). Where"
        " cores are oversubscribed these spins are the time that others wait for.",
        source="OpenBLAS, Runtime variables, OPENBLAS_THREAD_TIMEOUT (4 to 30)"
        " <https://www.openmathlib.org/OpenBLAS/docs/runtime_variables/>",
        neutral=UNSET,
    ),
)
