"""``tune knobs``: what can be tuned here, what cannot, and why each can matter."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from tuner.cli import console
from tuner.cli.base import TuneCommand
from tuner.cli.click_options import LAUNCHER_OPTIONS, knob_names, option, shared, table_options
from tuner.model import IntRange, JsonDict, Knob, Layout
from tuner.model.errors import UsageError

if TYPE_CHECKING:
    from tuner.config.applicability import KnobOnHost


@click.command(
    "knobs",
    cls=TuneCommand,
    help="List the knobs: their values on this host, whether they apply here, and how each reaches"
    " the program. With NAME, show everything known about that knob.",
    examples=(
        ("tune knobs omp_wait_policy", "why it can matter, and where that is documented"),
        ("tune --knob bind_to --knob allocator -- …", "tune these, with the values listed here"),
        ("tune --all-knobs -- …", "tune every one that applies here"),
    ),
)
@click.argument("name", required=False, metavar="[NAME]", shell_complete=knob_names)
@option(
    "--mpi-procs",
    "-n",
    "ranks",
    type=click.IntRange(1),
    metavar="N",
    default=2,
    help="MPI ranks [2].",
)
@table_options(*LAUNCHER_OPTIONS)
@shared("json")
def command(
    name: str | None, ranks: int, mpirun: str | None, launcher: str | None, as_json: bool
) -> None:
    """List the table, or show one row."""
    from tuner.config.applicability import TargetHost, knob_on_host
    from tuner.config.hosts import on_slots
    from tuner.hosts.machine import host_features, this_machine
    from tuner.knobs import KNOBS, knob
    from tuner.launch.launchers import discovery
    from tuner.results.exporters.json import dumps

    rows = KNOBS if name is None else (knob(name),)
    try:
        info = discovery.find(mpirun, (), kind=launcher, environ=os.environ)
    except UsageError as error:
        if mpirun or launcher:
            raise
        console.err(f"{error.message}: as for one process, without a launcher")
        info, ranks = discovery.find(None, (), kind="none", environ=os.environ), 1
    machine = this_machine()
    layout = on_slots(Layout(ranks), machine, (), os.environ)
    host = TargetHost(machine, layout, info, host_features(os.environ))
    knobs_here = [knob_on_host(row, host) for row in rows]
    if as_json:
        document = {"schema": "tuner.knobs/1", "knobs": list(map(_json, knobs_here))}
        sys.stdout.write(dumps(document))
    elif name is not None:
        _print_row(knobs_here[0])
    else:
        cells = [
            [a.knob.name, values(a.knob), _applies_here(a), a.knob.way_to_program]
            for a in knobs_here
        ]
        titles = ["knob", "values here", "applies here", "reaches the program by"]
        console.print_table(titles, cells)
        console.err("`tune knobs NAME` says why a knob can matter; `tune --knob NAME` tunes it")


def _print_row(on_host: KnobOnHost) -> None:
    """Print all that is known of one knob on this host."""
    knob = on_host.knob
    console.out(f"{knob.name}: {knob.help}", bold=True)
    facts = {
        "why": knob.why,
        "source": knob.source,
        "values here": values(knob) or "none",
        "reaches the program by": knob.way_to_program,
        "exists": conditions(knob),
        "numerics": "it changes them: tuned only if you ask for it" * knob.changes_numerics,
        "tuned by default": "yes, if no study file lists knobs" if knob.usual else "",
        "applies here": _applies_here(on_host),
        "then": on_host.hint,
    }
    for label, text in facts.items():
        if text:
            console.out(f"{label}: {text}", indent="  ")


def values(knob: Knob) -> str:
    """Return the values in short: ``1..8``, ``none, core``."""
    if isinstance(knob.domain, IntRange):
        return f"{knob.domain.low}..{knob.domain.high}"
    return ", ".join(str(value) for value in knob.domain.values)


def conditions(knob: Knob) -> str:
    """Return in which settings the knob exists: ``if bind_to is core or numa``."""
    return " and ".join(
        f"if {parent} is {' or '.join(map(str, enabling))}" for parent, enabling in knob.when
    )


def _applies_here(on_host: KnobOnHost) -> str:
    if on_host.why_not:
        return f"no: {on_host.why_not}"
    marks = ["yes"] + ["changes numerics"] * on_host.knob.changes_numerics
    condition = conditions(on_host.knob)
    return ", ".join([*marks, condition] if condition else marks)


def _json(on_host: KnobOnHost) -> JsonDict:
    from tuner.results.exporters.json import knob_json

    document: dict[str, Any] = knob_json(on_host.knob)
    return document | {
        "applies": not on_host.why_not,
        "why_not": on_host.why_not,
        "hint": on_host.hint,
        "possible": on_host.possible,
    }
