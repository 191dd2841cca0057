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

#: So many of the fastest settings of an earlier study are first guesses.
MOST_GUESSES = 2

#: So many of the latest studies are looked at for one of the same program.
_LATEST = 50

#: A word of a command that says how much or how, not what: an option, a number, a placeholder.
_SETTING = re.compile(r"-.*|[\d.]*|\{\w+\}")


def with_lesson(spec: StudySpec, store: Store, *, fresh: bool = False) -> tuple[StudySpec, str]:
    """Return the spec with its lesson, and a sentence on that if it is new.

    A stored study that is not begun anew keeps its lesson, as long as it is to learn from the same.
    It is a `UsageError` if the study that is named is not there, or has nothing to teach.
    """
    name, stored = spec.learn_from, None if fresh else store.find(spec.name)
    if stored is not None and stored.spec.learn_from == name:
        return replace(spec, lesson=stored.spec.lesson), ""
    if name in {"auto", "none"}:
        with suppress(UsageError):  # what cannot be read teaches nothing
            for row in _latest(spec, store) if name == "auto" else ():
                if (learned := _lesson_of(row, store)).fastest:
                    return replace(spec, lesson=learned), _sentence(row, spec)
        return replace(spec, lesson=None), ""
    row = store.load(name)
    learned = _lesson_of(row, store)
    if name == spec.name or not learned.fastest or not _tuned(row.spec) & _tuned(spec):
        raise UsageError(
            f"--learn-from {name}: it is this study, nothing was measured in it, or it tuned none"
            " of the knobs of this one",
            "name another study, or --learn-from none",
        )
    return replace(spec, lesson=learned), _sentence(row, spec)


def _lesson_of(row: StudyRow, store: Store) -> Lesson:
    return lesson(History.judged(row.spec, store.launches(row.name, detail=False)))


def _sentence(row: StudyRow, spec: StudySpec) -> str:
    program = "same" if _program(row.spec) == _program(spec) else "another"
    return f"starts from {row.name} ({program} program, {wording.ranks(row.spec.layout)})"


def _latest(spec: StudySpec, store: Store) -> Iterator[StudyRow]:
    """Yield the finished studies of the same program with a common knob, the newest first."""
    for row in store.studies()[:_LATEST]:
        was, now = row.spec.objective, spec.objective
        # of other figures than times nothing is known but their names
        is_same = was.clock == now.clock and (was == now or now.clock != "none")
        is_same = is_same and row.name != spec.name and row.state is StudyState.FINISHED
        if is_same and _program(row.spec) == _program(spec) and _tuned(row.spec) & _tuned(spec):
            yield row


def _program(spec: StudySpec) -> tuple[str, ...]:
    """Return what is run: a script in its folder, a module, else the words of the command.

    A program that is no script may be a shell or a wrapper: its words say what it runs.
    """
    script = script_of(spec.command)
    if script is not None:
        return (str(Path(spec.folder) / script),)
    if "-m" in spec.command[:-1]:
        return spec.command[: spec.command.index("-m") + 2]
    program, *words = spec.command
    if "/" in program:
        program = str(Path(spec.folder) / program)
    return (program, *(word for word in words if not _SETTING.fullmatch(word)))


def _tuned(spec: StudySpec) -> set[str]:
    fixed = spec.fixed.as_dict()
    return {k.name for k in spec.knobs if k.name not in fixed and len(space.values(k.domain)) > 1}


def lesson(history: History) -> Lesson:
    """Return the settings that were fastest in the search of a study; none if nothing worked."""
    groups = grouped(observations(history, history.searched)) if history.size > 0 else {}
    log_s = log_times({key: group for key, group in groups.items() if group.finished})
    fastest = sorted(log_s, key=lambda key: log_s[key])[:MOST_GUESSES]
    return Lesson(history.spec.name, tuple(as_setting(history, key) for key in fastest))
