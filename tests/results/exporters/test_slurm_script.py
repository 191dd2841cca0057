"""The batch script asks Slurm for what was measured; `tests/hosts/several` submits one."""

from __future__ import annotations

import re
from dataclasses import replace

from tests.study_samples import SPEC, study
from tuner.model import Layout
from tuner.results.exporters import shell, slurm


def directives(layout: Layout) -> dict[str, str]:
    text = slurm.script(study(spec=replace(SPEC, layout=layout))).text
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


def test_ranks_that_slurm_cannot_place_so_are_said() -> None:
    export = slurm.script(study(spec=replace(SPEC, layout=Layout(3, ("h1", "h2"), (2, 1)))))
    (warning,) = (text for text in export.warnings if "as many ranks" in text)
    assert f"# not in this file: {warning}\n" in export.text
