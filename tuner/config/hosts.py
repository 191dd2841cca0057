"""Which hosts a job runs on, and how many ranks on each: read from what users have.

A hostfile is Open MPI's (``h1 slots=2``, in short ``h1 2``) or MPICH's (``h1:2``). A name in
several lines has a slot a line, as batch systems write it. Ranks are placed here, so that all
launchers place them alike: the hosts are filled in order, each to its slots, or to ``--ppn``.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from tuner.hosts.process import run_tool
from tuner.launch.launchers import in_slurm
from tuner.model import LOCALHOST, Layout, Machine
from tuner.model.errors import UsageError, shown
from tuner.model.wording import count, failed_command

#: No job has more hosts, nor more slots on one.
MOST = 100_000

#: The limit of the command of ``--hosts-from``, s: it may wait until there are enough hosts.
COMMAND_LIMIT_S = 600.0

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}")
#: A name in Slurm's lists; the commas in its brackets are its own.
_NODE = r"(?:[A-Za-z0-9._-]|\[[0-9,-]+\])+"
_SLURM_HINT = "name the hosts yourself: --hosts h1:4,h2:4"


class Offer(NamedTuple):
    """A host that may be used; without ``slots`` it takes an equal share of the ranks."""

    name: str
    slots: int | None


def parse_hostfile(text: str, place: str) -> tuple[Offer, ...]:
    """Return the hosts of a hostfile; ``place`` names it in messages."""
    offers: list[Offer] = []
    for number, line in enumerate(text.splitlines(), 1):
        where = f"{place}, line {number}"
        words = re.sub(r"\s*=\s*", "=", line.partition("#")[0]).split()  # Open MPI: `slots = 2`
        for name in words[:1]:
            offer = _offer(name, where)
            for word in words[1:]:
                key, _, value = word.rpartition("=")
                if key in {"", "slots", "count", "cpu", "cpus"}:
                    offer = offer._replace(slots=_slots(value, where))
                elif key not in {"max_slots", "max-slots", "slots_max", "slots-max"}:
                    _slots(word, where)  # raises: another key is no number
            offers.append(offer)
    if not offers:
        raise UsageError(f"{place} names no host", "write a host a line, such as `h1 slots=2`")
    return _merged(offers, place)


def parse_hosts(text: str, place: str = "--hosts") -> tuple[Offer, ...]:
    """Return the hosts of ``h1:4,h2:4`` or ``h1,h2``."""
    where = f"{place} {shown(text)}"
    return _merged([_offer(part.strip(), where) for part in text.split(",")], place)


def hosts_from(
    command: Sequence[str], cancelled: Callable[[], bool] = lambda: False
) -> tuple[Offer, ...]:
    """Return the hosts that a command prints, as in a hostfile: those that there are now."""
    source = f"--hosts-from {shlex.join(command)}"
    hint = "run the command by itself: it must print one host a line, such as `h1 4`"
    try:
        process = run_tool(command, timeout_s=COMMAND_LIMIT_S, cancelled=cancelled)
    except OSError as error:  # a TimeoutError is one
        raise UsageError(f"{source}: {error.strerror or error}", hint) from error
    if process.returncode:
        raise UsageError(f"{source}: {failed_command(process.returncode, process.stderr)}", hint)
    return parse_hostfile(process.stdout, source)


def from_slurm(environ: Mapping[str, str]) -> tuple[Offer, ...]:
    """Return the hosts of the Slurm allocation, with its tasks a node; outside of one none."""
    nodes = environ.get("SLURM_JOB_NODELIST", "")
    if not nodes or not in_slurm(environ):
        return ()
    place = f"SLURM_JOB_NODELIST={shown(nodes)}"
    names = expand_nodes(nodes, place)
    tasks = environ.get("SLURM_TASKS_PER_NODE", "")
    if not tasks:
        return tuple(Offer(name, None) for name in names)
    place = f"SLURM_TASKS_PER_NODE={shown(tasks)}"
    slots: list[int] = []
    for part in tasks.split(","):
        tasks_of_nodes = re.fullmatch(r"([0-9]{1,6})(?:\(x([0-9]{1,6})\))?", part)
        if tasks_of_nodes is None:
            raise UsageError(f"{place} is not as Slurm writes it", _SLURM_HINT)
        slots += [_slots(tasks_of_nodes[1], place)] * min(int(tasks_of_nodes[2] or 1), MOST)
    if len(slots) != len(names):
        nodes_text = f"{count(len(slots), 'node')}, SLURM_JOB_NODELIST has {len(names)}"
        raise UsageError(f"{place} is for {nodes_text}", _SLURM_HINT)
    return tuple(map(Offer, names, slots))


def slurm_tasks(environ: Mapping[str, str]) -> int:
    """Return the tasks of the Slurm allocation that this runs in, 0 without one."""
    return sum(offer.slots or 0 for offer in from_slurm(environ))


def on_slots(
    layout: Layout, machine: Machine, args: Sequence[str], environ: Mapping[str, str]
) -> Layout:
    """Return the layout with the number of slots that an mpirun with ``args`` has on a host.

    ``machine`` is the host with the fewest cores; ``environ`` says how many tasks Slurm has given.
    """
    slots = machine.affinity_cores
    if not {"--use-hwthread-cpus", "-use-hwthread-cpus"}.isdisjoint(args):
        slots = machine.affinity_cpus
    if layout.is_local:
        slots = min(slots, slurm_tasks(environ) or slots)
    return replace(layout, room=slots)


def expand_nodes(text: str, place: str) -> list[str]:
    """Return ``n[01-03,7]x,login`` as single names, in order."""
    error = UsageError(f"{place} is not as Slurm writes it", _SLURM_HINT)
    if not re.fullmatch(rf"{_NODE}(?:,{_NODE})*", text):
        raise error
    hosts: list[str] = []
    for node in re.findall(_NODE, text):
        names = [""]
        for plain, ranges in re.findall(r"([^\[\]]+)|\[([^\[\]]+)\]", node):
            endings = [plain] if plain else []
            for part in ranges.split(",") if ranges else ():  # 01-03,7
                match = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", part)
                first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
                if match is None or not first <= last < first + MOST:
                    raise error
                endings += [str(n).zfill(len(match[1])) for n in range(first, last + 1)]
            if len(names) * len(endings) > MOST:
                raise error
            names = [name + ending for name in names for ending in endings]
        hosts += names
    return [_offer(name, place).name for name in hosts]


def _offer(text: str, where: str) -> Offer:
    """Return a host, with its slots after a colon; the name may become a word of a command."""
    name, colon, slots = text.partition(":")
    if _NAME.fullmatch(name) and ":" not in slots:
        return Offer(name, _slots(slots, where) if colon else None)
    raise UsageError(
        f"{where}: {shown(text)} is no host's name",
        "such as h1, h1.example.org or 10.0.0.1; users, ports and IPv6 addresses belong into"
        " ~/.ssh/config",
    )


def _slots(text: str, where: str) -> int:
    if re.fullmatch(r"[0-9]{1,6}", text) and 1 <= int(text) <= MOST:
        return int(text)
    raise UsageError(
        f"{where}: {shown(text)} is no number of slots",
        f"a whole number from 1 to {MOST}, such as `h1 slots=2`; users and ports of hosts belong"
        " into ~/.ssh/config",
    )


def _merged(offers: Sequence[Offer], place: str) -> tuple[Offer, ...]:
    """Return each host once, in the order of their first lines."""
    slots: dict[str, int | None] = {offer.name: None for offer in offers}
    is_repeated = len(slots) < len(offers)
    for name, number in offers:
        slots[name] = (slots[name] or 0) + (number or 1) if is_repeated else number
    if None in slots.values() and set(slots.values()) != {None}:
        name_without = next(name for name, number in slots.items() if number is None)
        raise UsageError(
            f"{place}: {name_without} has no number of slots, and others have one",
            "give it to all of them, or to none: then each takes an equal share of the ranks",
        )
    return tuple(Offer(name, number) for name, number in slots.items())


def place(
    offers: Sequence[Offer],
    *,
    source: str,
    ranks: int | None = None,
    ppn: int | None = None,
    oversubscribe: bool = False,
) -> Layout:
    """Place the ranks on the first hosts that have room for them; messages name the ``source``.

    Without ``ranks`` each slot gets one, or each host ``ppn``. The last host may take fewer
    than the others. With ``oversubscribe`` a host may take more than it has slots.
    """
    if ranks is None and ppn is None and offers[0].slots is None:
        raise UsageError(
            f"{source} gives no slots, and nothing says how many ranks there are",
            "--mpi-procs 8 for all hosts together, or --ppn 4 for each of them",
        )
    if ppn is None and offers[0].slots is None:
        share, rest = divmod(ranks or 0, len(offers))
        room = [share + (index < rest) for index in range(len(offers))]  # the first take the rest
    else:
        room = [ppn or offer.slots or 1 for offer in offers]
    for offer, most in zip(offers, room, strict=True):
        if not oversubscribe and most > (offer.slots or most):
            raise UsageError(
                f"{count(most, 'rank')} on a host, but {offer.name} has"
                f" {count(offer.slots or 0, 'slot')} ({source})",
                "ask for fewer; --oversubscribe-hosts runs more ranks on a host than it has slots",
            )
    total = sum(room)
    left = ranks = total if ranks is None else ranks
    if ranks > total and oversubscribe and ppn is None:
        room = [slots * -(-ranks // total) for slots in room]  # as many times as needed, rounded up
    elif ranks > total:
        capacity = f"--ppn {ppn}" if ppn else f"{count(total, 'slot')} in all"
        raise UsageError(
            f"--mpi-procs {ranks}, but {source} has {count(len(offers), 'host')} with {capacity}",
            "name more hosts, or fewer ranks"
            + ("" if ppn else "; --oversubscribe-hosts runs more ranks than there are slots"),
        )
    by_host: dict[str, int] = {}
    for offer, most in zip(offers, room, strict=True):
        if min(most, left):
            by_host[offer.name] = min(most, left)
            left -= by_host[offer.name]
    if [*by_host] == [LOCALHOST]:
        return Layout(ranks)
    return Layout(ranks, tuple(by_host), tuple(by_host.values()))


def with_room(offers: Sequence[Offer], ranks: int) -> tuple[str, ...]:
    """Return the hosts that take so many ranks each."""
    return tuple(offer.name for offer in offers if (offer.slots or ranks) >= ranks)


def smaller(layout: Layout, ppns: Sequence[int] = ()) -> list[Layout]:
    """Return the layout on 1, 2, 3, 4, 8 ... hosts, or here with 1, 2, 4 ... ranks or ``ppns``."""
    most = layout.ranks if layout.is_local else len(layout.hosts)
    sizes = {2**power for power in range(most.bit_length())} | {most}
    if layout.is_local:
        return [layout.with_ranks_per_host(ranks) for ranks in ppns or sorted(sizes)]
    layouts = []
    for size in sorted(sizes | set(range(1, min(most, 4) + 1))):
        by_host = layout.by_host[:size]
        part = Layout(sum(by_host), layout.hosts[:size], by_host)
        layouts += [part.with_ranks_per_host(ppn) for ppn in ppns] or [part]
    return layouts
