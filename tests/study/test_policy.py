"""What comes next: a function of the launches so far, whoever asks and however often."""

from __future__ import annotations

import math
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import optuna
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.guides import blocks
from tests.study_surface import (
    CONFIRMED,
    CRASH,
    SPEC,
    FakeRunner,
    Killed,
    capped,
    nearly_flat,
    played,
    study_in,
)
from tuner.knobs.space import points
from tuner.model import BASELINE, Ending, Failed, Purpose, Setting, StudyState
from tuner.search import RuntimeTerminator
from tuner.study.events import LaunchEnded, LaunchStarted
from tuner.study.findings import build
from tuner.study.policy import SearchThenConfirm, Step, Stop

came = st.one_of(st.floats(0.2, 8.0), st.floats(0.9, 1.1), st.just(CRASH))


@settings(max_examples=5)
@example([CRASH] * 4 + [1.0] * 3 + [CRASH] + [1.0] * 5, 0.0, ("omp_threads", 1), 0)
@given(
    st.lists(came, min_size=13, max_size=13),
    st.floats(0.0, 0.3),
    st.sampled_from([(), ("omp_threads", 1), ("omp_threads", 2), ("iterator_workers", 2)]),
    st.integers(0, 99),
)
def test_every_study_ends_and_hands_over_something_that_worked(
    times: list[float | Failed], spread: float, cap: tuple[str, int] | tuple[()], seed: int
) -> None:
    rng = Random(seed)
    everything = [BASELINE, *points(SPEC.knobs)]
    typical = dict(zip(everything, times, strict=True))

    def time_s(setting: Setting) -> float | Ending:
        value = typical.get(setting, 1.0)
        if rng.random() < spread / 3:
            return CRASH
        return value if isinstance(value, Failed) else value * math.exp(rng.gauss(0, spread))

    effects = capped(*cap) if cap else lambda _: ()
    history = played(replace(CONFIRMED, trials=8), time_s, effects=effects)
    policy = SearchThenConfirm()
    stop = policy.next(history)
    assert isinstance(stop, Stop)
    found = build(history, "tune.db", StudyState.FINISHED, stop.reason, policy.best(history))
    if found.best is not None:
        assert found.conclusion is not None and found.export is not None
        worked = {r.canonical for r in history.records if r.outcome.samples}
        stopped = found.baseline is not None and found.baseline.stopped is not None
        handed_over = history.pooling.canonical(found.export)
        assert handed_over in worked or (stopped and found.export == BASELINE)
    for length, made in enumerate(history.records):
        step = SearchThenConfirm().next(history.with_records(history.records[:length]))
        assert isinstance(step, Step)
        assert (step.purpose, step.setting) == (made.purpose, made.setting)


# --- decided again from the database, with the documented snippet --------------------------

(SNIPPET,) = (code for code in blocks("docs/how-to/optuna.md", "python") if "NAME" in code)

STUDY = replace(SPEC, trials=3, confirm="auto", until=0.001)


def decided_again(folder: Path) -> tuple[bool, dict[str, Any]]:
    """Whether the search is over, and the setting that is next, by the database as it is."""
    copy = folder / "copy.db"
    with (
        closing(sqlite3.connect(folder / "tune.db")) as database,
        closing(sqlite3.connect(copy)) as connection,
    ):
        database.backup(connection)
    code = SNIPPET.replace("NAME", SPEC.name).replace("copy.db", str(copy))
    answers: list[dict[str, Any]] = []
    names: dict[str, Any] = {"answer": answers.append}
    exec(code.replace("print", "answer"), names)
    study: optuna.Study = names["study"]
    study.tell(study.trials[-1].number, state=optuna.trial.TrialState.FAIL)
    is_over = RuntimeTerminator(study.sampler).should_terminate(study)  # type: ignore[arg-type]
    return is_over, answers[0]


def test_after_each_launch_anyone_gets_the_setting_that_comes_next_of_a_killed_study_too(
    tmp_path: Path,
) -> None:
    decided, compared = list[tuple[bool, dict[str, Any]]](), list[int]()

    def witness(event: Any) -> None:
        """Decide again after each launch, and hold that against the launch that comes then."""
        if isinstance(event, LaunchEnded):
            decided.append(decided_again(tmp_path))
        is_next = isinstance(event, LaunchStarted) and event.purpose is not Purpose.WARM_UP
        if is_next and decided:
            is_over, params = decided[-1]
            assert is_over == (event.purpose is Purpose.CONFIRM)
            assert is_over or params == event.setting.as_dict(), event.purpose
            compared.append(event.number)

    def kill(launches: int) -> None:
        if launches == 3:
            raise Killed

    with pytest.raises(Killed):
        study_in(tmp_path, FakeRunner(nearly_flat, before=kill), STUDY, on_event=witness)
    study_in(tmp_path, FakeRunner(nearly_flat), STUDY, on_event=witness)
    assert len(compared) >= 6
