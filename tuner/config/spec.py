"""One :class:`StudySpec` out of the command line, the study file and the machine.

The command line wins over the study file, and that over the defaults.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from tuner.config import hosts, knob_selection, program
from tuner.config.applicability import TargetHost
from tuner.config.hosts_from import hosts_from
from tuner.config.options import BY_KEY, OPTIONS
from tuner.config.schema import Study
from tuner.config.study_file import Document, study_of
from tuner.config.typed_launch import several_programs
from tuner.hosts.machine import HostFeatures, host_features, this_machine
from tuner.hosts.networks import common_interfaces
from tuner.hosts.typed_paths import read_typed, typed_path
from tuner.knobs import ROLES, requirements, space
from tuner.knobs.core_budget import OVERSUBSCRIPTION
from tuner.launch import command as templates
from tuner.launch.launch_line import (
    ASSIGNMENT,
    LAUNCHERS,
    OF_TORCH,
    SUBCOMMANDS,
    LaunchLine,
    launch_line,
)
from tuner.launch.launchers import launcher_for, with_carrier
from tuner.launch.objectives import objective_for, with_argument
from tuner.launch.secrets import recorded_environment
from tuner.live import eligibility
from tuner.model import (
    ANY_HOST,
    Knob,
    LauncherInfo,
    Layout,
    Machine,
    ObjectiveSpec,
    StudySpec,
    price,
)
from tuner.model.errors import UsageError

#: Ranks if nothing says how many and there is no GPU: the fewest that exchange anything.
DEFAULT_RANKS = 2


class WantedLauncher(NamedTuple):
    """What is asked for of what starts the ranks; ``None``: nothing."""

    mpirun: str | None = None
    kind: str | None = None
    args: tuple[str, ...] = ()


#: What others call a knob of ours: PyTorch's DataLoader has `num_workers`.
ALIASES = {"num_workers": "iterator_workers"}

#: (what is asked for, path of the program, environment) -> the mpirun.
FindLauncher = Callable[[WantedLauncher, str, Mapping[str, str]], LauncherInfo]


def find_launcher(
    launcher: WantedLauncher, program_path: str, environ: Mapping[str, str]
) -> LauncherInfo:
    """The mpirun of this host (:func:`tuner.launch.launchers.find`)."""
    from tuner.launch import launchers

    return launchers.find(
        launcher.mpirun, launcher.args, kind=launcher.kind, program=program_path, environ=environ
    )


def build_spec(
    *,
    file: Document | None = None,
    source: str = "Python",
    command: Sequence[str] | None = None,
    options: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    machine: Machine | None = None,
    part: Layout | None = None,
    features: HostFeatures | None = None,
    find: FindLauncher = find_launcher,
) -> StudySpec:
    """Merge and check everything that is asked for.

    Args:
        file: What the study file says, if there is one (:func:`tuner.config.study_file.load`).
        source: How the user knows the file, for messages and the record.
        command: The words after ``--``, which replace the file's command, job and name;
            ``None`` if none were typed.
        options: What else was typed: keys of :mod:`tuner.config.options` with values as a file
            has them, and ``knobs``, ``env_knobs``, ``fixes``, ``baselines`` (of ``NAME=VALUE``),
            ``all_knobs``, ``objective`` (``KIND[:ARG]``), ``log``, ``unit``, ``maximize``.
            ``None`` or ``()``: not typed.
        environ: Where programs and mpirun are looked up; the process's own by default.
        cwd: What relative paths count from; the current folder by default.
        machine: The tightest host; by default this one, or an agent on each looks at them.
        part: Where the ranks run instead of on all hosts that are named.
        features: What the host has besides; looked at by default.
        find: How mpirun is found.

    Raises:
        UsageError: What is wrong, with its place and the next step.
    """
    environ = os.environ if environ is None else environ
    cwd = cwd or Path.cwd()
    typed = {key: value for key, value in (options or {}).items() if value not in (None, ())}
    file, typed = _in_own_names(file or {}, typed)
    file |= {key: _placed(file[key]) for key in ("command", "job") if key in file}
    study = _merged(file, typed, _placed(command))
    template = study.command
    check_command(template, "after --" if command is not None else f"in {source}")
    is_known = machine is not None
    machine = machine or this_machine(environ=environ)
    layout, spares = _layout(study, machine, environ=environ, cwd=cwd)
    chosen = knob_selection.select(study, typed, template, is_typed=command is not None)
    knob_selection.check_job(study.job, chosen, source)
    layout = part or layout
    figures = {o.field: study.option(o.key) for o in OPTIONS if o.field}
    cores_are_asked_for = (chosen.own - chosen.fixed.as_dict().keys()) & ROLES.keys()
    if figures["oversubscription"] is None and not cores_are_asked_for:
        figures["oversubscription"] = OVERSUBSCRIPTION
    objective = _objective(study, typed)
    price.check(objective, figures["items"], figures["price_per_hour"])
    _check_max_time(figures["max_time_s"], objective)
    runs_in_out = bool(study.option("run_in_out"))
    has_out = runs_in_out or templates.OUT in templates.placeholders(template)
    if objective_for(objective).needs_out and not has_out:
        raise UsageError(
            f"the command ({source}) has no {{out}}, so its log could not be found",
            "put {out} where the program takes the folder for its log: … --out {out}\n"
            "A program that writes where it runs: --run-in-out --log result/log, say\n"
            "A program without a log: --objective wall, or --objective 'pattern:REGEX'",
        )
    path = program.check(template, environ=environ, cwd=cwd)
    wanted_launcher = WantedLauncher(
        study.option("mpirun"), study.option("launcher"), study.option("mpirun_args") or ()
    )
    launcher = replace(find(wanted_launcher, path, environ), ssh=study.option("ssh") or ())
    if launcher.kind == "torchrun" and not layout.is_local:
        launcher = with_carrier(launcher, environ)
    # The launcher refuses the user's own arguments now, not at the first launch.
    launcher_for(launcher.kind).argv(launcher, layout, {}, ())
    why_not_live = eligibility.why_cold(objective, layout, environ)
    if figures["live"] == "on" and why_not_live:
        raise UsageError(
            f"--live on ({source}): {why_not_live}, so no running job can measure settings",
            "--live auto launches each setting then; docs/live.md says what is needed",
        )
    if not layout.is_local and not is_known:
        from tuner.launch.hosts import reach

        with closing(reach(launcher, layout.hosts, environ)) as others:
            # Any rank may be on it: a setting must fit there.
            machine = min(
                others.machines(),
                key=lambda candidate: (candidate.usable_cores, len(candidate.gpus)),
            )
            networks = [description.networks for description in others.descriptions.values()]
        features = replace(
            features or host_features(environ), interfaces=common_interfaces(networks)
        )
    if figures["hosts_from"]:
        machine = replace(machine, hostname=ANY_HOST)
    _check_gpus(template, machine.gpus, source)
    layout = hosts.on_slots(layout, machine, launcher.extra_args, environ)
    host = TargetHost(machine, layout, launcher, features or host_features(environ))
    knobs, left_out = _meeting(figures["require"], chosen, host)
    stem = study.option("name") or program.stem(template)
    on_hosts = "" if layout.is_local else f"-h{len(layout.hosts)}"
    name = typed.get("name") or f"{stem}-n{layout.ranks}{on_hosts}"
    return StudySpec(
        name=program.check_name(name, "--name" if "name" in typed else "name"),
        launcher=launcher,
        layout=layout,
        machine=machine,
        knobs=knobs,
        fixed=chosen.fixed,
        objective=objective,
        left_out=left_out,
        spares=spares,
        environment=tuple(recorded_environment(environ).items()),
        **program.fields(template, study.job, path, cwd, runs_in_out=runs_in_out),
        **figures,
    )


def _check_max_time(max_time_s: float | None, objective: ObjectiveSpec) -> None:
    """Refuse ``--max-time`` if nobody can say what a launch that is stopped would have come to."""
    if max_time_s is not None and objective.clock == "none":
        raise UsageError(
            f"--max-time {max_time_s:g}s: a launch does not show on its way what its figure"
            f" (objective {objective.kind}) will come to, so that it could be stopped as slow",
            "--trial-limit TIME ends a launch that has taken longer; its setting counts as failed",
        )


def _meeting(
    require: tuple[str, ...], chosen: knob_selection.Selection, host: TargetHost
) -> tuple[tuple[Knob, ...], tuple[tuple[str, str], ...]]:
    """What :func:`knob_selection.applying` gives, once ``require`` is known to go with it.

    Raises:
        UsageError: It does not; or what ``applying`` raises.
    """
    knobs, left_out = knob_selection.applying(chosen, host)
    baseline = {knob.name: knob.default for knob in knobs if knob.default is not None}
    requirements.check(
        requirements.Requirements(require, host.layout.ranks),
        {knob.name: space.values(knob.domain) for knob in knobs},
        {**baseline, **chosen.fixed.as_dict()},
        dict(left_out),
    )
    return knobs, left_out


#: A longer hostfile is none, bytes.
MOST_HOSTFILE = 1 << 24


def _layout(
    study: Study, machine: Machine, *, environ: Mapping[str, str], cwd: Path
) -> tuple[Layout, tuple[str, ...]]:
    """Where the ranks run: on the hosts that are named, else on those of Slurm, else here.

    Returns:
        With the hosts that could take the place of any of them.

    Raises:
        UsageError: The hosts cannot be read, or do not take the ranks.
    """
    ranks, ppn = map(study.option, ("mpi_procs", "ppn"))
    offers, source = offered(study, machine.hostname, environ=environ, cwd=cwd)
    if not offers:
        if ranks and ppn and ranks > ppn:
            raise UsageError(
                f"--mpi-procs {ranks} with --ppn {ppn} needs other hosts, and none are named",
                "name them with --hosts h1,h2 or --hostfile FILE",
            )
        tasks = hosts.slurm_tasks(environ)
        return Layout(ranks or ppn or tasks or len(machine.gpus) or DEFAULT_RANKS), ()
    many = bool(study.option("more_ranks_than_slots"))
    if many and study.option("hosts_from"):
        raise UsageError(
            "--oversubscribe-hosts does not go with --hosts-from",
            "let the command print as many slots as ranks may run on a host",
        )
    layout = hosts.place(offers, source=source, ranks=ranks, ppn=ppn, oversubscribe=many)
    if study.option("wait_for_children") and not layout.is_local:
        raise UsageError(
            f"--wait-for-children waits on this host alone, and {source} names others",
            "let the command itself wait for what it starts (in a shell script: wait)",
        )
    fit = hosts.with_room(offers, layout.ranks_per_host)
    return layout, tuple(name for name in fit if name not in layout.hosts)


def offered(
    study: Study, here: str, *, environ: Mapping[str, str], cwd: Path
) -> tuple[Sequence[hosts.Offer], str]:
    """The hosts of ``--hosts``, ``--hostfile`` or ``--hosts-from``, else of Slurm; where from.

    There are none if Slurm has given ``here`` alone; errors as :func:`_layout`.
    """
    file, named, command = map(study.option, ("hostfile", "hosts", "hosts_from"))
    sources = {"--hosts": named, "--hostfile": file, "--hosts-from": command}
    if len(given := [flag for flag, value in sources.items() if value]) > 1:
        raise UsageError(f"{' and '.join(given)} both name hosts", "leave one of them out")
    if named:
        return hosts.parse_hosts(named), "--hosts"
    if file:
        source = f"--hostfile {file}"
        data = read_typed(typed_path(file, "--hostfile", cwd), source, MOST_HOSTFILE)
        return hosts.parse_hostfile(data.decode("utf-8-sig", "replace"), source), source
    if command:
        return hosts_from(command), f"--hosts-from {shlex.join(command)}"
    offers = hosts.from_slurm(environ)
    # Slurm, not srun, is above the ranks of srun: an agent watches them, also on this host.
    is_srun = study.option("launcher") == "srun"
    is_here = [offer.name for offer in offers] == [here.partition(".")[0]] and not is_srun
    return () if is_here else offers, "the Slurm allocation"


def _in_own_names(file: Document, typed: dict[str, Any]) -> tuple[Document, dict[str, Any]]:
    """Both with :data:`ALIASES` replaced where a knob is named; placeholders are not yet."""
    file, typed = dict(file), dict(typed)
    if isinstance(file.get("knobs"), dict):
        file["knobs"] = {ALIASES.get(name, name): knob for name, knob in file["knobs"].items()}
    for key in {"knobs", "fixes", "baselines"} & typed.keys():
        pairs = (text.partition("=") for text in typed[key])
        typed[key] = tuple(ALIASES.get(name.strip(), name) + "".join(rest) for name, *rest in pairs)
    return file, typed


def _placed(words: Any) -> Any:
    """A command with the placeholders of :data:`ALIASES` replaced."""
    if isinstance(words, str):
        for alias, name in ALIASES.items():
            words = words.replace(f"{{{alias}}}", f"{{{name}}}")
    return [_placed(word) for word in words] if isinstance(words, list | tuple) else words


def _merged(file: Document, typed: Mapping[str, Any], command: Sequence[str] | None) -> Study:
    """The file with what was typed in its place."""
    replaced = {"command", "job", "name"} if command is not None else set()
    if not typed.keys().isdisjoint({"mpirun", "launcher"}):
        replaced |= {"mpirun", "launcher"}  # a typed path is not of the kind that the file names
    kept = {key: value for key, value in file.items() if key not in replaced}
    own = {key: value for key, value in typed.items() if key in BY_KEY}
    if command is not None:
        own["command"] = tuple(command)
    return study_of(kept, own, {key: option.flag for key, option in BY_KEY.items()})


def _objective(study: Study, typed: Mapping[str, Any]) -> ObjectiveSpec:
    """How the figure is read.

    A typed objective takes the place of the file's, with its key, pattern and unit;
    the file's kind without an argument stays as the file has it.

    Raises:
        UsageError: The objective reads no log, but ``--log`` names one.
    """
    filed = study.objective.spec()
    spec, kind, log = filed, typed.get("objective"), typed.get("log")
    if kind is not None and kind != filed.kind:
        spec = with_argument(ObjectiveSpec(loss_key=filed.loss_key), kind)
        if spec.kind == filed.kind:
            spec = replace(spec, filename=filed.filename)
    if log is not None and spec.kind == "wall":
        raise UsageError(f"--log {log}: the objective wall reads no log", "leave it out")
    return replace(
        spec,
        filename=spec.filename if log is None else log,
        unit=typed.get("unit", spec.unit),
        maximize=spec.maximize or bool(typed.get("maximize")),
    )


def check_command(words: Sequence[str], place: str) -> None:
    """Raise ``UsageError`` for a command that is empty, that no system can run, or that nests."""
    if not words or not words[0].strip():
        raise UsageError(
            f"there is no command {place}",
            "for example: tune --mpi-procs 8 -- python train.py --out {out}",
        )
    if any("\0" in word for word in words):
        raise UsageError(
            f"the command {place} has a NUL character, which no program can be given", "remove it"
        )
    if line := launch_line(words):
        raise _nested(line, place)
    if ASSIGNMENT.fullmatch(words[0]):
        name = words[0].partition("=")[0]
        raise UsageError(
            f"the command {place} begins with {name}=…, which sets a variable and is no program",
            f"write it before tune, whose environment each launch has: {name}=… tune …",
        )
    if ":" in words:
        raise several_programs("`:`")


def _nested(line: LaunchLine, place: str) -> UsageError:
    """The error for a command that starts ranks itself: each rank would start ranks of its own."""
    name = " ".join(filter(None, (line.name, SUBCOMMANDS.get(line.name))))
    behind = "".join(f" behind {PurePath(words[0]).name}" for words in line.before[:1])
    of_torch = line.name in ("torchrun", *OF_TORCH)
    how = " --launcher torchrun" if of_torch else ""
    how += " --launcher srun" if line.name == "srun" else ""
    hint = f"name the program that each rank runs: tune -n RANKS{how} -- python train.py …"
    if line.name in LAUNCHERS:
        hint += (
            "\nArguments for the launcher itself: --mpirun-arg"
            f"\nOr let tune read the line: tune init -- {shlex.join(line.launcher)} …"
        )
    return UsageError(
        f"the command {place} begins with {name}{behind}, but tune starts the ranks itself"
        if line.name in LAUNCHERS
        else f"the command {place} begins with {name}{behind}, which starts ranks itself, and tune"
        " does not drive it: each of its ranks would start all of them",
        hint,
    )


def _check_gpus(template: Sequence[str], gpus: Sequence[str], source: str) -> None:
    """Raise ``UsageError`` for a shipped trainer that is to use GPUs if there is none."""
    script = program.script_of(template) or ""
    if script.startswith("{workloads}/") and "--gpu" in template and not gpus:
        trainer = script.removeprefix("{workloads}/").removesuffix(".py")
        raise UsageError(
            f"the command ({source}) asks for a GPU (--gpu), and none was found here",
            f"On CPUs: tune --study {trainer}",
        )
