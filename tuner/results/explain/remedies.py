"""Which knob addresses a cause, and in which direction."""

from __future__ import annotations

from collections.abc import Sequence

from tuner import knobs
from tuner.model import Choice, Flag, Knob, RankView, Setting, StudySpec, Value
from tuner.results.explain.cause import Cause, Remedy

LOWER, HIGHER, ANOTHER = "lower", "higher", "another"

#: The knobs that bear on each cause, the one that helps most often first.
REMEDIES: dict[Cause, tuple[tuple[str, str], ...]] = {
    Cause.OWN_THREADS: (("omp_threads", LOWER),),
    Cause.WORKERS: (("iterator_workers", LOWER), ("opencv_threads", LOWER)),
    Cause.OPENCV: (("opencv_threads", LOWER),),
    Cause.BINDING: (("bind_to", ANOTHER), ("omp_threads", LOWER)),
    Cause.LOADER: (("iterator_workers", HIGHER), ("prefetch", HIGHER)),
    Cause.DISK: (("prefetch", HIGHER), ("iterator_workers", HIGHER)),
    Cause.LINK: (
        ("communicator", ANOTHER),
        ("fp16_gradients", ANOTHER),
        ("ompi_allreduce", ANOTHER),
        ("mpich_allreduce", ANOTHER),
        ("ompi_btl", ANOTHER),
    ),
    Cause.EXCHANGE: (
        ("communicator", ANOTHER),
        ("ompi_btl", ANOTHER),
        ("ompi_allreduce", ANOTHER),
        ("mpich_allreduce", ANOTHER),
        ("nccl_algo", ANOTHER),
    ),
    Cause.MEMORY: (("iterator_workers", LOWER), ("malloc_arenas", LOWER)),
}


def remedy(
    cause: Cause,
    setting: Setting,
    spec: StudySpec,
    views: Sequence[RankView],
    *,
    idle: bool = False,
) -> Remedy | None:
    """The first knob that can still be turned the right way; ``None``: no knob helps.

    Args:
        cause: What holds the launch back.
        setting: What the launch ran with.
        spec: The study. Its knobs come first, then others that reach its program by environment
            or launcher. Whether the program has an option for the rest is not known.
        views: What was seen of the ranks.
        idle: Whether cores were idle: what is bound by the CPU can use more of them.
    """
    rows = REMEDIES.get(cause, ())
    if cause is Cause.CPU and idle:
        rows = (("omp_threads", HIGHER),)
    own = {knob.name: knob for knob in spec.knobs}
    values = setting.as_dict()
    for name, direction in rows:
        if name in own and can_turn(own[name], values.get(name), direction):
            return Remedy(name, direction)
    for name, direction in rows:
        if name not in own and _reaches(knobs.knob(name), spec, views):
            return Remedy(name, direction, tuned=False)
    return None


def _reaches(knob: Knob, spec: StudySpec, views: Sequence[RankView]) -> bool:
    """Whether a knob that the study does not have can do something in its program."""
    if isinstance(knob.route, Flag) or ("gpu" in knob.needs and not spec.machine.gpus):
        return False
    seen = [view for view in views if view.reported]
    uses_mpi = not seen or any(view.mpi_library for view in seen)
    return not knob.launchers or (spec.launcher.kind in knob.launchers and uses_mpi)


def can_turn(knob: Knob, value: Value | None, direction: str) -> bool:
    """Whether the domain has a value on that side; of an unset one (the default) it may."""
    domain = knob.domain
    if isinstance(domain, Choice):
        choices = [each for each in domain.values if each != value]
        if direction == ANOTHER:
            return bool(choices)
        numbers = [each for each in choices if isinstance(each, int)]
    else:
        high = domain.high if isinstance(domain.high, int) else domain.low + 1
        numbers = [domain.low, high]
    if not isinstance(value, int):
        return bool(numbers)
    return any(each < value if direction == LOWER else each > value for each in numbers)
