"""What is kept of the user's environment: an allowlist, as anything else may hold a secret."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tuner.launch.secrets.hidden import HIDDEN
from tuner.launch.secrets.names import is_secret_variable
from tuner.launch.secrets.shapes import hide_shapes

#: What bears on speed, by name (OpenMP 5.2 chapter 21; the manuals of the libraries).
NAMES = frozenset(
    {f"OMP_{name}" for name in (
        "NUM_THREADS", "THREAD_LIMIT", "DYNAMIC", "NESTED", "MAX_ACTIVE_LEVELS", "PROC_BIND",
        "PLACES", "SCHEDULE", "STACKSIZE", "WAIT_POLICY", "CANCELLATION", "DEFAULT_DEVICE",
        "MAX_TASK_PRIORITY", "TARGET_OFFLOAD", "NUM_TEAMS", "TEAMS_THREAD_LIMIT", "ALLOCATOR",
    )}
    | {f"GOMP_{name}" for name in ("CPU_AFFINITY", "STACKSIZE", "SPINCOUNT")}
    | {f"KMP_{name}" for name in (
        "AFFINITY", "BLOCKTIME", "HW_SUBSET", "STACKSIZE", "LIBRARY", "INIT_AT_FORK",
        "ALL_THREADS", "MAX_THREADS", "DEVICE_THREAD_LIMIT", "TEAMS_THREAD_LIMIT", "TPAUSE",
        "DUPLICATE_LIB_OK",
    )}
    | {f"OPENBLAS_{name}" for name in (
        "NUM_THREADS", "DEFAULT_NUM_THREADS", "MAIN_FREE", "CORETYPE", "THREAD_TIMEOUT",
        "BLOCK_FACTOR", "L2_SIZE",
    )}
    | {f"MKL_{name}" for name in (
        "NUM_THREADS", "DYNAMIC", "DOMAIN_NUM_THREADS", "ENABLE_INSTRUCTIONS", "CBWR",
        "THREADING_LAYER", "INTERFACE_LAYER", "DEBUG_CPU_TYPE", "NUM_STRIPES",
    )}
    | {f"BLIS_{name}" for name in (
        "NUM_THREADS", "JC_NT", "PC_NT", "IC_NT", "JR_NT", "IR_NT", "ARCH_TYPE", "THREAD_IMPL",
    )}
    | {"GOTO_NUM_THREADS", "NUMEXPR_NUM_THREADS", "NUMEXPR_MAX_THREADS"}
    | {"VECLIB_MAXIMUM_THREADS", "OPENCV_FOR_THREADS_NUM", "CUDA_VISIBLE_DEVICES"}
    | {f"MALLOC_{name}" for name in (
        "ARENA_MAX", "ARENA_TEST", "MMAP_MAX_", "MMAP_THRESHOLD_", "TOP_PAD_", "TRIM_THRESHOLD_",
        "CONF",
    )}
    | {"GLIBC_TUNABLES", "LD_PRELOAD", "MPI4PY_LIBMPI"}
)  # fmt: skip

#: Libraries with hundreds of parameters: of these only what does not look like a secret.
FAMILIES = (
    "OMPI_MCA_", "PRTE_MCA_", "PMIX_MCA_", "MPICH_", "MPIR_CVAR_", "HYDRA_", "I_MPI_",
    "UCX_", "FI_", "NCCL_", "CUDA_", "CUPY_", "CHAINER_", "CHAINERMN_", "OPENCV_",
)  # fmt: skip

#: Long, of letters and figures, between the marks of lists and paths: nobody's parameter.
_RANDOM = re.compile(r"(?=[^/:,;=.]*[0-9])(?=[^/:,;=.]*[A-Za-z])[^/:,;=.\s]{20,}")
_PLAIN = re.compile(r"[\w ./:,;=+^*@%\[\]{}()<>|&!?~#-]*")


def recorded_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What may be kept of an environment, sorted by name; ``***`` for what may be a secret."""
    return {
        name: _shown(name, environ[name])
        for name in sorted(environ)
        if (name in NAMES or name.startswith(FAMILIES)) and not is_secret_variable(name)
    }


def _shown(name: str, value: str) -> str:
    if name not in NAMES and (_RANDOM.search(value) or not _PLAIN.fullmatch(value)):
        return HIDDEN
    return hide_shapes(value)
