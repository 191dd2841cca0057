"""The rows of the table whose values, or what is written for them, differ from host to host."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tuner import knobs as table
from tuner.hosts.features import Found, is_allocator
from tuner.knobs.memory import GLIBC
from tuner.model import OFF, ON, UNSET, Choice, Env, Knob, LauncherInfo, Layout, Machine


@dataclass(frozen=True)
class Host:
    """All that says what can be set: the machine, the ranks on it, their mpirun."""

    machine: Machine
    layout: Layout
    launcher: LauncherInfo
    found: Found


def here(knob: Knob, host: Host) -> Knob:
    """The row as it reads on this host; one whose way the user changed stays as it is."""
    change = _CHANGES.get(knob.name)
    if change is None or knob.route != table.knob(knob.name).route:
        return knob
    return change(knob, host)


def _allocator(knob: Knob, host: Host) -> Knob:
    """The user's own LD_PRELOAD stays, but for another allocator in it."""
    words = host.found.preload.replace(":", " ").split()
    kept = [word for word in words if not is_allocator(word)]
    texts = {GLIBC: ":".join(kept)} | {
        name: ":".join((path, *kept)) for name, path in host.found.allocators.items()
    }
    return _with_texts(knob, texts)


def _huge_pages(knob: Knob, host: Host) -> Knob:
    """The user's other tunables stay."""
    tunable = "glibc.malloc.hugetlb="
    kept = [t for t in host.found.tunables.split(":") if t and not t.startswith(tunable)]
    return _with_texts(knob, {OFF: ":".join(kept), ON: ":".join((*kept, f"{tunable}1"))})


def _btl(knob: Knob, host: Host) -> Knob:
    """``auto`` is what every launch has; Open MPI 4 calls ``sm`` ``vader``."""
    shared = "vader" if host.launcher.version.startswith(("3.", "4.")) else "sm"
    texts = {"auto": "^ofi", "sm": f"self,{shared}", "tcp": "self,tcp"}
    return _with_texts(knob, texts)


def _interface(knob: Knob, host: Host) -> Knob:
    """The host's interfaces; with ``=`` NCCL takes just this name, and not all that begin so."""
    names = host.found.interfaces
    wider = (
        replace(knob, domain=Choice((UNSET, *names))) if knob.domain == _interface_row() else knob
    )
    return _with_texts(wider, {name: f"={name}" for name in names})


def _interface_row() -> object:
    return table.knob("nccl_interface").domain


def _with_texts(knob: Knob, texts: Mapping[str, str]) -> Knob:
    assert isinstance(knob.route, Env)
    return replace(knob, route=replace(knob.route, texts=tuple(texts.items())))


_CHANGES: Mapping[str, Callable[[Knob, Host], Knob]] = {
    "allocator": _allocator,
    "huge_pages": _huge_pages,
    "ompi_btl": _btl,
    "nccl_interface": _interface,
}
