"""A study of 2,000 stored trials: is the tool still quick?

    python -m benchmarks.many_trials

Makes such a study of a synthetic surface (no MPI runs), then times the next suggestion of a study
that runs, and `tune studies` and `tune show` with everything included.
Prints the median of five runs beside `python -c pass` and the target of one second.
"""

from __future__ import annotations

import os
import random
import statistics
import sys
import tempfile
import time
from dataclasses import replace

from benchmarks.timing import seconds
from tests import study_surface
from tests.study_surface import CONFIRMED
from tuner.knobs import space
from tuner.model import (
    BASELINE,
    HOST_COLUMNS,
    RANK_COLUMNS,
    Effect,
    Finished,
    Flag,
    IntRange,
    Knob,
    LaunchRecord,
    Layout,
    Machine,
    Observation,
    Outcome,
    Progress,
    Purpose,
    RankView,
    Setting,
    StudyState,
    Telemetry,
    Track,
    Verdict,
)
from tuner.store.store import Store
from tuner.store.urls import resolve_url
from tuner.study.findings import build, summary
from tuner.study.history import History
from tuner.study.optuna_study import OptunaStudy
from tuner.study.policy import SearchThenConfirm, Step
from tuner.study.running_trial import RunningTrial

TARGET_S, RUNS, RANKS = 1.0, 5, 8

SPEC = replace(
    CONFIRMED,
    name="many",
    layout=Layout(RANKS),
    machine=Machine("node1", "Some CPU", 64, 64, 64, None, 2, 64 << 30),
    knobs=(
        Knob("omp_threads", IntRange(1, 64), Flag("-t")),
        Knob("iterator_workers", IntRange(1, 64), Flag("-j")),
        Knob("batch", IntRange(1, 16), Flag("-b")),
    ),
    trials=2000,
)

#: As of a launch of 20 s that was looked at twice a second.
TIMES_S = tuple(each / 2 for each in range(1, 41))
TELEMETRY = Telemetry(
    tuple(
        Track("node1", rank, TIMES_S, dict.fromkeys(columns, TIMES_S))
        for rank, columns in ((None, HOST_COLUMNS), *((n, RANK_COLUMNS) for n in range(RANKS)))
    )
)


def record(number: int, purpose: Purpose, setting: Setting, noise: random.Random) -> LaunchRecord:
    """A launch as large as a real one: 20 log entries, 8 ranks seen and recorded."""
    chosen = {name: int(value) for name, value in setting.items}
    distance = abs(chosen.get("omp_threads", 64) - 7) + abs(chosen.get("iterator_workers", 64) - 3)
    elapsed_s = (2 + distance / 8) * noise.uniform(0.97, 1.03)
    steps = tuple(Progress(5 * i, elapsed_s * i / 20, 3 + elapsed_s * i / 20) for i in range(1, 21))
    ranks = tuple(
        RankView(rank, 9, 2, (0, 1, 2, 3), blas_threads=1, world_size=RANKS)
        for rank in range(RANKS)
    )
    effects = tuple(Effect(name, value, value, Verdict.HONOURED) for name, value in setting.items)
    ending, view = Finished(elapsed_s, 100), Observation(ranks)
    outcome = Outcome(ending, elapsed_s + 1, 0, steps, view, effects, telemetry=TELEMETRY)
    launch = study_surface.record(number, setting, purpose, outcome)
    argv = ("mpirun", "-n", str(RANKS), "task_wrapper.sh", "--", "train", "--out", "out")
    folder, env = f"/many/{number:04d}", {"OMP_NUM_THREADS": "1"}
    return replace(launch, argv=argv, env=env, folder=folder, machine=SPEC.machine)


def make(url: str) -> None:
    """Write the study into the database."""
    noise = random.Random(1)
    guesses = space.guesses(SPEC)  # so that what comes next is of the search
    others = noise.sample(list(space.points(SPEC.knobs)), SPEC.trials)
    points = list(dict.fromkeys([*guesses, *others]))[: SPEC.trials]
    records = [
        record(1, Purpose.BASELINE, BASELINE, noise),
        *(record(n, Purpose.SEARCH, point, noise) for n, point in enumerate(points, start=2)),
    ]
    with Store.open(url, create=True) as store:
        store.create(SPEC)
        study = OptunaStudy(store, SPEC, SearchThenConfirm())
        study.take_up(History.judged(SPEC, records), records)
        history = study.history()
        best = SearchThenConfirm().best(history)
        result = build(history, store.url, StudyState.FINISHED, "made", best)
        store.set_summary(SPEC.name, summary(result))
        store.set_state(SPEC.name, StudyState.FINISHED, "made")


def suggestion_s(url: str) -> float:
    """The time from the end of a launch to the beginning of the next one, s."""
    with Store.open(url, create=True) as store:
        spec = replace(store.load(SPEC.name).spec, trials=10**6, until=1e-6)
        policy = SearchThenConfirm()
        study = OptunaStudy(store, spec, policy)
        study.take_up(History.judged(spec, store.launches(SPEC.name, detail=False)))
        running, noise = _next_trial(study, policy), random.Random(2)
        launch = record(running.launch, running.step.purpose, running.step.setting, noise)
        start_s = time.perf_counter()
        study.tell(running, launch)
        running = _next_trial(study, policy)
        took_s = time.perf_counter() - start_s
        study.fail(running.trial, "it was only asked for")
    return took_s


def _next_trial(study: OptunaStudy, policy: SearchThenConfirm) -> RunningTrial:
    history = study.history()
    step = policy.next(history)
    if not isinstance(step, Step):
        raise SystemExit(f"nothing to suggest: {step.reason}")
    running = study.ask(history, step)
    assert running is not None
    assert running.step.purpose is not Purpose.GUESS
    return running


def timed(*code_and_words: str, url: str) -> float:
    """The median time of a Python program on the database, s."""
    argv, environ = [sys.executable, "-c", *code_and_words], {**os.environ, "TUNE_STORAGE": url}
    return statistics.median(seconds(argv, environ) for _ in range(RUNS))


def main() -> int:
    """Make the study, time what asks it, and print a table; 1 if the target is missed."""
    tune = "from tuner.cli.main import main; main()"
    with tempfile.TemporaryDirectory() as folder:
        url = resolve_url(f"{folder}/many.db", {})
        make(url)
        bare_s = timed("pass", url=url)
        times_s = {
            "next suggestion": statistics.median(suggestion_s(url) for _ in range(RUNS)),
            "tune studies": timed(tune, "studies", url=url),
            "tune show": timed(tune, "show", SPEC.name, url=url),
        }
    count = f"{SPEC.trials} stored trials, median of {RUNS} runs"
    print(f"{count}, `python -c pass` {bare_s:.3f} s")
    for name, time_s in times_s.items():
        verdict = "ok" if time_s <= TARGET_S else "OVER"
        ratio = time_s / bare_s
        print(f"{name:16} {time_s:6.2f} s {ratio:6.1f} times bare  {verdict} ({TARGET_S:g} s)")
    return int(max(times_s.values()) > TARGET_S)


if __name__ == "__main__":
    raise SystemExit(main())
