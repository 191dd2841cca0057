"""Which knobs can be set on a host, and why the others cannot (pure)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tuner import knobs as table
from tuner.hosts.machine import HostFeatures, is_allocator
from tuner.knobs import space
from tuner.knobs.table import GLIBC, OTHER_ALLOCATOR
from tuner.launch.launchers import launcher_for
from tuner.model import (
    OFF,
    ON,
    UNSET,
    Choice,
    Env,
    Knob,
    LauncherInfo,
    LauncherOption,
    Layout,
    Machine,
    Value,
    wording,
)
from tuner.model.errors import UsageError

_GLIBC_WITH_HUGE_PAGES = (2, 35)


@dataclass(frozen=True)
class TargetHost:
    """All that says what can be set: the machine, the ranks on it, their mpirun."""

    machine: Machine
    layout: Layout
    launcher: LauncherInfo
    features: HostFeatures


@dataclass(frozen=True)
class Answer:
    """What a knob is here.

    ``knob`` has its values cut to this host. ``why_not`` is empty if it applies; else there
    is a ``hint``, and ``possible`` says that it can be set all the same, to no avail.
    """

    knob: Knob
    why_not: str = ""
    hint: str = ""
    possible: bool = True


def answer(row: Knob, host: TargetHost, *, own: bool = False) -> Answer:
    """Judge a row of the table, or a knob of the user's.

    Args:
        row: The knob; its domain may have ``cores``.
        host: Where it is to be set.
        own: The user named its values: none of them is cut, and one that cannot be set here is
            said to be.
    """
    knob = _on_host(row, host)
    listed = space.values(knob.domain, host.machine)
    refused = {v: why for v in listed if (why := _refusal(knob, v, host))}
    if not own:
        several = {"socket": host.features.sockets, "numa": host.machine.numa_nodes}
        places = several if isinstance(knob.route, LauncherOption) else {}
        # Of a place that is there once, the value comes to another one.
        if _is_binding(knob):
            places[launcher_for(host.launcher.kind).default_place(host.layout)] = 1
        kept = tuple(v for v in listed if v not in refused and places.get(str(v), 2) > 1)
        knob = knob if kept == listed else replace(knob, domain=Choice(kept))
    names = frozenset({knob.name} if own else ())
    (knob,) = space.resolve([knob], host.machine, host.layout, own=names)
    problem = _problem(knob, host)
    idle = not own and set(space.values(knob.domain)) <= {knob.neutral}
    if refused and (own or idle) and (problem is None or problem[2]):
        problem = (*next(iter(refused.values())), False)
    elif idle and problem is None:
        problem = ("nothing but the default can be set here", "leave it out", False)
    return Answer(knob) if problem is None else Answer(knob, *problem)


def _problem(knob: Knob, host: TargetHost) -> _Problem | None:
    """What keeps all values of the knob from being set, or from mattering."""
    kind = host.launcher.kind
    if knob.launchers and kind not in knob.launchers:
        mine = " or ".join(
            wording.LAUNCHER_NAMES.get(launcher, launcher) for launcher in knob.launchers
        )
        why = f"only {mine} reads it, and this is {wording.launcher(host.launcher)}"
        return why, "leave it out, or name another mpirun with --mpirun PATH", False
    for need in knob.needs:
        problem = NEEDS[need](host)
        if problem is not None:
            return problem
    return None


#: Why a knob does not apply, what to do, and whether it can be set all the same.
_Problem = tuple[str, str, bool]


def _gpu(host: TargetHost) -> _Problem | None:
    if host.machine.gpus:
        return None
    return "no GPU was found here", "leave it out, or run on a host with a GPU", False


def _huge_pages(host: TargetHost) -> _Problem | None:
    mode, glibc = host.features.huge_pages, host.features.glibc
    if mode == "madvise" and glibc >= _GLIBC_WITH_HUGE_PAGES:
        return None
    if mode == "always":
        why = "the kernel gives them to every process (transparent_hugepage: always)"
    elif mode == "madvise":
        why = "it needs glibc 2.35 or later"
    else:
        why = f"the kernel gives them to none (transparent_hugepage: {mode or 'not there'})"
    change = "have madvise written to /sys/kernel/mm/transparent_hugepage/enabled"
    return why, f"leave it out, or {change}" if mode != "madvise" else "leave it out", False


def _room(host: TargetHost) -> _Problem | None:
    """Nothing to choose if ranks are free and have one core, or one core to be bound to."""
    ranks, cores = host.layout.ranks_per_host, host.machine.usable_cores
    if cores > 1 and launcher_for(host.launcher.kind).default_place(host.layout) != "none":
        return None  # ranks are bound unless the knob frees them
    hint = "--knob bind_to tunes it all the same"
    if cores // ranks < 2:
        have = f"{wording.count(ranks, 'rank')} on {wording.count(cores, 'core')}"
        return f"{have}: no rank has two cores to be bound to", hint, True
    if _is_one_place(host):
        why = "with one socket and one NUMA node a rank can only be confined to one core"
        return why, hint, True
    return None


def _places(host: TargetHost) -> _Problem | None:
    if not _is_one_place(host):
        return None
    why = "with one socket and one NUMA node every order is the same"
    return why, "--knob map_by tunes it all the same", True


def _is_one_place(host: TargetHost) -> bool:
    return host.features.sockets < 2 and host.machine.numa_nodes < 2


def _btl_is_free(host: TargetHost) -> _Problem | None:
    args = host.launcher.extra_args
    for option, name, value in zip(args, args[1:], args[2:], strict=False):
        if option.lstrip("-") in {"mca", "gmca", "omca"} and name == "btl":
            why = f"the arguments for mpirun choose it: {value}"
            return why, "leave one of the two out", False
    return None


def _hosts(host: TargetHost) -> _Problem | None:
    if len(host.layout.hosts) > 1:
        return None
    return "all ranks are on one host", "leave it out, or name hosts with --hosts h1,h2", True


def _networks(host: TargetHost) -> _Problem | None:
    if len(host.features.interfaces) > 1:
        return None
    names = ", ".join(host.features.interfaces)
    why = f"the hosts share {f'{names} alone' if names else 'no interface'}"
    hint = f"--fix interface={names} keeps to it" if names else "leave it out"
    return why, hint, bool(names)


def _neighbours(host: TargetHost) -> _Problem | None:
    if host.layout.ranks_per_host > 1:
        return None
    return "each host has one rank", "leave it out, or run more ranks on each with --ppn", True


#: What ``Knob.needs`` may name.
NEEDS: Mapping[str, Callable[[TargetHost], _Problem | None]] = {
    "gpu": _gpu,
    "hosts": _hosts,
    "huge_pages": _huge_pages,
    "neighbours": _neighbours,
    "networks": _networks,
    "room": _room,
    "places": _places,
    "btl_is_free": _btl_is_free,
}


def _refusal(knob: Knob, value: Value, host: TargetHost) -> tuple[str, str] | None:
    """Why a value cannot be set here, and what to do; ``None`` if it can."""
    is_ours = isinstance(knob.route, Env) and knob.route.texts
    if (
        is_ours
        and knob.name == "allocator"
        and value not in {UNSET, knob.neutral, *host.features.allocators}
    ):
        if value not in space.values(table.knob(knob.name).domain):
            return f"it cannot be {value!r}", OTHER_ALLOCATOR
        hint = "on Debian: apt-get install libjemalloc2 libtcmalloc-minimal4"
        return f"{value} is not installed here", hint
    is_interface = isinstance(knob.route, Env) and knob.name == "interface"
    if is_interface and value not in {UNSET, *host.features.interfaces}:
        hint = f"there are {', '.join(host.features.interfaces) or 'none'}"
        return f"{value} is no interface of a network that all hosts share", hint
    if isinstance(knob.route, LauncherOption) and value != UNSET:
        options = {**_FREE.get(knob.name, {}), knob.route.option: value}
        try:
            launcher_for(host.launcher.kind).argv(host.launcher, host.layout, options, ())
        except UsageError as error:
            return error.message, error.hint
    return None


#: With what a launcher is asked whether it takes a value of another option.
_FREE: Mapping[str, Mapping[str, Value]] = {"map_by": {"bind_to": "core"}}


def _is_binding(knob: Knob) -> bool:
    return isinstance(knob.route, LauncherOption) and knob.route.option == "bind_to"


def _on_host(knob: Knob, host: TargetHost) -> Knob:
    """The row with what differs from host to host; one whose route the user changed stays."""
    if _is_binding(knob) and UNSET not in space.values(knob.domain):
        # Of values that the user names, that of the launcher changes nothing.
        place = launcher_for(host.launcher.kind).default_place(host.layout)
        return replace(knob, neutral=place or None)
    if not table.is_known(knob.name) or knob.route != table.knob(knob.name).route:
        return knob
    features = host.features
    if knob.name == "allocator":  # the user's own LD_PRELOAD stays, but for another allocator
        kept = [w for w in features.preload.replace(":", " ").split() if not is_allocator(w)]
        texts = {GLIBC: ":".join(kept)}
        texts |= {name: ":".join((path, *kept)) for name, path in features.allocators.items()}
    elif knob.name == "huge_pages":  # the user's other tunables stay
        tunable = "glibc.malloc.hugetlb="
        kept = [t for t in features.tunables.split(":") if t and not t.startswith(tunable)]
        texts = {OFF: ":".join(kept), ON: ":".join((*kept, f"{tunable}1"))}
    elif knob.name == "ompi_btl":
        old = host.launcher.version.startswith(("3.", "4."))
        texts = {"no_ofi": "^ofi", "sm": f"self,{'vader' if old else 'sm'}", "tcp": "self,tcp"}
    elif knob.name == "interface" and knob.domain == table.knob(knob.name).domain:
        return replace(knob, domain=Choice((UNSET, *features.interfaces)))
    else:
        return knob
    assert isinstance(knob.route, Env)
    return replace(knob, route=replace(knob.route, texts=tuple(texts.items())))
