"""The batch script asks Slurm for what was measured; `tests/hosts/several` submits one."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.study_samples import SPEC, study
from tuner.model import Layout, Machine, StudySpec
from tuner.model.errors import UsageError
from tuner.results.exporters import shell, slurm


def directives(layout: Layout, machine: Machine = SPEC.machine) -> dict[str, str]:
    text = slurm.script(study(spec=replace(SPEC, layout=layout, machine=machine))).text
    return dict(re.findall(r"^#SBATCH --([\w-]+)=(.+)$", text, re.MULTILINE))


def test_nodes_tasks_and_cpus_are_those_of_the_study() -> None:
    found = directives(Layout(2))
    assert (found["nodes"], found["ntasks"], found["ntasks-per-node"]) == ("1", "2", "2")
    assert int(found["cpus-per-task"]) == SPEC.machine.usable_cores // 2
    found = directives(Layout(4, ("h1", "h2"), (2, 2)))
    assert (found["nodes"], found["ntasks"], found["ntasks-per-node"]) == ("2", "4", "2")


def test_all_directives_come_before_the_first_command_of_the_job() -> None:
    data = study(spec=replace(SPEC, layout=Layout(4, ("h1", "h2"), (2, 2))))
    lines = slurm.script(data).text.splitlines()
    last = max(number for number, line in enumerate(lines) if line.startswith("#SBATCH"))
    assert all(line.startswith("#") for line in lines[:last])
    assert lines[-1] == shell.script(data).text.splitlines()[-1]


def test_a_warning_names_ranks_that_slurm_cannot_place() -> None:
    export = slurm.script(study(spec=replace(SPEC, layout=Layout(3, ("h1", "h2"), (2, 1)))))
    (warning,) = (text for text in export.warnings if "as many ranks" in text)
    assert f"# not in this file: {warning}\n" in export.text


def under(kind: str) -> StudySpec:
    launcher = replace(SPEC.launcher, kind=kind, mpirun=f"/opt/{kind}")
    return replace(SPEC, layout=Layout(4, ("h1", "h2"), (2, 2)), launcher=launcher)


def test_gpus_are_those_of_a_node() -> None:
    assert "gpus-per-node" not in directives(Layout(2))
    machine = replace(SPEC.machine, gpus=("H100", "H100"))
    assert directives(Layout(2), machine)["gpus-per-node"] == "2"


@pytest.mark.parametrize("kind", ["openmpi", "mpich"])
def test_an_mpirun_is_given_the_nodes_of_the_allocation(kind: str) -> None:
    text = slurm.script(study(spec=under(kind))).text
    hosts = "$(scontrol show hostnames | sed 's/$/:2/' | paste -sd, -)"
    assert f"\nHOSTS={hosts}\n" in text and '"$HOSTS"' in text
    assert "h1" not in text and "SRUN" not in text
    assert "# use:      sbatch FILE" in text
    assert "\nHOSTS=${HOSTS:-h1:2,h2:2}\n" in shell.script(study(spec=under(kind))).text


def test_srun_takes_the_nodes_of_the_allocation_and_the_cpus_of_a_task() -> None:
    text = slurm.script(study(spec=under("srun"))).text
    cpus = SPEC.machine.usable_cores // 2
    assert f"\nexport SRUN_CPUS_PER_TASK={cpus}\n" in text
    assert "--nodelist" not in text and "--nodes 2 --ntasks 4" in text
    assert "--nodelist h1,h2" in shell.script(study(spec=under("srun"))).text


def test_torchrun_on_several_hosts_is_refused() -> None:
    with pytest.raises(UsageError, match="export --format slurm cannot carry torchrun") as caught:
        slurm.script(study(spec=under("torchrun")))
    assert caught.value.hint == "use --format sh"
