"""The batch script asks Slurm for what was measured; `tests/hosts/several` submits one."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.study_samples import SPEC, study
from tuner.model import Layout, Machine, StudySpec
from tuner.model.errors import UsageError
from tuner.results.exporters import shell, slurm

TWO_HOSTS = Layout(4, ("h1", "h2"), (2, 2))
CPUS = SPEC.machine.usable_cores // 2


@pytest.mark.parametrize(
    ("layout", "machine", "numbers"),
    [
        (Layout(2), SPEC.machine, "1 2 2"),
        (TWO_HOSTS, SPEC.machine, "2 4 2"),
        (Layout(2), replace(SPEC.machine, gpus=("H100", "H100")), "1 2 2 2"),
    ],
)
def test_nodes_tasks_cpus_and_gpus_are_those_of_the_study(
    layout: Layout, machine: Machine, numbers: str
) -> None:
    text = slurm.script(study(spec=replace(SPEC, layout=layout, machine=machine))).text
    directives = dict(re.findall(r"^#SBATCH --([\w-]+)=(.+)$", text, re.MULTILINE))
    names = ("nodes", "ntasks", "ntasks-per-node", "gpus-per-node")
    assert " ".join(directives[name] for name in names if name in directives) == numbers
    assert int(directives["cpus-per-task"]) == CPUS
    lines = text.splitlines()
    last = max(number for number, line in enumerate(lines) if line.startswith("#SBATCH"))
    assert all(line.startswith("#") for line in lines[:last])


def test_a_warning_names_ranks_that_slurm_cannot_place() -> None:
    export = slurm.script(study(spec=replace(SPEC, layout=Layout(3, ("h1", "h2"), (2, 1)))))
    (warning,) = (text for text in export.warnings if "as many ranks" in text)
    assert f"# not in this file: {warning}\n" in export.text


def under(kind: str) -> StudySpec:
    launcher = replace(SPEC.launcher, kind=kind, mpirun=f"/opt/{kind}")
    return replace(SPEC, layout=TWO_HOSTS, launcher=launcher)


@pytest.mark.parametrize(
    ("kind", "slots", "names"),
    [(kind, " | sed 's/$/:2/'", "h1:2,h2:2") for kind in ("openmpi", "mpich")]
    + [("intelmpi", "", "h1,h2")],
)
def test_an_mpirun_is_given_the_nodes_of_the_allocation(kind: str, slots: str, names: str) -> None:
    text = slurm.script(study(spec=under(kind))).text
    hosts = f"$(scontrol show hostnames{slots} | paste -sd, -)"
    assert f"\nHOSTS={hosts}\n" in text and '"$HOSTS"' in text
    assert "h1" not in text and "SRUN" not in text
    assert f"\nHOSTS=${{HOSTS:-{names}}}\n" in shell.script(study(spec=under(kind))).text


def test_srun_takes_the_nodes_of_the_allocation_and_the_cpus_of_a_task() -> None:
    text = slurm.script(study(spec=under("srun"))).text
    assert f"\nexport SRUN_CPUS_PER_TASK={CPUS}\n" in text
    assert "--nodelist" not in text and "--nodes 2 --ntasks 4" in text
    assert "--nodelist h1,h2" in shell.script(study(spec=under("srun"))).text


def test_torchrun_on_several_hosts_is_refused() -> None:
    with pytest.raises(UsageError, match="export --format slurm cannot carry torchrun"):
        slurm.script(study(spec=under("torchrun")))
