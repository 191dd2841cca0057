"""The sampler, pruner and terminator of a study, if they are not our own.

``--sampler``, ``--pruner`` and ``--terminator`` name one of Optuna, or a class of the user.
"""

from __future__ import annotations

import inspect
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import optuna
from optuna.exceptions import StorageInternalError, UpdateFinishedTrialError
from optuna.pruners import BasePruner
from optuna.samplers import BaseSampler
from optuna.study import Study
from optuna.terminator import BaseTerminator
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.exc import DBAPIError

from tuner.config.options import PRUNERS, SAMPLERS, TERMINATORS
from tuner.hosts.untrusted_files import create
from tuner.model import StudySpec
from tuner.model.errors import TunerError, UsageError, nearest

_Base = TypeVar("_Base", BaseSampler, BasePruner, BaseTerminator)

#: The packages that a sampler or a terminator imports, which Optuna does not bring along.
_NEEDS = {"gp": ("torch", "scipy"), "emmr": ("torch", "scipy"), "cmaes": ("cmaes",)}


class ShownStudy(Study):
    """A study of Optuna that shows samplers, pruners and terminators other trials than it has.

    All else is the study's own: what they write goes to its trials.
    """

    def __init__(self, study: Study, shown_trials: Callable[[], list[FrozenTrial]]) -> None:
        super().__init__(study.study_name, study._storage)
        self._shown_trials = shown_trials

    def _get_trials(
        self,
        deepcopy: bool = True,  # noqa: ARG002 (nobody changes the trials)
        states: Container[TrialState] | None = None,
        use_cache: bool = False,  # noqa: ARG002
    ) -> list[FrozenTrial]:
        return [trial for trial in self._shown_trials() if states is None or trial.state in states]

    def stop(self) -> None:
        """Do nothing: it is not for a sampler to say when the search is over."""


class PacePruner(BasePruner):
    """A pruner of Optuna that compares the time of an iteration, as of the last report.

    Trials report the time so far. That grows, and Optuna's pruners take the least value of a trial
    for its best.
    """

    def __init__(self, pruner: BasePruner) -> None:
        self._pruner = pruner

    def prune(self, study: Study, trial: FrozenTrial) -> bool:
        """Return whether the pruner stops the trial."""
        paced = ShownStudy(study, lambda: [*map(_with_paces, study.get_trials(deepcopy=False))])
        trial = _with_paces(trial)
        if (step := trial.last_step) is not None:
            trial.intermediate_values = {step: trial.intermediate_values[step]}
        return self._pruner.prune(paced, trial)


class NeverTerminator(BaseTerminator):
    """``none``: only --trials, --budget and the end of the space end the search."""

    def should_terminate(self, study: Study) -> bool:  # noqa: ARG002
        """Say that the search goes on."""
        return False


def _with_paces(trial: FrozenTrial) -> FrozenTrial:
    paced = copy(trial)
    times_s = trial.intermediate_values
    paced.intermediate_values = {step: time_s / max(step, 1) for step, time_s in times_s.items()}
    return paced


@contextmanager
def guarded(
    what: str, code: BaseSampler | BasePruner | BaseTerminator, folder: Path
) -> Iterator[None]:
    """While entered, turn what a sampler, pruner or terminator raises into an error with its name.

    The traceback goes to a file in the folder.
    """
    try:
        yield
    except (TunerError, DBAPIError, StorageInternalError, UpdateFinishedTrialError):
        raise
    except (Exception, SystemExit) as error:  # it may be the user's code
        name = f"{type(code).__module__}:{type(code).__qualname__}"
        file = folder / f"{what}-traceback.txt"
        with os.fdopen(create(file), "w", errors="backslashreplace") as opened:
            opened.write(traceback.format_exc())
        raise TunerError(
            f"the {what} {name} failed: {type(error).__name__}: {error}",
            f"its traceback is in {file}; what was measured is kept, and the same command with"
            f" another --{what} goes on",
        ) from error


def yes_or_no(answer: object) -> bool:
    """Return the answer of a pruner or a terminator; ``ValueError``: it is neither yes nor no."""
    if answer not in (True, False):
        raise ValueError(f"it answered {answer!r}, neither True nor False")
    return bool(answer)


def check(spec: StudySpec) -> None:
    """Raise what :func:`sampler`, :func:`pruner` and :func:`terminator` raise for this study."""
    sampler(spec, trials=0)
    pruner(spec)
    terminator(spec)


def lacks(name: str) -> list[str]:
    """Return the packages that a sampler or a terminator needs and that are not installed."""
    return [package for package in _NEEDS.get(name, ()) if find_spec(package) is None]


def sampler(spec: StudySpec, trials: int) -> BaseSampler | None:
    """Return the sampler of a study that has this many trials; ``None``: our own.

    It is a `UsageError` if there is none of that name, it needs a package, or it cannot be made.
    """
    name = spec.sampler
    if name == "tune":
        return None
    # A resumed study needs other random numbers. TPE takes what other hosts measure for bad.
    options: dict[str, Any] = {"seed": (spec.seed + trials) % 2**32, "constant_liar": True}
    options["consider_pruned_trials"] = True  # of CMA-ES: the race stops many trials
    kind = _class("sampler", name, SAMPLERS, optuna.samplers)
    plugin = _object("sampler", name, kind, BaseSampler, options)  # type: ignore[type-abstract]
    if name == "brute-force":  # all that this does is to stop the study once all was tried
        plugin.after_trial = lambda *_: None  # type: ignore[method-assign]
    return plugin


def pruner(spec: StudySpec) -> BasePruner | None:
    """Return the pruner of a study; ``None``: our own. For the errors see :func:`sampler`."""
    name = spec.pruner
    if name == "race":
        return None
    if name != "none" and spec.objective.clock != "elapsed":
        raise UsageError(
            f"--pruner {name} needs an objective that grows as a run goes on, such as the"
            f" elapsed_time of a log; this one is {spec.objective.kind}",
            "--pruner race or none",
        )
    kind = _class("pruner", name, PRUNERS, optuna.pruners)
    plugin = _object("pruner", name, kind, BasePruner, {})  # type: ignore[type-abstract]
    return PacePruner(plugin) if name in PRUNERS else plugin


def terminator(spec: StudySpec) -> BaseTerminator | None:
    """Return the terminator of a study; ``None``: our own. For the errors see :func:`sampler`."""
    name = spec.terminator
    if name == "tune":
        return None
    if name == "none":
        return NeverTerminator()
    kind = _class("terminator", name, TERMINATORS, optuna.terminator)
    if name in TERMINATORS:
        with warnings.catch_warnings():  # Optuna warns that its version 6 will not have it
            warnings.simplefilter("ignore")
            return optuna.terminator.Terminator(kind())
    return _object("terminator", name, kind, BaseTerminator, {})  # type: ignore[type-abstract]


def _class(what: str, name: str, names: Mapping[str, str], package: ModuleType) -> Any:
    """Return the class of that name, or of the user's module in the current folder or elsewhere."""
    if packages := " ".join(lacks(name)):
        raise UsageError(f"--{what} {name} needs {packages}", f"pip install {packages}")
    if name in names:
        return getattr(package, names[name])
    module, _, attribute = name.partition(":")
    if not attribute:
        near = nearest(name, names)
        meant = f"did you mean {near!r}? " if near else ""
        raise UsageError(
            f"--{what} {name}: there is no such {what}",
            f"{meant}known: {', '.join(names)}, or a class of yours: module:Class",
        )
    if (folder := str(Path.cwd())) not in sys.path:
        sys.path.append(folder)
    try:
        return getattr(import_module(module), attribute)
    except (Exception, SystemExit) as error:  # the module is the user's
        raise UsageError(
            f"--{what} {name}: {type(error).__name__}: {error}",
            "write module:Class, of a module in this folder or installed",
        ) from error


def _object(
    what: str, name: str, kind: Any, base: type[_Base], options: Mapping[str, Any]
) -> _Base:
    """Return an object of the class, which gets those of the options that it takes."""
    try:
        parameters = inspect.signature(kind).parameters
        with warnings.catch_warnings():  # some are marked experimental
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            plugin = kind(**{key: value for key, value in options.items() if key in parameters})
    except (Exception, SystemExit) as error:  # it may be the user's code
        raise UsageError(
            f"--{what} {name}: {type(error).__name__}: {error}",
            f"name an Optuna {what} that can be made without arguments",
        ) from error
    if not isinstance(plugin, base):
        raise UsageError(
            f"--{what} {name} is not an Optuna {what}",
            f"derive the class from {base.__module__.rsplit('._')[0]}.{base.__name__}",
        )
    return plugin
