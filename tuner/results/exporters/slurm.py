"""A batch script for Slurm: the exported job, with what it needs of a node."""

from __future__ import annotations

import re

from tuner.results.exporters import Export
from tuner.results.exporters.shell import script as shell_script
from tuner.results.study_view import StudyView


def script(data: StudyView) -> Export:
    """The script of ``--format sh`` for ``sbatch``: nodes, tasks, CPUs and GPUs as measured.

    The ranks go to the nodes of the allocation, whichever these are.
    """
    spec, shell = data.spec, shell_script(data)
    layout, machine, warnings = spec.layout, spec.machine, list(shell.warnings)
    wanted = {
        "job-name": spec.name,
        "nodes": len(layout.hosts),
        "ntasks": layout.ranks,
        "ntasks-per-node": layout.ranks_per_host,
        "cpus-per-task": max(1, machine.usable_cores // layout.ranks_per_host),
    }
    if machine.gpus:
        wanted["gpus-per-node"] = len(machine.gpus)
    if len({ranks for _, ranks in layout.slots}) > 1:
        said = ", ".join(f"{ranks} on {host}" for host, ranks in layout.slots)
        warnings.append(f"Slurm is asked for as many ranks on each node, not for {said}")
    head = "".join(f"#SBATCH --{name}={value}\n" for name, value in wanted.items())
    head += "# Add yours: #SBATCH --time, --partition, --account, --mem.\n"
    head += "".join(f"# not in this file: {warning}\n" for warning in warnings)
    slots = f"scontrol show hostnames | sed 's/$/:{layout.ranks_per_host}/' | paste -sd, -"
    text = re.sub(r"^HOSTS=.*$", f"HOSTS=$({slots})", shell.text, count=1, flags=re.MULTILINE)
    text = text.replace(f"--nodelist {','.join(layout.hosts)} ", "", 1)  # of srun
    shebang, _, rest = text.replace("# use:      sh ", "# use:      sbatch ", 1).partition("\n")
    return Export(f"{shebang}\n{head}{rest}", tuple(warnings), executable=True)
