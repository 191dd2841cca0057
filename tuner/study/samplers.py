"""What ``--sampler`` and ``--pruner`` name: our own, Optuna's, or a class of the user's."""

from __future__ import annotations

import inspect
import os
import sys
import traceback
import warnings
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import optuna
from optuna.distributions import BaseDistribution
from optuna.exceptions import StorageInternalError
from optuna.pruners import BasePruner
from optuna.samplers import BaseSampler, RandomSampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.exc import DBAPIError

from tuner.config.options import PRUNERS, SAMPLERS
from tuner.hosts.untrusted_files import create
from tuner.knobs import space
from tuner.model import Setting, Stopped, StudySpec
from tuner.model.errors import TunerError, UsageError, nearest
from tuner.search.stopper import GoOn, Verdict

#: A grid with more settings than this takes seconds a suggestion, and gigabytes.
MOST_POINTS = 100_000

_Base = TypeVar("_Base", BaseSampler, BasePruner)

#: What else a sampler imports.
_NEEDS = {"gp": ("torch", "scipy"), "cmaes": ("cmaes",)}


class SearchSampler(BaseSampler):
    """Suggests what the search of :mod:`tuner.search.engine` proposes, given the whole history.

    Outside of ``tune``, :class:`tuner.search.RuntimeSampler` is the same search on trials alone.
    """

    def __init__(self) -> None:
        self.proposed = Setting()

    def infer_relative_search_space(
        self,
        study: Study,  # noqa: ARG002 (Optuna's signature)
        trial: FrozenTrial,  # noqa: ARG002
    ) -> dict[str, BaseDistribution]:
        """Nothing: each parameter is asked for by itself."""
        return {}

    def sample_relative(
        self,
        study: Study,  # noqa: ARG002
        trial: FrozenTrial,  # noqa: ARG002
        search_space: dict[str, BaseDistribution],  # noqa: ARG002
    ) -> dict[str, Any]:
        """Nothing either."""
        return {}

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """The proposed value; a random one of a knob that the proposal does not have."""
        found = self.proposed.as_dict().get(param_name)
        if found is not None:
            return found
        other = RandomSampler(seed=0)  # the user enqueued a trial with a part of its knobs
        return other.sample_independent(study, trial, param_name, param_distribution)


class SearchPruner(BasePruner):
    """Prunes what the race of its launch stops (:mod:`tuner.search.stopper`).

    The race sees the whole log, at once. Outside of ``tune``, :class:`tuner.search.RacePruner` is
    the same race on a trial's reports alone.
    """

    def __init__(self) -> None:
        self.verdict: Verdict = GoOn()

    def prune(
        self,
        study: Study,  # noqa: ARG002
        trial: FrozenTrial,  # noqa: ARG002
    ) -> bool:
        """Whether the race stops the launch."""
        return isinstance(self.verdict, Stopped)


class PacePruner(BasePruner):
    """A pruner of Optuna that compares the time an iteration at the last report.

    What is reported is the time so far. That grows, and Optuna's pruners take the least value of a
    trial for its best.
    """

    def __init__(self, pruner: BasePruner) -> None:
        self._pruner = pruner

    def prune(self, study: Study, trial: FrozenTrial) -> bool:
        """What the pruner says of the trials' paces."""

        def get_trials(*args: Any, **options: Any) -> list[FrozenTrial]:
            return [_with_paces(each) for each in study.get_trials(*args, **options)]

        view, now = copy(study), _with_paces(trial)
        view.get_trials = get_trials  # type: ignore[method-assign]
        last = now.last_step
        if last is not None:
            now.intermediate_values = {last: now.intermediate_values[last]}
        return self._pruner.prune(view, now)


def _with_paces(trial: FrozenTrial) -> FrozenTrial:
    paced = copy(trial)
    times_s = trial.intermediate_values
    paced.intermediate_values = {step: time_s / max(step, 1) for step, time_s in times_s.items()}
    return paced


def _learning_from_pruned(sampler: BaseSampler) -> BaseSampler:
    """The sampler, shown pruned trials as complete ones: their value is where they were heading.

    Optuna's GPSampler passes them over, and most launches are pruned.
    """
    original = sampler.sample_relative

    def sample_relative(
        study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        def get_trials(
            deepcopy: bool = True,
            states: Container[TrialState] | None = None,
            use_cache: bool = False,
        ) -> list[FrozenTrial]:
            trials = [copy(each) for each in study._get_trials(deepcopy, None, use_cache)]
            for each in trials:
                if each.state is TrialState.PRUNED:
                    each.state = TrialState.COMPLETE
            return [each for each in trials if states is None or each.state in states]

        view = copy(study)
        view._get_trials = get_trials  # type: ignore[method-assign]
        return original(view, trial, search_space)

    sampler.sample_relative = sample_relative  # type: ignore[method-assign]
    return sampler


@contextmanager
def guarded(what: str, code: BaseSampler | BasePruner, folder: Path) -> Iterator[None]:
    """While entered, what a sampler or a pruner raises is one error with its name.

    Its traceback goes to a file in the folder.
    """
    try:
        yield
    except (TunerError, DBAPIError, StorageInternalError):
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


def check(spec: StudySpec) -> None:
    """Raise what :func:`sampler` and :func:`pruner` raise, before anything is made."""
    sampler(spec, 0)
    pruner(spec)


def lacks(name: str) -> list[str]:
    """The packages that a sampler needs and that are not installed."""
    return [package for package in _NEEDS.get(name, ()) if find_spec(package) is None]


def sampler(spec: StudySpec, trials: int) -> BaseSampler:
    """The sampler of a study that has so many trials.

    Raises:
        UsageError: There is none of that name, it needs a package, or it cannot be made.
    """
    name = spec.sampler
    if name == "tune":
        return SearchSampler()
    # A resumed study goes on elsewhere; what other hosts measure counts as bad (TPE's option).
    options: dict[str, Any] = {"seed": spec.seed + trials, "constant_liar": True}
    options["consider_pruned_trials"] = True  # CMA-ES's: the race stops many
    if name == "grid":
        if (size := space.size(spec.knobs)) > MOST_POINTS:
            raise UsageError(
                f"--sampler grid lists all {size} settings, more than {MOST_POINTS}",
                "narrow the ranges, or take --sampler random",
            )
        options["search_space"] = {k.name: list(space.values(k.domain)) for k in spec.knobs}
    if packages := " ".join(lacks(name)):
        raise UsageError(f"--sampler {name} needs {packages}", f"pip install {packages}")
    kind = _class("sampler", name, SAMPLERS, optuna.samplers)
    made = _object("sampler", name, kind, BaseSampler, options)  # type: ignore[type-abstract]
    if name in {"grid", "brute-force"}:
        # All they do then is to stop the study once nothing is left; on an enqueued trial the grid
        # fails. The policy says when the search is over.
        made.after_trial = lambda *_: None  # type: ignore[method-assign]
    return _learning_from_pruned(made) if name == "gp" else made


def pruner(spec: StudySpec) -> BasePruner:
    """The pruner of a study.

    Raises:
        UsageError: There is none of that name, it cannot be made, or the objective has no values
            on the way.
    """
    name = spec.pruner
    if name == "race":
        return SearchPruner()
    if name != "none" and spec.objective.clock != "elapsed":
        raise UsageError(
            f"--pruner {name} needs an objective that grows as a run goes on, such as the"
            f" elapsed_time of a log; this one is {spec.objective.kind}",
            "--pruner race or none",
        )
    kind = _class("pruner", name, PRUNERS, optuna.pruners)
    made = _object("pruner", name, kind, BasePruner, {})  # type: ignore[type-abstract]
    return PacePruner(made) if name in PRUNERS else made


def _class(what: str, name: str, known: Mapping[str, str], package: ModuleType) -> Any:
    """The class of that name, or of the user's module in the current folder or elsewhere."""
    if name in known:
        return getattr(package, known[name])
    module, _, attribute = name.partition(":")
    if not attribute:
        near = nearest(name, known)
        meant = f"did you mean {near!r}? " if near else ""
        raise UsageError(
            f"--{what} {name}: there is no such {what}",
            f"{meant}known: {', '.join(known)}, or a class of yours: module:Class",
        )
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.append(here)
    try:
        return getattr(import_module(module), attribute)
    except Exception as error:  # the module is the user's
        raise UsageError(
            f"--{what} {name}: {type(error).__name__}: {error}",
            "write module:Class, of a module in this folder or installed",
        ) from error


def _object(
    what: str, name: str, kind: Any, base: type[_Base], options: Mapping[str, Any]
) -> _Base:
    """An object of the class, made with those of the options that it takes."""
    try:
        takes = inspect.signature(kind).parameters
        with warnings.catch_warnings():  # some are marked experimental
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            made = kind(**{key: value for key, value in options.items() if key in takes})
    except Exception as error:  # it may be the user's code
        raise UsageError(f"--{what} {name}: {type(error).__name__}: {error}") from error
    if not isinstance(made, base):
        raise UsageError(
            f"--{what} {name} is not an Optuna {what}",
            f"derive the class from optuna.{what}s.{base.__name__}",
        )
    return made
