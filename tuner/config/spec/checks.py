"""What a study must have to be worth a first launch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tuner.config.spec import program
from tuner.launch import command as templates
from tuner.launch import render
from tuner.live import eligibility
from tuner.model import LauncherInfo, Layout, ObjectiveSpec
from tuner.model.errors import UsageError


def is_command(words: Sequence[str], place: str) -> None:
    """Raise ``UsageError`` for a command that is empty or that no system can run."""
    if not words or not words[0].strip():
        raise UsageError(
            f"There is no command {place}.",
            "For example: tune --mpi-procs 8 -- python train.py --out {out}",
        )
    if any("\0" in word for word in words):
        raise UsageError(
            f"The command {place} has a NUL character, which no program can be given.",
            "Take it out.",
        )


def has_out(template: Sequence[str], source: str) -> None:
    """Raise ``UsageError`` for a command whose log could not be found."""
    if templates.OUT not in templates.placeholders(template):
        raise UsageError(
            f"The command ({source}) has no {{out}}, so its log could not be found.",
            "Put {out} where the program takes the folder for its log: … --out {out}\n"
            "A program without a log: --objective wall, or --objective 'pattern:REGEX'.",
        )


def gpus(template: Sequence[str], found: Sequence[str], source: str) -> None:
    """Raise ``UsageError`` for a shipped trainer that is to use GPUs, where there is none."""
    script = program.script_of(template) or ""
    if script.startswith("{workloads}/") and "--gpu" in template and not found:
        trainer = script.removeprefix("{workloads}/").removesuffix(".py")
        raise UsageError(
            f"The command ({source}) asks for a GPU (--gpu), and none was found here.",
            f"On CPUs: tune --study {trainer}",
        )


def live(
    objective: ObjectiveSpec, launcher: LauncherInfo, environ: Mapping[str, str], source: str
) -> None:
    """Raise ``UsageError`` for a study that no running job can measure, though it is to."""
    why = eligibility.why_cold(objective, launcher, environ)
    if why:
        raise UsageError(
            f"--live on ({source}): {why}, so no running job can measure settings.",
            "--live auto launches each one where that is so; docs/live.md says what is needed.",
        )


def launcher_arguments(launcher: LauncherInfo, layout: Layout) -> None:
    """Have the launcher refuse the user's own arguments for it now, and not at the first launch."""
    from tuner.launch.launchers import launcher_for

    launcher_for(launcher).argv(launcher, layout.ranks, render.LAUNCHER_DEFAULTS, ())
