"""Which hosts a job runs on, and how many ranks on each: read from what users have. Pure.

A hostfile is Open MPI's (``h1 slots=2``, in short ``h1 2``) or MPICH's (``h1:2``); bare names are
both. What it says is put into the words of whichever launcher is used, so any launcher takes
either. A name in several lines has a slot a line, as batch systems write it.

Ranks are placed here and not by the launcher, so that all launchers place them alike: the hosts
are filled in their order, each to its slots, or to ``--ppn``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from tuner.launch.launchers import in_slurm
from tuner.model import LOCALHOST, Layout, Machine
from tuner.model.errors import UsageError, shown
from tuner.model.wording import count

#: More hosts or slots than any job has.
MOST = 100_000

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}")
_SLOTS = re.compile(r"[0-9]{1,6}")
#: Open MPI takes ``slots = 2``, too.
_SPACED = re.compile(r"\s*=\s*")

#: A name in Slurm's lists; the commas in its brackets are its own.
_NODE = r"(?:[A-Za-z0-9._-]|\[[0-9,-]+\])+"

#: Words of Open MPI after a name that say how many slots it has; others of its words.
_SLOT_WORDS = {"slots", "count", "cpu", "cpus"}
_LIMIT_WORDS = {"max_slots", "max-slots", "slots_max", "slots-max"}

OPENMPI, MPICH = "Open MPI", "MPICH"


class Offer(NamedTuple):
    """A host that may be used; without ``slots`` it takes an equal share of the ranks."""

    name: str
    slots: int | None


def parse_hostfile(text: str, place: str) -> tuple[Offer, ...]:
    """The hosts of a hostfile; ``place`` names it in messages.

    Raises:
        UsageError: With the line that is wrong.
    """
    offers: list[Offer] = []
    dialects: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = _SPACED.sub("=", line.partition("#")[0]).split()
        if not words:
            continue
        where = f"{place}, line {number}"
        _refuse_ipv6(words[0], where)
        name, colon, slots = words[0].partition(":")
        if colon:
            dialects.setdefault(MPICH, number)
        if len(words) > 1:
            dialects.setdefault(OPENMPI, number)
        if len(dialects) > 1:
            one, other = sorted(dialects.items(), key=lambda item: item[1])
            raise UsageError(
                f"{place} mixes two dialects: {one[0]}'s in line {one[1]}, {other[0]}'s in line"
                f" {other[1]}",
                "write every line as `h1 slots=2`, or every line as `h1:2`",
            )
        number_of = _slots(slots, where) if colon else None
        for word in words[1:]:
            key, _, value = word.partition("=")
            if _SLOTS.fullmatch(word):
                number_of = _slots(word, where)
            elif key in _SLOT_WORDS:
                number_of = _slots(value, where)
            elif key not in _LIMIT_WORDS:
                raise UsageError(
                    f"{where}: {shown(word)} is no number of slots",
                    "write `h1 slots=2`; users and ports of hosts belong into ~/.ssh/config",
                )
        offers.append(Offer(_name(name, where), number_of))
    if not offers:
        raise UsageError(f"{place} names no host", "write a host a line, such as `h1 slots=2`")
    return _merged(offers, place)


def parse_hosts(text: str, place: str = "--hosts") -> tuple[Offer, ...]:
    """The hosts of ``h1:4,h2:4`` or ``h1,h2``.

    Raises:
        UsageError: With what is wrong.
    """
    offers = []
    for part in text.split(","):
        where = f"{place} {shown(text)}"
        _refuse_ipv6(part, where)
        name, colon, slots = part.strip().partition(":")
        offers.append(Offer(_name(name, where), _slots(slots, where) if colon else None))
    return _merged(offers, place)


def from_slurm(environ: Mapping[str, str]) -> tuple[Offer, ...]:
    """The hosts of the Slurm allocation that this runs in, with its tasks a node; else none.

    Raises:
        UsageError: Slurm's variables are not as Slurm writes them.
    """
    nodes = environ.get("SLURM_JOB_NODELIST", "")
    if not nodes or not in_slurm(environ):
        return ()
    place = f"SLURM_JOB_NODELIST={shown(nodes)}"
    names = [_name(name, place) for name in expand_nodes(nodes, place)]
    if len(set(names)) < len(names):
        raise UsageError(f"{place} names a node twice", _SLURM_HINT)
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
        raise UsageError(
            f"{place} is for {count(len(slots), 'node')}, SLURM_JOB_NODELIST has {len(names)}",
            _SLURM_HINT,
        )
    return tuple(map(Offer, names, slots))


def slurm_tasks(environ: Mapping[str, str]) -> int:
    """The tasks of the Slurm allocation that this runs in; 0 if there is none; errors as there."""
    return sum(offer.slots or 0 for offer in from_slurm(environ))


def on_slots(
    layout: Layout, machine: Machine, args: Sequence[str], environ: Mapping[str, str]
) -> Layout:
    """The layout with whether an mpirun has fewer slots than ranks on a host.

    Args:
        layout: Where the ranks run.
        machine: The host with the fewest cores.
        args: The user's own arguments for the mpirun.
        environ: Where Slurm says how many tasks it has given.
    """
    slots = machine.affinity_cores
    if not {"--use-hwthread-cpus", "-use-hwthread-cpus"}.isdisjoint(args):
        slots = machine.affinity_cpus
    if layout.is_local:
        slots = min(slots, slurm_tasks(environ) or slots)
    return replace(layout, oversubscribed=layout.ranks_per_host > slots)


_SLURM_HINT = "name the hosts yourself: --hosts h1:4,h2:4"


def expand_nodes(text: str, place: str) -> list[str]:
    """``n[01-03,7]x,login`` as single names, in order.

    Raises:
        UsageError: It is not as Slurm writes it.
    """
    if not re.fullmatch(rf"{_NODE}(?:,{_NODE})*", text):
        raise UsageError(f"{place} is not as Slurm writes it", _SLURM_HINT)
    hosts: list[str] = []
    for node in re.findall(_NODE, text):
        names = [""]
        for plain, ranges in re.findall(r"([^\[\]]+)|\[([^\[\]]+)\]", node):
            ends = [plain] if plain else _numbers(ranges, place)
            if len(names) * len(ends) > MOST:
                raise UsageError(f"{place} names more than {MOST} hosts", _SLURM_HINT)
            names = [name + end for name in names for end in ends]
        hosts += names
    return hosts


def _numbers(ranges: str, place: str) -> list[str]:
    """``01-03,7`` as ``01 02 03 7``."""
    numbers: list[str] = []
    for part in ranges.split(","):
        match = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if match is None or not first <= last < first + MOST:
            raise UsageError(f"{place} is not as Slurm writes it", _SLURM_HINT)
        numbers += [str(number).zfill(len(match[1])) for number in range(first, last + 1)]
    return numbers


def _name(text: str, where: str) -> str:
    """A host's name, checked: it becomes a word of a command."""
    if _NAME.fullmatch(text):
        return text
    if text.startswith("-"):
        why, hint = "looks like an option", "a host's name begins with a letter or a digit"
    elif "@" in text:
        why, hint = "names a user", "users of other hosts belong into ~/.ssh/config"
    else:
        why, hint = "is no host's name", "such as h1, h1.example.org or 10.0.0.1"
    raise UsageError(f"{where}: {shown(text)} {why}", hint)


def _refuse_ipv6(word: str, where: str) -> None:
    if word.count(":") > 1 or word.lstrip().startswith("["):
        raise UsageError(
            f"{where}: {shown(word)} is an IPv6 address, which tune and the launchers do not take"
            " for a host",
            "give it a name in /etc/hosts, or in ~/.ssh/config as HostName, and write that",
        )


def _slots(text: str, where: str) -> int:
    if _SLOTS.fullmatch(text) and 1 <= int(text) <= MOST:
        return int(text)
    raise UsageError(
        f"{where}: {shown(text)} is no number of slots", f"a whole number from 1 to {MOST}"
    )


def _merged(offers: Sequence[Offer], place: str) -> tuple[Offer, ...]:
    """Each host once, in the order of their first lines."""
    repeated = len({offer.name for offer in offers}) < len(offers)
    slots: dict[str, int | None] = {}
    for name, number in offers:
        if repeated:
            slots[name] = (slots.get(name) or 0) + (number or 1)
        else:
            slots[name] = number
    if None in slots.values() and set(slots.values()) != {None}:
        bare = next(name for name, number in slots.items() if number is None)
        raise UsageError(
            f"{place}: {bare} has no number of slots, and others have one",
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
    """The hosts that are used, with the ranks of each.

    Args:
        offers: The hosts there are, in order.
        source: Where they are named, for messages.
        ranks: How many ranks there are; ``None``: one a slot, or ``ppn`` on each host.
        ppn: How many run on each host, the last one perhaps taking fewer.
        oversubscribe: A host may take more ranks than it has slots.

    Raises:
        UsageError: There are more ranks than slots, or nothing says how many ranks there are.
    """
    if ranks is None and ppn is None and offers[0].slots is None:
        raise UsageError(
            f"{source} gives no slots, and nothing says how many ranks there are",
            "--mpi-procs 8 for all hosts together, or --ppn 4 for each of them",
        )
    if ppn is None and offers[0].slots is None:
        share, rest = divmod(ranks or 0, len(offers))
        room = [share + (index < rest) for index in range(len(offers))]
    else:
        room = [ppn or offer.slots or 1 for offer in offers]
    for offer, most in zip(offers, room, strict=True):
        if not oversubscribe and most > (offer.slots or most):
            raise UsageError(
                f"--ppn {most}, but {offer.name} has {count(offer.slots or 0, 'slot')} ({source})",
                "--oversubscribe-hosts runs more ranks on a host than it has slots",
            )
    total = sum(room)
    total_ranks = total if ranks is None else ranks
    if total_ranks > total and oversubscribe and ppn is None:
        room = [slots * -(-total_ranks // total) for slots in room]
    elif total_ranks > total:
        have = f"{count(len(offers), 'host')} with " + (
            f"--ppn {ppn}" if ppn else f"{count(total, 'slot')} in all"
        )
        raise UsageError(
            f"--mpi-procs {total_ranks}, but {source} has {have}",
            "name more hosts, or fewer ranks"
            + ("" if ppn else "; --oversubscribe-hosts runs more ranks than there are slots"),
        )
    by_host: dict[str, int] = {}
    left = total_ranks
    for offer, most in zip(offers, room, strict=True):
        if min(most, left):
            by_host[offer.name] = min(most, left)
            left -= by_host[offer.name]
    if [*by_host] == [LOCALHOST]:
        return Layout(total_ranks)
    return Layout(total_ranks, tuple(by_host), tuple(by_host.values()))


def with_room(offers: Sequence[Offer], ranks: int) -> tuple[str, ...]:
    """The hosts that take so many ranks each."""
    return tuple(offer.name for offer in offers if (offer.slots or ranks) >= ranks)


def smaller(layout: Layout, ppns: Sequence[int] = ()) -> list[Layout]:
    """The same on 1, 2, 3, 4, 8 ... hosts, on one host with 1, 2, 4 ... ranks; or with ``ppns``."""
    most = layout.ranks if layout.is_local else len(layout.hosts)
    sizes = {2**power for power in range(most.bit_length())} | {most}
    if layout.is_local:
        return [Layout(ranks) for ranks in ppns or sorted(sizes)]
    layouts = []
    for size in sorted(sizes | set(range(1, min(most, 4) + 1))):
        for ranks_by_host in [(ppn,) * size for ppn in ppns] or [layout.by_host[:size]]:
            layouts.append(Layout(sum(ranks_by_host), layout.hosts[:size], ranks_by_host))
    return layouts
