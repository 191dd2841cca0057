"""Hides the secrets of one environment and its commands, and says what may be stored."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from urllib.parse import quote, unquote

from tuner.launch.secrets.patterns import HIDDEN, hide_shapes, hide_words, is_secret_variable
from tuner.model import Failed, LaunchRecord, StudySpec

#: Shorter values stand in too many words that are no secrets, characters.
SHORTEST = 6

#: A secret of several lines is known by any line of this length, characters.
LINE = 16

#: Values that are no secrets, whatever the name of their variable.
_EMPTY_WORDS = frozenset({"true", "false", "none", "null", "default", "enabled", "disabled"})


#: Of letters and many figures: a key, though its variable's name does not say so.
_RANDOM = re.compile(r"(?=(?:.*[0-9]){5})(?=.*[A-Za-z])[\w+=-]{16,}")


@dataclass(frozen=True)
class Redactor:
    """Knows ``secrets``, and hides them beside all that looks like one.

    ``suspects`` are values that may be secrets: they are hidden in texts, but not in commands,
    of which a study is made.
    """

    secrets: frozenset[str] = frozenset()
    suspects: frozenset[str] = frozenset()

    @classmethod
    def of(cls, environ: Mapping[str, str], *commands: Sequence[str]) -> Redactor:
        """The secrets of an environment and of these commands, as they are run."""
        found: set[str] = set()
        suspects = {value for value in environ.values() if _RANDOM.fullmatch(value)}
        for name, value in environ.items():
            if is_secret_variable(name):
                found.add(value)
            hide_shapes(value, found.add)
        for command in commands:
            hide_words(command, lambda word: hide_shapes(word, found.add), found.add)
        return cls(frozenset(filter(_is_worth_hiding, found)), frozenset(suspects))

    def text(self, text: str) -> str:
        """The text without secrets."""
        return self._hide(text, self._suspected)

    def words(self, argv: Sequence[str]) -> tuple[str, ...]:
        """The command without secrets; as many words as before."""
        return hide_words(argv, lambda word: self._hide(word, self._known), lambda _: None)

    @staticmethod
    def _hide(text: str, known: re.Pattern[str] | None) -> str:
        return hide_shapes(text if known is None else known.sub(HIDDEN, text))

    @cached_property
    def _known(self) -> re.Pattern[str] | None:
        return _any_of(self.secrets)

    @cached_property
    def _suspected(self) -> re.Pattern[str] | None:
        return _any_of(self.secrets | self.suspects)


def _any_of(secrets: frozenset[str]) -> re.Pattern[str] | None:
    """A pattern of all their forms, the longest first."""
    forms = {form for secret in secrets for form in _forms(secret)}
    longest_first = sorted(forms, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first))) if forms else None


def _is_worth_hiding(secret: str) -> bool:
    return len(secret) >= SHORTEST and secret.lower() not in _EMPTY_WORDS


def _forms(secret: str) -> set[str]:
    """How a secret may stand in a text: as it is, in a URL, quoted, line by line."""
    lines = [line for line in map(str.strip, secret.splitlines()) if len(line) >= LINE]
    encoded = quote(secret, safe="", errors="backslashreplace")
    forms = {secret, encoded, unquote(secret), json.dumps(secret)[1:-1], repr(secret)[1:-1]}
    return {form for form in (*forms, *lines) if len(form) >= SHORTEST}


def redact_spec(spec: StudySpec, environ: Mapping[str, str]) -> StudySpec:
    """The study as it may be stored: the same, but for secrets in its commands."""
    args = spec.launcher.extra_args
    redactor = Redactor.of(environ, spec.command, spec.job, args)
    return replace(
        spec,
        command=redactor.words(spec.command),
        job=redactor.words(spec.job),
        launcher=replace(spec.launcher, extra_args=redactor.words(args)),
        environment=tuple((name, redactor.text(value)) for name, value in spec.environment),
    )


def kept_record(record: LaunchRecord, environ: Mapping[str, str]) -> LaunchRecord:
    """The launch as it may be stored and told of: its command and its reasons without secrets."""
    redactor = Redactor.of(environ, record.argv)
    ending = record.outcome.ending
    if isinstance(ending, Failed):
        reason, tail = redactor.text(ending.reason), redactor.text(ending.log_tail)
        ending = replace(ending, reason=reason, log_tail=tail)
    return replace(
        record,
        argv=redactor.words(record.argv),
        env={name: redactor.text(value) for name, value in record.env.items()},
        outcome=replace(record.outcome, ending=ending),
    )


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
_RANDOM_PARAMETER = re.compile(r"(?=[^/:,;=.]*[0-9])(?=[^/:,;=.]*[A-Za-z])[^/:,;=.\s]{20,}")
_PLAIN = re.compile(r"[\w ./:,;=+^*@%\[\]{}()<>|&!?~#-]*")


def recorded_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What may be kept of an environment, sorted by name; ``***`` for what may be a secret."""
    return {
        name: _shown(name, environ[name])
        for name in sorted(environ)
        if (name in NAMES or name.startswith(FAMILIES)) and not is_secret_variable(name)
    }


def _shown(name: str, value: str) -> str:
    if name not in NAMES and (_RANDOM_PARAMETER.search(value) or not _PLAIN.fullmatch(value)):
        return HIDDEN
    return hide_shapes(value)
