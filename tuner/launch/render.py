"""Renders a setting as the command that runs it (pure: the same input gives the same launch)."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tuner.hosts.observe import OWN_RANK
from tuner.hosts.supervisor.cleanup import CONNECTIONS, MARKER, study_of
from tuner.launch import command
from tuner.model import (
    ON,
    RANKS,
    SHARE,
    UNSET,
    Env,
    Flag,
    Knob,
    Launch,
    LauncherOption,
    LineChange,
    Prefix,
    Setting,
    StudySpec,
    Value,
)
from tuner.model.errors import UsageError

#: The variable of what ``ssh_wrapper.sh`` runs.
SSH_COMMAND = "TUNE_SSH"

#: A launch that goes on after a pause gets SIGCONT. Open MPI would forward that to its other hosts,
#: and ends if it has not reached one of them yet.
_FORWARD_NOTHING = dict.fromkeys(
    ("PRTE_MCA_ess_base_forward_signals", "OMPI_MCA_ess_base_forward_signals"), "none"
)


def launch(
    spec: StudySpec,
    setting: Setting,
    folder: Path,
    *,
    environ: Mapping[str, str],
    cwd: Path,
    marker: str | None = None,
) -> Launch:
    """Return the launch of a setting in the trial's own folder.

    ``environ`` is the user's environment, kept as it is but for what the launcher, the
    probe and the marker need; the setting reaches the ranks through the wrapper. Other hosts have
    no wrapper, and ssh carries no variable there: ``env`` sets all of it for their ranks.
    """
    from tuner.hosts.probe import CODE, connections_folder, private_folder, probe_environment
    from tuner.launch.launchers import in_slurm, launcher_for, ssh_wrapper, wrapper_argv

    spec = spec.at(setting)
    info, launcher = spec.launcher, launcher_for(spec.launcher.kind)
    is_remote, ssh = not spec.layout.is_local, dict[str, str]()
    if is_remote and marker is not None and not in_slurm(environ):
        wrapper_words, ssh = ssh_wrapper()
        ssh[SSH_COMMAND] = shlex.join(info.ssh or ("ssh",))
        ssh[CONNECTIONS] = str(connections_folder(folder))
        info = replace(info, ssh=wrapper_words)
    # The input of rank 0; without these words no rank has one.
    input_words, out_dir = ("-i", spec.input) if spec.input else (), folder / "out"
    ours = launcher.environment(info)
    if is_remote and marker is not None:
        private = private_folder(marker)
        code = private_folder(study_of(marker)) / CODE
        ours |= probe_environment(private, {**environ, **ours}, code)
    else:
        ours |= probe_environment(folder, {**environ, **ours})
    if marker is not None:
        ours[MARKER] = marker
    if info.kind == "none":
        ours[OWN_RANK] = "0"
    program = rank_argv(
        spec,
        setting,
        out=str(out_dir),
        wrapper=("env",) if is_remote else (*wrapper_argv(), *input_words),
        template=spec.command,
        variables=ours if is_remote else {},
    )
    env = {**(_FORWARD_NOTHING if is_remote else {}), **environ, **ours, **ssh}
    argv = launcher.argv(info, spec.layout, launcher_options(spec, setting), program)
    return Launch(
        argv,
        env,
        cwd,
        out_dir,
        folder,
        spec.trial_limit_s,
        waits_for_children=spec.wait_for_children,
        input=spec.input if is_remote else "",  # on this host the wrapper opens it
    )


def launcher_options(spec: StudySpec, setting: Setting) -> dict[str, Value]:
    """Return the abstract options of the launcher; what the setting leaves unset has none."""
    spec, values = spec.at(setting), setting.as_dict()
    return {
        knob.route.option: spec.machine.cores_per_rank(spec.layout) if value == SHARE else value
        for knob in spec.knobs
        if isinstance(knob.route, LauncherOption)
        and (value := values.get(knob.name, UNSET)) != UNSET
    }


def rank_argv(
    spec: StudySpec,
    setting: Setting,
    *,
    out: str,
    wrapper: Sequence[str],
    template: Sequence[str],
    variables: Mapping[str, str] | None = None,
) -> tuple[str, ...]:
    """Return what every rank runs: the wrapper with its variables, then the program."""
    unset, values = assignments(spec, setting, template)
    return (
        *wrapper,
        *(part for name in unset for part in ("-u", name)),
        *(f"{name}={value}" for name, value in {**(variables or {}), **values}.items()),
        *(() if wrapper == ("env",) else ("--",)),  # task_wrapper.sh has it before the program
        *program_argv(spec, setting, out=out, template=template),
    )


def program_argv(
    spec: StudySpec, setting: Setting, *, out: str, template: Sequence[str]
) -> tuple[str, ...]:
    """Return the program with its arguments, after the words of prefixes.

    ``UsageError``: a placeholder that cannot be left out has no value.
    """
    defaults = {knob.name: knob.default for knob in spec.knobs if knob.default is not None}
    texts = {
        command.OUT: out,
        "python": sys.executable,
        "workloads": str(command.shipped_dir("workloads")),
        **_texts(spec, defaults | setting.as_dict()),
        **rank_texts(spec.at(setting)),
    }
    return (
        *_prefixes(spec, setting, template),
        *command.substitute(template, texts),
        *_appended(spec, setting, template),
    )


def _prefixes(spec: StudySpec, setting: Setting, template: Sequence[str]) -> tuple[str, ...]:
    """Return the words that start the program."""
    prefixes = (
        dict(knob.route.words).get(value, ())
        for knob, value in _unplaced(spec, setting, template)
        if isinstance(knob.route, Prefix)
    )
    return tuple(word for words in prefixes for word in words)


def assignments(
    spec: StudySpec, setting: Setting, template: Sequence[str] | None = None
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the environment part of a setting: (names to unset, values by name).

    A knob whose placeholder is in ``template`` (by default ``spec.command``)
    goes there, and not into the environment.
    """
    unset: list[str] = []
    values: dict[str, str] = {}
    for knob, value in _unplaced(spec, setting, template):
        if isinstance(knob.route, Env):
            assigned = knob.route.assigned(value)
            values |= assigned
            unset += () if assigned else knob.route.names
    return tuple(unset), values


def line_change(spec: StudySpec, setting: Setting) -> LineChange:
    """Return what a setting adds to the whole job's own launch line.

    ``UsageError``: the value of a knob stands elsewhere than after an option of the program, or an
    option of the launcher in another place than all others.
    """
    from tuner.launch.launchers import launcher_for

    template, values = spec.job or spec.command, setting.as_dict()
    unset, assigned = assignments(spec, setting, template)
    places = command.options_of_placeholders(template)
    texts = _texts(spec, values)
    prefixes = _prefixes(spec, setting, template)
    launcher, info = launcher_for(spec.launcher.kind), spec.launcher
    argv = launcher.argv(info, spec.layout, launcher_options(spec, setting), ())
    argv_without = launcher.argv(info, spec.layout, {}, ())
    pairs = zip(argv, argv_without, strict=False)
    start = next((n for n, (a, b) in enumerate(pairs) if a != b), len(argv_without))
    words = argv[start : start + len(argv) - len(argv_without)]
    placed = [name for name in command.knobs_in(template) if name in texts]
    misplaced = [name for name in placed if name not in places]
    if misplaced or (*argv[:start], *argv[start + len(words) :]) != argv_without:
        what = f"{{{misplaced[0]}}}" if misplaced else f"an option of {info.kind}"
        raise UsageError(f"{what} cannot be put into a typed line", "tune export writes the job")
    return LineChange(
        launcher=words,
        environment=(
            *(word for name in unset for word in ("-u", name)),
            *(f"{name}={value}" for name, value in assigned.items()),
        ),
        prefix=prefixes,
        options=tuple((places[name], texts[name]) for name in places if name in texts),
        appended=_appended(spec, setting, template),
    )


def arguments(spec: StudySpec, setting: Setting) -> tuple[str, ...]:
    """Return the argument part of a setting: ``("-j", "2", "--communicator", "naive")``."""
    texts = _texts(spec, setting.as_dict())
    texts |= rank_texts(spec.at(setting)) if RANKS in texts else {}
    in_template = command.words_with_values(spec.command, texts)
    return (*in_template, *_appended(spec, setting, spec.command))


def _appended(spec: StudySpec, setting: Setting, template: Sequence[str]) -> tuple[str, ...]:
    """Return the options of knobs that have no placeholder, which come after the template."""
    words: list[str] = []
    for knob, value in _unplaced(spec, setting, template):
        if isinstance(knob.route, Flag) and (option := knob.route.option) is not None:
            if knob.route.switch:
                words += [option] if value == ON else []
            else:
                words += [f"{option}{value}"] if option.endswith("=") else [option, str(value)]
    return tuple(words)


def _unplaced(
    spec: StudySpec, setting: Setting, template: Sequence[str] | None
) -> list[tuple[Knob, Value]]:
    """Return the knobs of a setting that have no placeholder in a command, with their values."""
    placed = command.knobs_in(spec.command if template is None else template)
    values = setting.as_dict()
    return [
        (knob, values[knob.name])
        for knob in spec.knobs
        if knob.name in values and knob.name not in placed
    ]


def _texts(spec: StudySpec, values: Mapping[str, Value]) -> dict[str, str]:
    """Return the texts that replace the placeholders; a switch that is off has none."""
    switches = {k.name for k in spec.knobs if isinstance(k.route, Flag) and k.route.switch}
    return {
        name: command.BARE if name in switches else str(value)
        for name, value in values.items()
        if name not in switches or value == ON
    }


def rank_texts(spec: StudySpec) -> dict[str, str]:
    """Return the texts of ``{ranks}`` and, if there is a global batch, ``{batch_per_rank}``."""
    ranks = spec.layout.ranks
    share = (
        {} if spec.global_batch is None else {command.BATCH_PER_RANK: spec.global_batch // ranks}
    )
    return {name: str(number) for name, number in {RANKS: ranks, **share}.items()}


def inherited(environ: Mapping[str, str], knobs: Sequence[Knob]) -> dict[str, str]:
    """Return the variables of these knobs that the user's environment already sets."""
    names = [n for knob in knobs if isinstance(knob.route, Env) for n in knob.route.names]
    return {name: environ[name] for name in names if name in environ}
