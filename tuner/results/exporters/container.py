"""A script that runs the exported job in a container, by docker or Apptainer."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import replace

from tuner.launch import command, render
from tuner.launch.launchers import launcher_for
from tuner.model import UNSET, LauncherInfo, wording
from tuner.model.errors import UsageError
from tuner.results.exporters import Export
from tuner.results.exporters.job import job_parts, omissions
from tuner.results.exporters.shell import job_script
from tuner.results.study_view import StudyView


def script(data: StudyView) -> Export:
    """Write the script of ``--format sh`` with the job in a container of ``IMAGE``.

    ``env`` sets the variables inside: Apptainer's ``--env`` splits values at commas.

    Raises:
        UsageError: Several hosts, or srun: a container runs on one, without Slurm.
    """
    spec, machine, kind = data.best_spec, data.spec.machine, data.spec.launcher.kind
    if not spec.layout.is_local or kind == "srun":
        raise UsageError(
            "export --format container cannot carry srun, nor several hosts",
            f"use --format {'slurm' if kind == 'srun' else 'mpijob'}, or sh",
        )
    info = image_launcher(spec.launcher)
    cores, gpus = machine.cores, len(machine.gpus)
    has_out = command.OUT in command.placeholders(spec.job or spec.command)
    mount, bind = ('-v "$OUT:$OUT"', '--bind "$OUT"') if has_out else ("", "")
    size = "-i " * bool(spec.input) + f"--cpus {cores} --shm-size {machine.shared_bytes >> 20}m"
    mount_here = '-v "$PWD:$PWD" -w "$PWD"'  # as Apptainer does by itself
    options = (size, f"--gpus {gpus}" * bool(gpus), mount, mount_here)
    docker_options, apptainer_options = (
        " ".join(filter(None, group)) for group in (options, ("--nv" * bool(gpus), bind))
    )

    def run(words: str) -> str:
        return f"""set -- {words} "$@"
# Docker, or podman under its name; otherwise Apptainer, which limits neither CPUs nor memory.
if command -v docker >/dev/null; then
  exec docker run --rm --init {docker_options} "$IMAGE" "$@"
fi
exec apptainer exec {apptainer_options} "$IMAGE" "$@\""""

    _, prefix, job = job_parts(data, info, spec.layout)
    warnings = (
        image_holds(data, (*prefix, *job)),
        f"how many CPUs the program sees: on a host with more than {cores}, put"
        f" --cpuset-cpus 0-{cores - 1} in place of --cpus {cores}",
        *binding_warning(data, "docker run --cpuset-cpus"),
    )
    head = omissions(warnings) + "# Run it in the program's folder, which the container sees too.\n"
    head += "# IMAGE names the image: NAME:TAG for docker, or a FILE.sif.\n"
    text = job_script(data, run_by="IMAGE=NAME sh", head=head, info=info, run=run).text
    text = text.replace("set -eu\n", 'set -eu\n: "${IMAGE:?set it to the image of the job}"\n', 1)
    return Export(text, warnings, executable=True)


def image_launcher(info: LauncherInfo) -> LauncherInfo:
    """Return the launcher as an image has it on its ``PATH``; it may be run as root there."""
    if info.kind == "openmpi" and os.geteuid() != 0:  # otherwise the launcher has it already
        info = replace(info, extra_args=("--allow-run-as-root", *info.extra_args))
    programs = (*launcher_for(info.kind).programs, "")
    return replace(info, mpirun=programs[0], libmpi=None, ssh=())


def image_holds(data: StudyView, words: Iterable[str], *more: str) -> str:
    """Say what the image must hold: programs, and the paths among these words."""
    matches = (re.fullmatch(r"(?:[\w-]+=)?(/[^\0]+)", word) for word in dict.fromkeys(words))
    paths = [path[1] for path in matches if path]
    launcher = data.spec.launcher
    starters = () if launcher.kind == "none" else (wording.launcher(launcher),)
    needed = ("what the program needs", *starters, *more, *paths)
    return f"the files of {data.spec.machine.hostname}: the image must hold {', '.join(needed)}"


def binding_warning(data: StudyView, remedy: str) -> tuple[str, ...]:
    """Warn if ranks are bound to cores, which other containers may use as well, or by numactl."""
    options = render.launcher_options(data.spec, data.best_setting).items()
    bound = [f"{k}={v}" for k, v in options if k in {"bind_to", "cores_per_rank"} and v != "none"]
    policy = data.best_setting.as_dict().get("mem_bind", UNSET)
    cpus = (f"CPUs of its own, which {option} needs: {remedy}" for option in bound)
    right = f"what mem_bind={policy} needs: numactl in the image, and the capability SYS_NICE"
    return (*cpus, *[right] * (policy != UNSET))
