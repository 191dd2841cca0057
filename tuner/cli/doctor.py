"""``tune doctor``: what on the hosts of a study would make it fail, slow or noisy."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tuner.cli import exits
from tuner.cli.base import TuneCommand, tail
from tuner.cli.options import (
    HOST_OPTIONS,
    host_options,
    json_option,
    launcher_options,
    storage_option,
)

if TYPE_CHECKING:
    from tuner.model import Machine
    from tuner.results.doctor import Finding


@click.command(
    "doctor",
    cls=TuneCommand,
    takes_tail=True,
    help="Check this host: launcher, MPI, Python, limits, CPUs, network, database, disk, other"
    " work; with --hosts, --hostfile or --hosts-from, and in a Slurm allocation, all hosts of a job"
    " and the links between them. Each check says what it saw; if something is wrong, also why it"
    " matters and the command that mends it. Nothing is changed. The exit code is 3 if a study"
    " would fail, otherwise 0.",
    examples=(
        ("tune doctor", "this host, for the Python that runs tune"),
        ("tune doctor -- python train.py", "the MPI and the packages of your own program's Python"),
        ("tune doctor --hosts h1,h2", "two hosts, and what is between them"),
        ("tune doctor --json | jq '.checks[] | select(.state != \"ok\")'", "for programs"),
    ),
)
@launcher_options
@host_options
@storage_option()
@json_option()
@click.pass_context
def command(ctx: click.Context, /, **given: Any) -> int:
    """Check this host, and the others of a job."""
    from dataclasses import asdict

    from tuner.model.errors import UsageError
    from tuner.results import doctor
    from tuner.results.exporters.json import dumps

    words = tail(ctx)
    if words == ():
        raise UsageError("there is no program after `--`", "tune doctor -- python train.py")
    names, ssh = _hosts(given)
    view = doctor.look(
        words,
        storage=given["storage"],
        mpirun=given["mpirun"],
        kind=given["launcher"],
        environ=os.environ,
    )
    findings = (
        doctor.diagnose_hosts(names, view, ssh, os.environ) if names else doctor.diagnose(view)
    )
    fails = any(finding.state is doctor.State.FAILURE for finding in findings)
    if given["as_json"]:
        document = {
            "schema": "tuner.doctor/1",
            "machine": asdict(view.machine),
            "would_fail": fails,
            "checks": [asdict(finding) for finding in findings],
        }
        sys.stdout.write(dumps(document))
    else:
        _print(findings, view.machine, would_fail=fails)
    return exits.WOULD_FAIL if fails else exits.OK


def _hosts(given: Mapping[str, Any]) -> tuple[list[str], tuple[str, ...]]:
    """The hosts that are named, and the command that reaches them; none: only this one."""
    from tuner.launch.launchers import in_slurm

    keys = (*HOST_OPTIONS, "launcher")
    typed = {key: given[key] for key in keys if given[key] is not None}
    if not typed and not in_slurm(os.environ):
        return [], ()
    from tuner.config.spec import offered
    from tuner.config.study_file import study_of

    study = study_of({}, typed)
    offers, _ = offered(study, socket.gethostname(), environ=os.environ, cwd=Path.cwd())
    return [offer.name for offer in offers], study.option("ssh") or ()


#: Per state its mark, the mark for a stream that cannot hold that one, and its colour.
MARKS = {
    "ok": ("✓", "+", "green"),
    "warning": ("!", "!", "yellow"),
    "failure": ("✗", "x", "red"),
    "not seen": ("-", "-", ""),
}


def _print(findings: list[Finding], machine: Machine, *, would_fail: bool) -> None:
    """A line a check, with why it matters and what mends it unless all is well."""
    from tuner.cli import console
    from tuner.model import wording
    from tuner.results.doctor import State

    cpus = wording.count(machine.cores, "usable CPU")
    memory = wording.gibibytes(machine.memory_bytes)
    console.out(f"{machine.hostname}: {machine.cpu_model}, {cpus}, {memory}", bold=True)
    console.out()
    is_unicode = "utf" in (sys.stdout.encoding or "").lower()
    width = max(len(finding.name) for finding in findings)
    for finding in findings:
        mark, plain, colour = MARKS[finding.state]
        lead = f"{mark if is_unicode else plain} {finding.name}"
        indent = " " * (width + 4)
        said = f"not seen: {finding.saw}" if finding.state is State.NOT_SEEN else finding.saw
        console.out(said, indent=indent, lead=lead, colour=colour)
        if finding.state in {State.WARNING, State.FAILURE}:
            console.out(f"why: {finding.why}", indent=indent)
        label = "try: " if finding.state is State.OK else "next:"
        for line in finding.mend.splitlines():
            console.out(f"{indent}{label} {line}")  # never wrapped, to be copied
            label = "     "
    console.out()
    failures, warnings = (
        wording.count(sum(finding.state is state for finding in findings), str(state))
        for state in (State.FAILURE, State.WARNING)
    )
    verdict = "A study would fail here" if would_fail else "A study can run here"
    console.out(f"{verdict}: {failures}, {warnings}", bold=True)
