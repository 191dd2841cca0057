"""Which knobs can be set on a host, and why the others cannot (pure)."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from tuner import knobs as table
from tuner.hosts.machine import HostFeatures, is_allocator
from tuner.knobs import space
from tuner.knobs.table import GLIBC, OTHER_ALLOCATOR
from tuner.launch.launchers import launcher_for
from tuner.model import (
    OFF,
    ON,
    SHARE,
    UNSET,
    Choice,
    Domain,
    Env,
    Knob,
    LauncherInfo,
    LauncherOption,
    Layout,
    Machine,
    Prefix,
    RankCount,
    Value,
    wording,
)
from tuner.model.errors import UsageError


@dataclass(frozen=True)
class TargetHost:
    """A host with the ranks on it and their mpirun: it decides what can be set."""

    machine: Machine
    layout: Layout
    launcher: LauncherInfo
    features: HostFeatures
    global_batch: int | None = None  # samples of a step, which the ranks share
    tried_ranks: tuple[int, ...] = ()  # on each host; empty: those of the layout alone

    @property
    def fewest_ranks(self) -> int:
        """Return how many ranks a host has at least."""
        return min(self.tried_ranks, default=self.layout.ranks_per_host)

    @property
    def most_cores_per_rank(self) -> int:
        """Return the even share of a rank where the fewest ranks are."""
        return self.machine.cores_per_rank(self.layout.with_ranks_per_host(self.fewest_ranks))

    @property
    def default_place(self) -> str:
        """Return what the launcher binds ranks to by itself, if that is known for each number."""
        launcher, layout = launcher_for(self.launcher.kind), self.layout
        layouts = (layout, *map(layout.with_ranks_per_host, self.tried_ranks))
        places = {launcher.default_place(layout) for layout in layouts}
        return places.pop() if len(places) == 1 else ""

    @property
    def is_one_place(self) -> bool:
        """Return whether there is one socket and one NUMA node."""
        return self.features.sockets < 2 and self.machine.numa_nodes < 2


@dataclass(frozen=True)
class KnobOnHost:
    """A knob with only the values that can be set on a host.

    ``why_not`` is empty if some of them may make a launch faster; else there is a ``hint`` what to
    do, and ``possible`` says that the knob can be set all the same, to no avail.
    """

    knob: Knob
    why_not: str = ""
    hint: str = ""
    possible: bool = True


#: Why a knob does not apply, what to do, and [2] whether it can be set all the same.
_Problem = tuple[str, str, bool]


def knob_on_host(row: Knob, host: TargetHost, *, has_own_values: bool = False) -> KnobOnHost:
    """Return a row of the table, or a knob of the user's, as it is on a host.

    If the user named its values (``has_own_values``), none of them is left out, and one that cannot
    be set here is the reason why the knob does not apply.
    """
    knob = _with_values_on(row, host)
    values = space.values(knob.domain, host.machine)
    refusals = {v: why for v in values if (why := _refusal(knob, v, host))}
    if not has_own_values:
        places: dict[str, int] = {}
        if isinstance(knob.route, LauncherOption):
            places = {"socket": host.features.sockets, "numa": host.machine.numa_nodes}
        # A place that exists once is left out: another value binds alike. Other values count as 2.
        if _is_binding(knob):
            places[host.default_place] = 1
        possible = tuple(v for v in values if v not in refusals and places.get(str(v), 2) > 1)
        knob = knob if possible == values else replace(knob, domain=Choice(possible))
    names = frozenset({knob.name} if has_own_values else ())
    (knob,) = space.resolve([knob], host.machine, host.layout, own=names)
    problem = _problem(knob, host)
    is_neutral = not has_own_values and set(space.values(knob.domain)) <= {knob.neutral}
    if refusals and (has_own_values or is_neutral) and (problem is None or problem[2]):
        problem = (*next(iter(refusals.values())), False)
    elif is_neutral and problem is None:
        problem = ("nothing but the default can be set here", "leave it out", False)
    return KnobOnHost(knob) if problem is None else KnobOnHost(knob, *problem)


def _problem(knob: Knob, host: TargetHost) -> _Problem | None:
    """Return what keeps all values of the knob from being set, or from mattering."""
    if knob.launchers and host.launcher.kind not in knob.launchers:
        readers = " or ".join(wording.LAUNCHER_NAMES.get(kind, kind) for kind in knob.launchers)
        why = f"only {readers} reads it, and this is {wording.launcher(host.launcher)}"
        return why, "leave it out, or name another mpirun with --mpirun PATH", False
    for need in map(NEEDS.__getitem__, knob.needs):
        if not need.is_met(host):
            return need.why.format(host=host), need.hint, need.possible
    return None


class _Need(NamedTuple):
    """A need of a knob: the check of a host, and the message and hint if the host fails it."""

    is_met: Callable[[TargetHost], bool]
    why: str
    hint: str
    possible: bool = True


def _frees_ranks(host: TargetHost) -> bool:
    """Return whether the knob frees bound ranks, or can bind them to more than one core."""
    is_bound = host.machine.usable_cores > 1 and host.default_place != "none"
    return is_bound or (host.most_cores_per_rank > 1 and not host.is_one_place)


def _btl_is_free(host: TargetHost) -> bool:
    pairs = itertools.pairwise(host.launcher.extra_args)
    return not any(o.lstrip("-") in {"mca", "gmca", "omca"} and n == "btl" for o, n in pairs)


#: What a knob can need of a host, by the names in ``Knob.needs``.
NEEDS = {
    "gpu": _Need(
        lambda host: bool(host.machine.gpus),
        "no GPU was found here",
        "leave it out, or run on a host with a GPU",
        possible=False,
    ),
    "hosts": _Need(
        lambda host: len(host.layout.hosts) > 1,
        "all ranks are on one host",
        "leave it out, or name hosts with --hosts h1,h2",
    ),
    "huge_pages": _Need(
        lambda host: host.features.huge_pages == "madvise" and host.features.glibc >= (2, 35),
        "a program chooses with glibc 2.35 or later, where the kernel leaves it the choice"
        " (transparent_hugepage: madvise; here: {host.features.huge_pages})",
        "leave it out, or have madvise written to /sys/kernel/mm/transparent_hugepage/enabled",
        possible=False,
    ),
    "neighbours": _Need(
        lambda host: host.layout.ranks_per_host > 1,
        "each host has one rank",
        "leave it out, or run more ranks on each with --ppn",
    ),
    "networks": _Need(
        lambda host: len(host.features.interfaces) > 1,
        "the hosts do not share two networks",
        "leave it out, or name the one network: --fix interface=NAME",
    ),
    "numa": _Need(
        lambda host: host.machine.numa_nodes > 1,
        "there is one NUMA node here",
        "leave it out, or run on a host with several",
        possible=False,
    ),
    "room": _Need(
        _frees_ranks,
        "each rank could only be confined to one core",
        "--knob bind_to tunes it all the same",
    ),
    "share": _Need(
        lambda host: host.most_cores_per_rank > 1,
        "each rank could only be confined to one core",
        "--knob cores_per_rank tunes it all the same",
    ),
    "places": _Need(
        lambda host: not host.is_one_place,
        "with one socket and one NUMA node every order is the same",
        "--knob map_by tunes it all the same",
    ),
    "btl_is_free": _Need(
        _btl_is_free,
        "the arguments for mpirun choose it",
        "leave one of the two out",
        possible=False,
    ),
}


def _refusal(  # noqa: PLR0911
    knob: Knob, value: Value, host: TargetHost
) -> tuple[str, str] | None:
    """Return why a value cannot be set here, and what to do; ``None`` if it can."""
    if isinstance(knob.route, LauncherOption | RankCount):
        return _refusal_of_launcher(knob.route, value, host)
    if value != UNSET and isinstance(knob.route, Prefix):
        words = dict(knob.route.words)
        if value not in words:
            return f"it cannot be {value!r}", f"it can be {' or '.join(map(str, words))}"
        if "numactl" in words[value] and not host.features.has_numactl:
            return "numactl is not installed here", "on Debian: apt-get install numactl"
    if value == UNSET or not isinstance(knob.route, Env):
        return None
    if knob.name == "interface" and value not in host.features.interfaces:
        hint = f"there are {', '.join(host.features.interfaces) or 'none'}"
        return f"{value} is no interface of a network that all hosts share", hint
    if knob.name == "allocator" and knob.route.texts:  # the table's own route
        if value not in space.values(table.knob(knob.name).domain):
            return f"it cannot be {value!r}", OTHER_ALLOCATOR
        if value not in {knob.neutral, *host.features.allocators}:
            hint = "on Debian: apt-get install libjemalloc2 libtcmalloc-minimal4"
            return f"{value} is not installed here", hint
    return None


def _refusal_of_launcher(
    route: LauncherOption | RankCount, value: Value, host: TargetHost
) -> tuple[str, str] | None:
    """Return why the launcher cannot be told a value, or so many ranks have no even work."""
    if isinstance(route, LauncherOption) and value != UNSET:
        # A launcher checks the order of ranks only if they are bound.
        binding: dict[str, Value] = {"bind_to": "core"} if route.option == "map_by" else {}
        number = host.most_cores_per_rank if value == SHARE else value
        try:
            launcher_for(host.launcher.kind).argv(
                host.launcher, host.layout, {**binding, route.option: number}, ()
            )
        except UsageError as error:
            return error.message, error.hint
        ranks, cores = host.fewest_ranks, host.machine.usable_cores
        if route.option == "cores_per_rank" and ranks * int(number) > cores:
            why = f"{ranks} ranks with {number} each need more than the {cores} cores of a host"
            return why, "name a lower number, or run fewer ranks"
    elif isinstance(route, RankCount) and isinstance(value, int) and host.global_batch:
        ranks = host.layout.with_ranks_per_host(value).ranks
        if host.global_batch % ranks:
            why = f"{ranks} ranks cannot share --global-batch {host.global_batch} evenly"
            return why, "name numbers that divide it, such as --mpi-procs 1,2,4"
    return None


def _is_binding(knob: Knob) -> bool:
    return isinstance(knob.route, LauncherOption) and knob.route.option == "bind_to"


def _with_values_on(knob: Knob, host: TargetHost) -> Knob:
    """Return the row with the values and texts of this host, unless the user changed its route."""
    if _is_binding(knob) and UNSET not in space.values(knob.domain):
        # Of the values that the user names, the default of the launcher changes nothing.
        return replace(knob, neutral=host.default_place or None)
    row = table.knob(knob.name) if table.is_known(knob.name) else None
    if row is None or knob.route != row.route:
        return knob
    if knob.domain == row.domain:
        knob = replace(knob, domain=_domain_on(knob, host))
    features = host.features
    if knob.name == "allocator":  # the user's own LD_PRELOAD stays, but for another allocator
        libraries = [w for w in features.preload.replace(":", " ").split() if not is_allocator(w)]
        texts = {GLIBC: ":".join(libraries)}
        texts |= {name: ":".join((path, *libraries)) for name, path in features.allocators.items()}
    elif knob.name == "huge_pages":  # the user's other tunables stay
        tunable = "glibc.malloc.hugetlb="
        tunables = [t for t in features.tunables.split(":") if t and not t.startswith(tunable)]
        texts = {OFF: ":".join(tunables), ON: ":".join((*tunables, f"{tunable}1"))}
    elif knob.name == "ompi_btl":
        is_old = host.launcher.version.startswith(("3.", "4."))
        texts = {"no_ofi": "^ofi", "sm": f"self,{'vader' if is_old else 'sm'}", "tcp": "self,tcp"}
    else:
        return knob
    assert isinstance(knob.route, Env)
    return replace(knob, route=replace(knob.route, texts=tuple(texts.items())))


def _domain_on(knob: Knob, host: TargetHost) -> Domain:
    """Return the values of a knob of the table, which for some of them depend on the host."""
    if isinstance(knob.route, RankCount):  # from one on each socket to one on each core
        cores, layout = host.machine.usable_cores, host.layout
        numbers, fewest = host.tried_ranks or range(1, cores + 1), min(host.features.sockets, cores)
        divisors = {ranks for ranks in numbers if ranks >= fewest and cores % ranks == 0}
        return Choice(tuple(sorted(divisors | {layout.ranks_per_host})))
    if knob.name == "interface":
        return Choice((UNSET, *host.features.interfaces))
    if knob.name == "impi_fabrics" and not host.layout.is_local:
        return Choice((UNSET, "ofi"))  # no other host shares memory
    return knob.domain
