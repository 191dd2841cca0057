"""A batch script for Slurm: the exported job, with what it needs of a node."""

from __future__ import annotations

from tuner.model.errors import UsageError
from tuner.model.wording import by_host
from tuner.results.exporters import Export
from tuner.results.exporters.shell import job_script, missing
from tuner.results.study_view import StudyView


def script(data: StudyView) -> Export:
    """The script of ``--format sh`` for ``sbatch``: nodes, tasks, CPUs and GPUs as measured.

    The ranks go to the nodes of the allocation, whichever these are.

    Raises:
        UsageError: A torchrun on several hosts, which meets on one of them by name.
    """
    spec = data.spec
    layout, machine, kind = spec.layout, spec.machine, spec.launcher.kind
    if kind == "torchrun" and not layout.is_local:
        raise UsageError(
            "export --format slurm cannot carry torchrun on several hosts: its ranks meet on"
            f" {layout.hosts[0]}, which Slurm may not give",
            "use --format sh",
        )
    cpus = max(1, machine.usable_cores // layout.ranks_per_host)
    options = {
        "job-name": spec.name,
        "nodes": len(layout.hosts),
        "ntasks": layout.ranks,
        "ntasks-per-node": layout.ranks_per_host,
        "cpus-per-task": cpus,
    }
    if machine.gpus:
        options["gpus-per-node"] = len(machine.gpus)
    head = "".join(f"#SBATCH --{name}={value}\n" for name, value in options.items())
    head += "# Add yours: #SBATCH --time, --partition, --account, --mem.\n"
    warnings: tuple[str, ...] = ()
    if len({ranks for _, ranks in layout.slots}) > 1:
        said = f"Slurm is asked for as many ranks on each node, not for {by_host(layout)}"
        warnings = (said,)
        head += missing(warnings)
    slots = f"scontrol show hostnames | sed 's/$/:{layout.ranks_per_host}/' | paste -sd, -"
    # Since Slurm 22.05 srun does not inherit --cpus-per-task.
    exports = {"SRUN_CPUS_PER_TASK": str(cpus)} if kind == "srun" else {}
    text = job_script(
        data, hosts=f"$({slots})", run_by="sbatch", head=head, exports=exports, names_nodes=False
    ).text
    return Export(text, warnings, executable=True)
