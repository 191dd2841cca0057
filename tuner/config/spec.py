"""One :class:`StudySpec` out of the command line, the study file and the machine.

The command line wins over the study file, and that over the defaults.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any

from tuner import knobs as table
from tuner.config import hosts, knob_selection, program
from tuner.config.applicability import TargetHost
from tuner.config.options import OPTIONS
from tuner.config.study_file import Document, Study, study_of
from tuner.config.typed_launch import several_programs
from tuner.hosts.machine import HostFeatures, host_features, this_machine
from tuner.hosts.networks import common_interfaces
from tuner.hosts.typed_paths import read_typed, typed_path
from tuner.knobs import ROLES, domains, requirements, space
from tuner.knobs.core_budget import OVERSUBSCRIPTION
from tuner.launch import command as templates
from tuner.launch.launch_line import (
    ASSIGNMENT,
    LAUNCHERS,
    OF_TORCH,
    SUBCOMMANDS,
    launch_line,
)
from tuner.launch.launchers import discovery, launcher_for
from tuner.launch.objectives import objective_for, with_argument
from tuner.launch.secrets import recorded_environment
from tuner.live import eligibility
from tuner.model import (
    ANY_HOST,
    RANKS,
    SHARE,
    UNSET,
    Choice,
    IntRange,
    Knob,
    LauncherInfo,
    Layout,
    Machine,
    ObjectiveSpec,
    RankCount,
    StudySpec,
    price,
    wording,
)
from tuner.model.errors import UsageError

#: Ranks if nothing says how many and there is no GPU: the fewest that exchange anything.
DEFAULT_RANKS = 2

#: A hostfile has at most so many bytes.
MOST_HOSTFILE_BYTES = 1 << 24


def build_spec(
    *,
    file: Document | None = None,
    source: str = "tune()",
    command: Sequence[str] | None = None,
    options: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    machine: Machine | None = None,
    part: Layout | None = None,
    features: HostFeatures | None = None,
    find: Callable[..., LauncherInfo] | None = None,
) -> StudySpec:
    """Merge and check options, study file and machine, and return the study.

    ``file`` is what the study file says, ``source`` its name in messages. The words of ``command``
    were typed after ``--``; ``options`` are what else was typed, by the keys of
    :mod:`tuner.config.options`. ``part`` is a layout in place of that on all hosts. All else
    is by default that of this process and host; ``machine`` is the host with the fewest cores,
    and ``find`` looks for its launcher.
    """
    environ = os.environ if environ is None else environ
    cwd = cwd or Path.cwd()
    typed = {key: value for key, value in (options or {}).items() if value not in (None, ())}
    study = study_of(file or {}, typed, command)
    template = study.command
    check_command(template, "after --" if command is not None else f"in {source}")
    is_machine_given, machine = machine is not None, machine or this_machine(environ=environ)
    chosen = knob_selection.select(study, typed, template, is_typed=command is not None)
    knob_selection.check_job(study.job, chosen, source)
    layout, spares, slots = _layout(study, machine, chosen, environ=environ, cwd=cwd)
    layout, chosen = (part, chosen.without_ranks()) if part else (layout, chosen)
    fields = {option.field: study.option(option.key) for option in OPTIONS if option.field}
    cores_are_asked_for = (chosen.with_own_values - chosen.fixed.as_dict().keys()) & ROLES.keys()
    # Ranks multiply what each of them asks for: most of such a space is far beyond the cores.
    if fields["oversubscription"] is None and (chosen.rank_counts or not cores_are_asked_for):
        fields["oversubscription"] = OVERSUBSCRIPTION
    objective = _objective(study, typed, fields)
    runs_in_out = bool(study.option("run_in_out"))
    placeholders = templates.placeholders((*template, *study.job))
    _check_batch(placeholders, fields["global_batch"], layout, source)
    if objective_for(objective).needs_out and not (
        runs_in_out or templates.OUT in templates.placeholders(template)
    ):
        raise UsageError(
            f"the command ({source}) has no {{out}}, so its log could not be found",
            "put {out} where the program takes the folder for its log: … --out {out}\n"
            "A program that writes where it runs: --run-in-out, and --log result/log, say\n"
            "A program without a log: --objective wall, or --objective 'pattern:REGEX'",
        )
    path = program.check(template, environ=environ, cwd=cwd)
    info = (find or discovery.find)(
        study.option("mpirun"),
        study.option("mpirun_args") or (),
        kind=study.option("launcher"),
        program=path,
        environ=environ,
    )
    launcher = replace(info, ssh=study.option("ssh") or ())
    if launcher.kind == "torchrun" and not layout.is_local:
        launcher = discovery.with_carrier(launcher, environ)
    # The launcher refuses arguments of the user now, not at the first launch: no program is needed.
    launcher_for(launcher.kind).argv(launcher, layout, {}, ())
    why_not_live = eligibility.why_cold(objective, layout, environ)
    if fields["live"] == "on" and why_not_live:
        raise UsageError(
            f"--live on ({source}): {why_not_live}, so no running job can measure settings",
            "--live auto launches each setting then; docs/live.md says what is needed",
        )
    features = features or host_features(environ)
    if not layout.is_local and not is_machine_given:
        machine, features = _tightest_host(launcher, layout, features, environ)
    if fields["hosts_from"]:
        machine = replace(machine, hostname=ANY_HOST)
    layout = hosts.on_slots(layout, machine, launcher.extra_args, environ)
    host = TargetHost(
        *(machine, layout, launcher, features, fields["global_batch"]),
        _numbers(chosen, machine, slots),
    )
    chosen = _with_known_ranks(chosen, layout, objective, launcher.kind, fields["global_batch"])
    knobs, left_out = knob_selection.applying(chosen, host)
    fields["require"] += _cores_suffice(knobs, machine, layout)
    baseline = {knob.name: knob.default for knob in knobs if knob.default is not None}
    requirements.check(
        requirements.Requirements(fields["require"], layout.ranks, len(layout.hosts)),
        {knob.name: space.values(knob.domain) for knob in knobs},
        {**baseline, **chosen.fixed.as_dict()},
        dict(left_out),
    )
    run, job = (program.with_path(words, template[0], path) for words in (template, study.job))
    if runs_in_out:
        run, job = program.in_out_folder(run, cwd), program.in_out_folder(job, cwd)
    # A shipped trainer without --data reads no file of the user's, and so runs in any folder.
    is_shipped = (program.script_of(template) or "").startswith("{workloads}/") and not any(
        word.startswith("--data") for word in (*template, *study.job)
    )
    on_hosts = "" if layout.is_local else f"-h{len(layout.hosts)}"
    stem = study.option("name") or program.stem(template)
    name = typed.get("name") or f"{stem}-n{layout.ranks}{on_hosts}"
    return StudySpec(
        name=program.check_name(name, "--name" if "name" in typed else "name"),
        command=run,
        job=job,
        folder="" if is_shipped else str(cwd),
        programs=program.fingerprints(run, cwd, knobs),
        same_program=bool(typed.get("same_program")),
        interpreter=sys.executable if "python" in placeholders else "",
        launcher=launcher,
        layout=layout,
        machine=machine,
        knobs=knobs,
        fixed=chosen.fixed,
        objective=objective,
        left_out=left_out,
        spares=spares,
        environment=tuple(recorded_environment(environ).items()),
        **fields,
    )


def _tightest_host(
    launcher: LauncherInfo, layout: Layout, features: HostFeatures, environ: Mapping[str, str]
) -> tuple[Machine, HostFeatures]:
    """Return the host with the fewest cores, where a setting must fit, and what all have."""
    from tuner.launch.start_agents import reach

    with closing(reach(launcher, layout.hosts, environ)) as hosts_:
        machine = min(hosts_.machines(), key=lambda host: (host.usable_cores, len(host.gpus)))
        networks = [description.networks for description in hosts_.descriptions.values()]
    return machine, replace(features, interfaces=common_interfaces(networks))


def _with_known_ranks(
    chosen: knob_selection.Selection,
    layout: Layout,
    objective: ObjectiveSpec,
    launcher: str,
    global_batch: int | None,
) -> knob_selection.Selection:
    """Return the knobs with the baseline's number of ranks, if the ranks are tuned.

    Steps of a trainer are larger with more ranks, unless these share the batch.
    """
    is_trainer = objective.kind == "logreport" or launcher == "torchrun"
    grows = is_trainer and global_batch is None
    knobs = [
        replace(row, default=layout.ranks_per_host, changes_numerics=grows and row.changes_numerics)
        if isinstance(row.route, RankCount)
        else row
        for row in chosen.knobs
    ]
    return replace(chosen, knobs=tuple(knobs))


def _cores_suffice(knobs: Sequence[Knob], machine: Machine, layout: Layout) -> tuple[str, ...]:
    """Return what is required of tuned ranks that are bound to cores: others crash, or share them.

    ``--require`` counts the ranks of all hosts.
    """
    if not {RANKS, "cores_per_rank"} <= {knob.name for knob in knobs}:
        return ()
    cores = machine.usable_cores * len(layout.hosts)
    texts = (f"cores_per_rank == {value!r}" for value in (UNSET, SHARE))
    return (" or ".join([*texts, f"{RANKS} * cores_per_rank <= {cores}"]),)


def _check_batch(
    placeholders: Sequence[str], global_batch: int | None, layout: Layout, source: str
) -> None:
    """Refuse a global batch that no program is told of, or that the ranks cannot share evenly."""
    name = templates.BATCH_PER_RANK
    if (name in placeholders) != (global_batch is not None):
        has, lacks = f"{{{name}}} in the command ({source})", "--global-batch"
        has, lacks = (has, lacks) if global_batch is None else (f"{lacks} {global_batch}", has)
        raise UsageError(
            f"there is {has}, but no {lacks}",
            f"they go together: --global-batch 256, and … --batch {{{name}}} in the command",
        )
    if global_batch is not None and global_batch % layout.ranks:
        raise UsageError(
            f"--global-batch {global_batch}: {layout.ranks} ranks cannot share it evenly",
            "another batch, or another number of ranks (--mpi-procs)",
        )


def _numbers(
    chosen: knob_selection.Selection, machine: Machine, slots: int | None
) -> tuple[int, ...]:
    """Return the numbers of ranks on a host that may be tried; empty: the ranks are not tuned."""
    domain = chosen.rank_counts.domain if chosen.rank_counts else Choice(())
    if domain == table.knob(RANKS).domain:
        domain = IntRange(1, slots or machine.usable_cores)
    return tuple(n for n in space.values(domain, machine) if isinstance(n, int))


def _typed_ranks(study: Study, numbers: Sequence[int]) -> tuple[int | None, int | None]:
    """Return how many ranks the user wants, of all and of each host; ``numbers`` are tried."""
    ranks, per_host = (study.option(key) for key in ("mpi_procs", "ppn"))
    total = None if isinstance(ranks, str) else ranks
    if isinstance(per_host, str):  # beside a total it says how many fit on a host
        per_host = max(numbers) if total else None
    return total, per_host


def _usual_ranks(
    study: Study, rank_counts: Knob, numbers: Sequence[int], hosts_used: int, most: int | None
) -> int | None:
    """Return how many ranks the baseline has on a host if nothing typed says so.

    These are the ``most`` that a host takes (its slots, or GPUs, or cores), as far as so many are
    tried and can share the global batch; if that is not known, the most that are tried.
    """
    row = table.knob(RANKS)
    if rank_counts.default is not None:  # --baseline
        domains.check_against(row, Choice((rank_counts.default,)), where="the baseline")
        return rank_counts.default if isinstance(rank_counts.default, int) else None
    if most is None and rank_counts.domain == row.domain:
        return None  # nothing says how many a host takes
    batch, limit = study.option("global_batch") or 0, most or max(numbers)
    even = [number for number in numbers if batch % (number * hosts_used) == 0] or numbers
    return max((number for number in even if number <= limit), default=min(even))


def _layout(
    study: Study,
    machine: Machine,
    chosen: knob_selection.Selection,
    *,
    environ: Mapping[str, str],
    cwd: Path,
) -> tuple[Layout, tuple[str, ...], int | None]:
    """Return where the ranks of the baseline run, hosts that may replace others, and slots."""
    rank_counts = chosen.rank_counts
    offers, source = offered(study, machine.hostname, environ=environ, cwd=cwd)
    oversubscribes = bool(study.option("more_ranks_than_slots"))
    slots = min((offer.slots for offer in offers if offer.slots), default=None)
    slots = None if oversubscribes else slots
    numbers = _numbers(chosen, machine, slots)
    if rank_counts is not None and offers:  # each number must fit
        hosts.place(offers, source=source, ppn=max(numbers), oversubscribe=oversubscribes)
    ranks, ppn = _typed_ranks(study, numbers)
    if rank_counts is not None and not (ranks or ppn):
        most = slots or (None if offers else len(machine.gpus) or machine.usable_cores)
        ppn = _usual_ranks(study, rank_counts, numbers, len(offers) or 1, most)
    if study.option("launcher") == "none":
        if offers:
            raise UsageError(
                f"--launcher none starts the program on this host alone, and {source} names hosts",
                "leave one of them out",
            )
        ranks = ranks or ppn or 1
        tells = RANKS in templates.placeholders(study.command)
        if not tells and (rank_counts is not None or ranks > 1):
            raise UsageError(
                f"--launcher none starts one process, and the command has no {{{RANKS}}}: no number"
                " of ranks would reach the program",
                f"put {{{RANKS}}} where the program takes it, or leave it to a launcher",
            )
    if not offers:
        if ranks and ppn and ranks > ppn:
            raise UsageError(
                f"--mpi-procs {ranks} with --ppn {ppn} needs other hosts, and none are named",
                "name them with --hosts h1,h2 or --hostfile FILE",
            )
        tasks = hosts.slurm_tasks(environ)
        return Layout(ranks or ppn or tasks or len(machine.gpus) or DEFAULT_RANKS), (), None
    if oversubscribes and study.option("hosts_from"):  # a host that replaces one has no more
        raise UsageError(
            "--oversubscribe-hosts does not go with --hosts-from",
            "let the command print as many slots as ranks may run on a host",
        )
    layout = hosts.place(offers, source=source, ranks=ranks, ppn=ppn, oversubscribe=oversubscribes)
    if rank_counts is not None and len({number for _, number in layout.slots}) > 1:
        raise UsageError(
            f"--mpi-procs {ranks} is {wording.ranks(layout)}, and the number that is tuned is the"
            " same on each host",
            "a multiple of the hosts, or leave it out",
        )
    if study.option("wait_for_children") and not layout.is_local:
        raise UsageError(
            f"--wait-for-children waits on this host alone, and {source} names others",
            "let the command itself wait for what it starts (in a shell script: wait)",
        )
    hosts_with_room = hosts.with_room(offers, max((layout.ranks_per_host, *numbers)))
    return layout, tuple(name for name in hosts_with_room if name not in layout.hosts), slots


def offered(
    study: Study, local_name: str, *, environ: Mapping[str, str], cwd: Path
) -> tuple[Sequence[hosts.Offer], str]:
    """Return the hosts that options name, else those of Slurm, and where they are named.

    There are none if Slurm has given ``local_name`` alone.
    """
    hostfile, names, command = map(study.option, ("hostfile", "hosts", "hosts_from"))
    sources = {"--hosts": names, "--hostfile": hostfile, "--hosts-from": command}
    if len(flags := [flag for flag, value in sources.items() if value]) > 1:
        raise UsageError(f"{' and '.join(flags)} both name hosts", "leave one of them out")
    if names:
        return hosts.parse_hosts(names), "--hosts"
    if hostfile:
        source = f"--hostfile {hostfile}"
        data = read_typed(typed_path(hostfile, "--hostfile", cwd), source, MOST_HOSTFILE_BYTES)
        return hosts.parse_hostfile(data.decode("utf-8-sig", "replace"), source), source
    if command:
        return hosts.hosts_from(command), f"--hosts-from {shlex.join(command)}"
    offers = hosts.from_slurm(environ)
    # Slurm, not srun, is above the ranks of srun: an agent watches them, also on this host.
    is_srun = study.option("launcher") == "srun"
    is_local = [offer.name for offer in offers] == [local_name.partition(".")[0]] and not is_srun
    return () if is_local else offers, "the Slurm allocation"


def _objective(study: Study, typed: Mapping[str, Any], fields: Mapping[str, Any]) -> ObjectiveSpec:
    """Return how the figure is read.

    A typed objective takes the place of the file's, with its key, pattern and unit.
    """
    in_file = study.objective
    spec, kind, log = in_file, typed.get("objective"), typed.get("log")
    if kind is not None and kind != in_file.kind:
        spec = with_argument(ObjectiveSpec(loss_key=in_file.loss_key), kind)
        if spec.kind == in_file.kind:
            spec = replace(spec, filename=in_file.filename)
    if log is not None and not spec.traits.has_log:
        raise UsageError(f"--log {log}: the objective {spec.kind} reads no log", "leave it out")
    objective = replace(
        spec,
        filename=spec.filename if log is None else log,
        unit=typed.get("unit", spec.unit),
        maximize=spec.maximize or bool(typed.get("maximize")),
    )
    price.check(objective, fields["items"], fields["price_per_hour"])
    if fields["max_time_s"] is not None and objective.clock == "none":
        raise UsageError(
            f"--max-time {fields['max_time_s']:g}s: a launch does not show on its way what its"
            f" figure (objective {objective.kind}) will come to, so that it could be stopped as"
            " slow",
            "--trial-limit TIME ends a launch that has taken longer; its setting counts as failed",
        )
    return objective


def check_command(words: Sequence[str], place: str) -> None:
    """Raise ``UsageError`` for a command that is empty, sets variables, or starts ranks itself."""
    if not words or not words[0].strip():
        raise UsageError(
            f"there is no command {place}",
            "for example: python train.py --out {out}",
        )
    if line := launch_line(words):  # each rank would start ranks of its own
        name = " ".join(filter(None, (line.name, SUBCOMMANDS.get(line.name))))
        behind = f" behind {PurePath(line.before[0]).name}" if line.before else ""
        how = " --launcher torchrun" if line.name in ("torchrun", *OF_TORCH) else ""
        how = " --launcher srun" if line.name == "srun" else how
        hint = f"name the program that each rank runs: tune -n RANKS{how} -- python train.py …"
        why = "but tune starts the ranks itself"
        if line.name in LAUNCHERS:
            hint += (
                "\nArguments for the launcher itself: --mpirun-arg"
                f"\nOr let tune read the line: tune init -- {shlex.join(line.launcher)} …"
            )
        else:
            why = "which starts ranks itself: each of tune's ranks would start all of them"
        raise UsageError(f"the command {place} begins with {name}{behind}, {why}", hint)
    if ASSIGNMENT.fullmatch(words[0]):
        name = words[0].partition("=")[0]
        raise UsageError(
            f"the command {place} begins with {name}=…, which sets a variable and is no program",
            f"write it before tune, whose environment each launch has: {name}=… tune …",
        )
    if ":" in words:
        raise several_programs("`:`")
