"""What a study learns from an earlier one in the same database, once and for all when it begins."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from tuner.config.program import script_of
from tuner.knobs import space
from tuner.model import Lesson, StudySpec, StudyState, wording
from tuner.model.errors import UsageError
from tuner.search.launch_groups import grouped, log_times
from tuner.store.rows import StudyRow
from tuner.store.store import Store
from tuner.study.history import History
from tuner.study.observations import as_setting, observations

#: This many of the fastest settings of an earlier study are first guesses.
MOST_GUESSES = 2

#: This many of the latest studies are looked at for one of the same program.
_LATEST = 50

#: A word of a command that says how much or how, not what: an option, a number, a placeholder.
_HOW_OR_HOW_MUCH = re.compile(r"-.*|[\d.]*|\{\w+\}")


def with_lesson(spec: StudySpec, store: Store, *, fresh: bool = False) -> tuple[StudySpec, str]:
    """Return the spec with its lesson, and a sentence on the lesson if it is new.

    A stored study keeps its lesson, unless it is begun anew or is to learn from another study. It
    is a `UsageError` if the study that is named is not there, or has nothing to teach.
    """
    name, stored = spec.learn_from, None if fresh else store.find(spec.name)
    if stored is not None and stored.spec.learn_from == name:
        return replace(spec, lesson=stored.spec.lesson), ""
    if name in {"auto", "none"}:
        with suppress(UsageError):  # a study that cannot be read teaches nothing
            for row in _latest(spec, store) if name == "auto" else ():
                if (row_lesson := _lesson_of(row, store)).fastest:
                    return replace(spec, lesson=row_lesson), _sentence(row, spec)
        return replace(spec, lesson=None), ""
    row = store.load(name)
    row_lesson = _lesson_of(row, store)
    if name == spec.name or not row_lesson.fastest or not _tuned(row.spec) & _tuned(spec):
        raise UsageError(
            f"--learn-from {name}: it is this study, nothing was measured in it, or it tuned none"
            " of the knobs of this one",
            "name another study, or --learn-from none",
        )
    return replace(spec, lesson=row_lesson), _sentence(row, spec)


def _lesson_of(row: StudyRow, store: Store) -> Lesson:
    return lesson(History.judged(row.spec, store.launches(row.name, detail=False)))


def _sentence(row: StudyRow, spec: StudySpec) -> str:
    program = "same" if _program(row.spec) == _program(spec) else "another"
    ranks = "tuned ranks" if row.spec.rank_counts else wording.ranks(row.spec.layout)
    return f"starts from {row.name} ({program} program, {ranks})"


def _latest(spec: StudySpec, store: Store) -> Iterator[StudyRow]:
    """Yield the finished studies of the same program with a common knob, the newest first."""
    for row in store.studies()[:_LATEST]:
        earlier, objective = row.spec.objective, spec.objective
        # Figures that are no times compare only if the whole objective is the same.
        fits = earlier.clock == objective.clock and objective.clock != "none"
        fits = fits or earlier == objective
        fits = fits and row.name != spec.name and row.state is StudyState.FINISHED
        if fits and _program(row.spec) == _program(spec) and _tuned(row.spec) & _tuned(spec):
            yield row


def _program(spec: StudySpec) -> tuple[str, ...]:
    """Return what the command runs: a script in its folder, or a module, or else its words.

    A program that is no script may be a shell or a wrapper: the words say what that runs.
    """
    script = script_of(spec.command)
    if script is not None:
        return (str(Path(spec.folder) / script),)
    if "-m" in spec.command[:-1]:
        return spec.command[: spec.command.index("-m") + 2]
    program, *words = spec.command
    if "/" in program:
        program = str(Path(spec.folder) / program)
    return (program, *(word for word in words if not _HOW_OR_HOW_MUCH.fullmatch(word)))


def _tuned(spec: StudySpec) -> set[str]:
    fixed = spec.fixed.as_dict()
    return {k.name for k in spec.knobs if k.name not in fixed and len(space.values(k.domain)) > 1}


def lesson(history: History) -> Lesson:
    """Return what a study teaches: the fastest settings of its search; none if nothing worked."""
    groups = grouped(observations(history, history.searched)) if history.size > 0 else {}
    log_s = log_times({key: group for key, group in groups.items() if group.finished})
    fastest = sorted(log_s, key=lambda key: log_s[key])[:MOST_GUESSES]
    return Lesson(history.spec.name, tuple(as_setting(history, key) for key in fastest))
