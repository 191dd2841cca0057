"""What a study learns from an earlier one in the same database, once and for all when it begins."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from tuner.config.program import script_of
from tuner.knobs import space
from tuner.model import Lesson, Shown, StudySpec, StudyState, wording
from tuner.model.errors import UsageError
from tuner.search.history import grouped
from tuner.search.space import Grid
from tuner.store.rows import StudyRow
from tuner.store.store import Store
from tuner.study.history import History
from tuner.study.observations import as_setting, observations, search_space

AUTO, NONE = "auto", "none"

_ANOTHER = "name another study, or --learn-from none"

#: So many of the latest studies are looked at for one of the same program.
_LATEST = 50

_PLACEHOLDER = re.compile(r"\{\w+\}")

#: A word that says how much or how, not what: an option, a number, or nothing.
_SETTING = re.compile(r"-.*|[\d.]*")


def with_lesson(spec: StudySpec, store: Store, *, fresh: bool = False) -> tuple[StudySpec, str]:
    """Return the spec with its lesson, and a sentence on that if it is new.

    A stored study keeps the lesson that it began with, as long as it is to learn from the same.

    Args:
        spec: The study that begins, or goes on.
        store: Where the earlier studies are.
        fresh: What is stored of this study does not count.

    Raises:
        UsageError: The study that is named is not there, or has nothing to teach.
    """
    name, stored = spec.learn_from, None if fresh else store.find(spec.name)
    if stored is not None and stored.spec.learn_from == name:
        return replace(spec, lesson=stored.spec.lesson), ""
    if name == NONE:
        return replace(spec, lesson=None), ""
    for row in _latest(spec, store) if name == AUTO else [_named(name, spec, store)]:
        try:
            records = store.launches(row.name, detail=False)
        except UsageError:  # what cannot be read teaches nothing
            if name != AUTO:
                raise
            continue
        learned = lesson(History.judged(row.spec, records))
        if learned.shown:
            program = "same" if _program(row.spec) == _program(spec) else "another"
            ranks = wording.ranks(row.spec.layout)
            text = f"starts from {row.name} ({program} program, {ranks})"
            return replace(spec, lesson=learned), text
        if name != AUTO:
            raise UsageError(f"--learn-from {name}: nothing was measured in it", _ANOTHER)
    return replace(spec, lesson=None), ""


def _named(name: str, spec: StudySpec, store: Store) -> StudyRow:
    """Return the study of that name, if it can teach this one anything."""
    row = store.load(name)
    if name == spec.name:
        raise UsageError(f"--learn-from {name}: a study cannot learn from itself", _ANOTHER)
    if not _tuned(row.spec) & _tuned(spec):
        raise UsageError(f"--learn-from {name}: it tuned none of the knobs of this study", _ANOTHER)
    return row


def _latest(spec: StudySpec, store: Store) -> Iterator[StudyRow]:
    """Yield the finished studies of the same program with a common knob, the newest first."""
    with suppress(UsageError):  # what cannot be read teaches nothing
        for row in store.studies()[:_LATEST]:
            was, now = row.spec.objective, spec.objective
            # of other figures than times nothing is known but their names
            is_same = was.clock == now.clock and (was == now or now.clock != "none")
            is_same = is_same and row.name != spec.name and row.state is StudyState.FINISHED
            if is_same and _program(row.spec) == _program(spec) and _tuned(row.spec) & _tuned(spec):
                yield row


def _program(spec: StudySpec) -> tuple[str, ...]:
    """Return what is run: a script in its folder, or a module; else every word of the command.

    A program that is no script may be a shell or a wrapper: its words say what it runs. Options,
    numbers and what takes the place of a knob are left out.
    """
    script = script_of(spec.command)
    if script is not None:
        return (str(Path(spec.folder) / script),)
    if "-m" in spec.command[:-1]:
        return spec.command[: spec.command.index("-m") + 2]
    program, *words = (_PLACEHOLDER.sub("", word) for word in spec.command)
    if "/" in program:
        program = str(Path(spec.folder) / program)
    return (program, *(word for word in words if not _SETTING.fullmatch(word)))


def _tuned(spec: StudySpec) -> set[str]:
    fixed = spec.fixed.as_dict()
    return {k.name for k in spec.knobs if k.name not in fixed and len(space.values(k.domain)) > 1}


def lesson(history: History) -> Lesson:
    """Return what the search of a study showed of each setting; nothing if nothing worked."""
    groups = grouped(observations(history, history.searched)) if history.size > 0 else {}
    estimates = {key: group.estimate() for key, group in groups.items()}
    finished = [estimate for key, estimate in estimates.items() if groups[key].finished]
    best_log_s = min((estimate[0] for estimate in finished if estimate), default=None)
    if best_log_s is None:
        return Lesson(history.spec.name, ())
    grid = Grid(search_space(history))
    shown = []
    for key, estimate in estimates.items():
        setting = as_setting(history, key)
        if estimate is None:
            shown.append(Shown(setting, None, is_bound=groups[key].is_bound))
            continue
        log_s, _, extra_var = estimate
        demand = float(grid.demand(grid.rows([key]))[0])
        shown.append(Shown(setting, log_s - best_log_s, extra_var**0.5, demand))
    return Lesson(history.spec.name, tuple(shown))
