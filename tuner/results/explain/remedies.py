"""Which knob addresses a cause, and in which direction."""

from __future__ import annotations

from tuner import knobs
from tuner.model import Choice, Flag, Knob, Setting, Value
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
    cause: Cause, setting: Setting, tuned: tuple[Knob, ...], *, idle: bool = False
) -> Remedy | None:
    """The first knob that can still be turned the right way; ``None``: no knob helps.

    Args:
        cause: What holds the launch back.
        setting: What the launch ran with.
        tuned: The study's knobs; others that reach any program, by environment or launcher, come
            after them. Whether the program has an option for the rest is not known.
        idle: Whether cores were idle: what is bound by the CPU can use more of them.
    """
    rows = REMEDIES.get(cause, ())
    if cause is Cause.CPU and idle:
        rows = (("omp_threads", HIGHER),)
    own = {knob.name: knob for knob in tuned}
    values = setting.as_dict()
    for name, direction in rows:
        if name in own and can_turn(own[name], values.get(name), direction):
            return Remedy(name, direction)
    for name, direction in rows:
        if name not in own and not isinstance(knobs.knob(name).route, Flag):
            return Remedy(name, direction, tuned=False)
    return None


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
