"""``tune doctor``: what on the hosts of a study would make it fail, slow or noisy."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tuner.cli import console, exits
from tuner.cli.base import TuneCommand, tail
from tuner.cli.click_options import HOST_OPTIONS, LAUNCHER_OPTIONS, shared, table_options
from tuner.model import Machine, wording
from tuner.model.errors import UsageError

if TYPE_CHECKING:
    from tuner.results.doctor.checks import CheckedItem


@click.command(
    "doctor",
    cls=TuneCommand,
    takes_tail=True,
    help="Check this host: launcher, MPI, Python, CPUs, network, database, disk, other work; with"
    " --hosts, --hostfile or --hosts-from, and in a Slurm allocation, all hosts of a job and the"
    " network that they share. Each check says what it saw; if something is wrong, also why it"
    " matters and the command that mends it. Nothing is changed. The exit code is 3 if a study"
    " would fail, otherwise 0.",
    examples=(
        ("tune doctor", "this host, for the Python that runs tune"),
        ("tune doctor -- python train.py", "the MPI and the packages of your own program's Python"),
        ("tune doctor --hosts h1,h2", "two hosts, and the network that they share"),
        ("tune doctor --json | jq '.checks[] | select(.state != \"ok\")'", "for programs"),
    ),
)
@table_options(*LAUNCHER_OPTIONS, *HOST_OPTIONS)
@shared("storage", "json")
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> int:
    """Check this host, and the others of a job."""
    from tuner.results.doctor.checks import CheckState, diagnose
    from tuner.results.doctor.host_view import look
    from tuner.results.doctor.several import diagnose_hosts
    from tuner.results.exporters.json import dumps

    words = tail(ctx)
    if words == ():
        raise UsageError("there is no program after `--`", "tune doctor -- python train.py")
    names, ssh = _hosts(options)
    view = look(
        words,
        storage=options["storage"],
        mpirun=options["mpirun"],
        kind=options["launcher"],
        environ=os.environ,
    )
    items = diagnose_hosts(names, view, ssh, os.environ) if names else diagnose(view)
    would_fail = any(item.state is CheckState.FAILURE for item in items)
    if options["as_json"]:
        document = {"schema": "tuner.doctor/1", "machine": view.machine, "would_fail": would_fail}
        sys.stdout.write(dumps(document | {"checks": items}))
    else:
        _print(items, view.machine, would_fail=would_fail)
    return exits.WOULD_FAIL if would_fail else exits.OK


def _hosts(options: Mapping[str, Any]) -> tuple[list[str], tuple[str, ...]]:
    """Return the hosts that are named, and the command that reaches them; none: only this one."""
    from tuner.launch.launchers import in_slurm

    keys = (*HOST_OPTIONS, "launcher")
    typed = {key: options[key] for key in keys if options[key] is not None}
    if not typed and not in_slurm(os.environ):
        return [], ()
    from tuner.config.spec import offered
    from tuner.config.study_file import study_of

    study = study_of({}, typed)
    offers, _ = offered(study, socket.gethostname(), environ=os.environ, cwd=Path.cwd())
    return [offer.name for offer in offers], study.option("ssh") or ()


#: The mark of each state, and its colour.
MARKS = {
    "ok": ("✓", "green"),
    "warning": ("!", "yellow"),
    "failure": ("✗", "red"),
    "not seen": ("-", ""),
}


def _print(items: list[CheckedItem], machine: Machine, *, would_fail: bool) -> None:
    """Print a line a check, with why it matters and what mends it unless all is well."""
    cpus = wording.count(machine.cores, "usable CPU")
    memory = wording.gibibytes(machine.memory_bytes)
    console.out(f"{machine.hostname}: {machine.cpu_model}, {cpus}, {memory}", bold=True)
    console.out()
    indent = " " * (max(len(item.name) for item in items) + 4)
    for item in items:
        mark, colour = MARKS[item.state]
        text = f"not seen: {item.saw}" if item.state == "not seen" else item.saw
        console.out(text, indent=indent, lead=f"{mark} {item.name}", colour=colour)
        if item.state in {"warning", "failure"}:
            console.out(f"why: {item.why}", indent=indent)
        label = "try: " if item.state == "ok" else "next:"
        for line in item.mend.splitlines():
            console.out(f"{indent}{label} {line}")  # never wrapped, to be copied
            label = "     "
    console.out()
    failures, warnings = (
        wording.count(sum(item.state == state for item in items), state)
        for state in ("failure", "warning")
    )
    verdict = "A study would fail here" if would_fail else "A study can run here"
    console.out(f"{verdict}: {failures}, {warnings}", bold=True)
