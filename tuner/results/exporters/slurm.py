"""A batch script for Slurm: the exported job, with what it needs of a node."""

from __future__ import annotations

from tuner.model import Layout
from tuner.model.errors import UsageError
from tuner.model.wording import by_host
from tuner.results.exporters import Export
from tuner.results.exporters.job import omissions
from tuner.results.exporters.shell import job_script
from tuner.results.study_view import StudyView


def script(data: StudyView) -> Export:
    """Write the script of ``--format sh`` for ``sbatch``: nodes, tasks and CPUs as measured.

    The ranks go to the nodes of the allocation, whichever these are.

    Raises:
        UsageError: A torchrun on several hosts, which meets on one of them by name.
    """
    layout, machine = data.best_spec.layout, data.spec.machine
    kind, tasks = data.spec.launcher.kind, layout.ranks_per_host
    if kind == "torchrun" and not layout.is_local:
        raise UsageError(
            "export --format slurm cannot carry torchrun on several hosts: its ranks meet on"
            f" {layout.hosts[0]}, which Slurm may not give",
            "use --format sh",
        )
    if kind == "none":  # one process, which has all cores for its own ranks or threads
        layout, tasks = Layout(1), 1
    cpus, gpus = machine.cores_per_rank(layout), len(machine.gpus)
    head = f"""#SBATCH --job-name={data.spec.name}
#SBATCH --nodes={len(layout.hosts)}
#SBATCH --ntasks={layout.ranks}
#SBATCH --ntasks-per-node={tasks}
#SBATCH --cpus-per-task={cpus}
{f"#SBATCH --gpus-per-node={gpus}" if gpus else ""}
# Add yours: #SBATCH --time, --partition, --account, --mem.
""".replace("\n\n", "\n")
    warnings: tuple[str, ...] = ()
    if len({ranks for _, ranks in layout.slots}) > 1:
        warnings = (f"Slurm is asked for as many ranks on each node, not for {by_host(layout)}",)
    with_slots = "" if kind == "intelmpi" else f" | sed 's/$/:{tasks}/'"
    slots = f"scontrol show hostnames{with_slots} | paste -sd, -"
    text = job_script(
        data,
        hosts=f"$({slots})",
        run_by="sbatch",
        head=head + omissions(warnings),
        # Since Slurm 22.05 srun does not inherit --cpus-per-task.
        exports={"SRUN_CPUS_PER_TASK": str(cpus)} if kind == "srun" else {},
        names_nodes=False,
    ).text
    return Export(text, warnings, executable=True)
