"""Small studies as they lie in the database, for the tests of what shows them."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from tuner.model import (
    BASELINE,
    Choice,
    Effect,
    Ending,
    Env,
    Exclusion,
    ExclusionKind,
    Failed,
    FailureKind,
    Finished,
    Flag,
    IntRange,
    Knob,
    LauncherInfo,
    LaunchRecord,
    Layout,
    Machine,
    Outcome,
    Progress,
    Purpose,
    RankCount,
    Setting,
    SideBySide,
    Stopped,
    StudySpec,
    StudyState,
    Telemetry,
    Track,
    Value,
    Verdict,
    Window,
)
from tuner.results import exporters
from tuner.results.study_view import StudyView
from tuner.search.stopper import Noise
from tuner.study.findings import build, caps
from tuner.study.history import History

OMP = Knob("omp_threads", IntRange(1, 4), Env(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")))
WORKERS = Knob("iterator_workers", IntRange(1, 4), Flag())
COMMUNICATOR = Knob("communicator", Choice(("naive", "flat")), Flag("--communicator"))

MACHINE = Machine("node1", "Some CPU", 4, 4, 4, None, 1, 8 << 30)

SPEC = StudySpec(
    name="mnist",
    command=("python", "train.py", "--out", "{out}", "-j", "{iterator_workers}"),
    launcher=LauncherInfo("openmpi", "/opt/mpi/bin/mpirun", "5.0.11"),
    layout=Layout(2),
    machine=MACHINE,
    knobs=(OMP, WORKERS, COMMUNICATOR),
    left_out=(("opencv_threads", "the program does not load OpenCV"),),
    trials=8,
    compare="in-turn",
)

#: The formats that need no server.
FILES = [name for name, home in exporters.SHIPPED.items() if "tracking" not in home]

#: Of each launch.
ITERATIONS = 20

#: What a program may write in its last line: tags, a picture, links, code, and a colour.
HOSTILE = (
    "<script>alert(1)</script> <img src=http://evil.example/i> ![p](http://evil.example/p)"
    " [l](javascript:alert(1)) `c` **b** http://evil.example/b www.evil.example a@evil.example"
    " &lt;b&gt; \u202e \x1b[1m"
)


def setting(**values: Value) -> Setting:
    return Setting.of(values)


FAST = setting(omp_threads=1, iterator_workers=1, communicator="naive")
NEXT = setting(omp_threads=1, iterator_workers=2, communicator="naive")
SLOW = setting(omp_threads=4, iterator_workers=4, communicator="naive")
BROKEN = setting(omp_threads=1, iterator_workers=1, communicator="flat")

#: A launch: its purpose, its setting, and its time, ``None`` where it crashed.
Made = tuple[Purpose, Setting, float | Ending | None]


def record(number: int, chosen: Setting, elapsed_s: float | None, **changes: Any) -> LaunchRecord:
    """A launch that took ``elapsed_s``, or crashed where that is ``None``."""
    ending = (
        Failed(FailureKind.CRASHED, "rank 1 ended with status 1", "Traceback …\nValueError: x")
        if elapsed_s is None
        else Finished(elapsed_s, ITERATIONS)
    )
    effects = tuple(Effect(name, value, value, Verdict.HONOURED) for name, value in chosen.items)
    outcome = Outcome(
        ending, (elapsed_s or 1.0) + 0.5, 1 if elapsed_s is None else 0, (), effects=effects
    )
    base = LaunchRecord(
        number=number,
        purpose=Purpose.BASELINE if chosen.is_baseline else Purpose.SEARCH,
        setting=chosen,
        argv=("mpirun", "-n", "2", "python", "train.py"),
        env={},
        folder=f"/tmp/outputs/{number:04d}",
        started_at="2026-01-02T03:04:05+00:00",
        outcome=outcome,
        machine=MACHINE,
        trial=None if chosen.is_baseline else number - 2,
    )
    return dataclasses.replace(base, **changes)


def with_outcome(launch: LaunchRecord, **changes: Any) -> LaunchRecord:
    """The launch with another outcome."""
    return dataclasses.replace(launch, outcome=dataclasses.replace(launch.outcome, **changes))


def study(times: Mapping[Setting, float | None] | None = None, spec: StudySpec = SPEC) -> StudyView:
    """A launch for each of these times, not confirmed; by default the best is 2.31 times faster."""
    if times is None:
        times = {
            BASELINE: 8.316,
            FAST: 3.6,
            NEXT: 3.9,
            setting(omp_threads=2, iterator_workers=1, communicator="naive"): 7.1,
            BROKEN: None,
        }
    made: list[Made] = [
        (Purpose.BASELINE if chosen.is_baseline else Purpose.SEARCH, chosen, elapsed_s)
        for chosen, elapsed_s in times.items()
    ]
    worked = {chosen: elapsed_s for chosen, elapsed_s in times.items() if elapsed_s is not None}
    best = min(worked, key=lambda each: worked[each], default=None)
    data = launched(made, best, dataclasses.replace(spec, confirm="none"))
    return dataclasses.replace(data, spec=spec)


def capped_study() -> StudyView:
    """The defaults are the best, and what asked for more than 2 threads got 2."""
    asked = setting(omp_threads=4, iterator_workers=1, communicator="naive")
    data = study({BASELINE: 1.0, asked: 2.0})
    launch = data.records[-1]
    why = "the library runs no more than 2 here"
    effects = (Effect("omp_threads", 4, 2, Verdict.CAPPED, why), *launch.outcome.effects[:2])
    records = (*data.records[:-1], with_outcome(launch, effects=effects))
    judged = History.judged(data.spec, records)
    result = dataclasses.replace(data.result, caps=caps(judged.pooling, judged.records))
    return StudyView(data.spec, result, judged.records, judged.pooling)


def stopped(bound_s: float, projection_s: float | None = None) -> Stopped:
    """A launch that was stopped while racing; without a projection one that was cut."""
    if projection_s is None:
        return Stopped(bound_s, bound_s, bound_s, None, 0.5, "cut")
    return Stopped(bound_s, projection_s, projection_s * 0.8, projection_s * 1.2, 0.1, "drift")


def _launch(
    number: int, purpose: Purpose, chosen: Setting, came: float | Ending | None
) -> LaunchRecord:
    launch = record(number, chosen, came if isinstance(came, float) else None, purpose=purpose)
    if came is None or isinstance(came, float):
        return launch
    seen_s = came.bound_s if isinstance(came, Stopped) else getattr(came, "elapsed_s", 1.0)
    return with_outcome(launch, ending=came, wall_s=seen_s + 0.5, exit_code=0 if came else 1)


def launched(
    made: Sequence[Made],
    best: Setting | None = FAST,
    spec: StudySpec = SPEC,
    state: StudyState = StudyState.FINISHED,
) -> StudyView:
    """A study of these launches, its result worked out as ``tune`` does."""
    return of_records(
        [_launch(number, *each) for number, each in enumerate(made, start=1)], best, spec, state
    )


def of_records(
    records: Sequence[LaunchRecord],
    best: Setting | None = FAST,
    spec: StudySpec = SPEC,
    state: StudyState = StudyState.FINISHED,
) -> StudyView:
    """The same of records."""
    history = History.judged(spec, records)
    result = build(history, "sqlite:///studies/tune.db", state, "all was tried", best)
    return StudyView(spec, result, history.records, history.pooling)


def searched(defaults: float | Ending | None = 8.316, fast: float | Ending = 3.6) -> list[Made]:
    """A search: two guesses and the defaults, a setting that was stopped and one that crashed."""
    return [
        (Purpose.WARM_UP, FAST, 4.2),
        (Purpose.GUESS, FAST, fast),
        (Purpose.BASELINE, BASELINE, defaults),
        (Purpose.SEARCH, NEXT, 3.9),
        (Purpose.SEARCH, SLOW, stopped(4.1, 9.8)),
        (Purpose.SEARCH, BROKEN, None),
        (Purpose.REPEAT, FAST, fast),
    ]


def in_turn(defaults_s: float, fast_s: float, pairs: int) -> list[Made]:
    """The launches of a confirmation, both times a little different each time."""
    made: list[Made] = []
    for number in range(pairs):
        spread = 1 + 0.002 * number
        pair: list[Made] = [
            (Purpose.CONFIRM, BASELINE, defaults_s * spread),
            (Purpose.CONFIRM, FAST, fast_s / spread),
        ]
        made += reversed(pair) if number % 2 else pair
    return made


def cut_in_turn(cut_s: float, fast_s: float) -> list[Made]:
    """The same where the defaults are cut: four launches of the best, three of the defaults."""
    best: Made = (Purpose.CONFIRM, FAST, fast_s)
    return [best, *[(Purpose.CONFIRM, BASELINE, stopped(cut_s)), best] * 3]


#: A window of a job that another launch has started.
WINDOW = Window(3, ("omp_threads",), 0.0, 0.4, 2, 10, 0.18, 0.01, 9.0)


def side_by_side() -> StudyView:
    """The same as :func:`faster`, with three pairs side by side, in slices of half a second."""
    records = list(launched([*searched(), *in_turn(8.4, 3.6, 3)]).records)
    for first, second in ((7, 8), (9, 10), (11, 12)):
        pair = [records[first], records[second]]
        left_s, slices = [record.outcome.wall_s for record in pair], ([], [])  # type: ignore[var-annotated]
        begin_s, turns = 0.0, itertools.cycle((0, 1, 1, 0))
        while any(left_s):
            turn = next(turns)
            length_s = min(0.5, left_s[turn]) if left_s[1 - turn] else left_s[turn]
            if length_s:
                slices[turn].append((begin_s, begin_s + length_s))
            begin_s, left_s[turn] = begin_s + length_s, left_s[turn] - length_s
        for place, spans, other in ((first, slices[0], second), (second, slices[1], first)):
            together = SideBySide(other + 1, tuple(spans), (0, 2, *[0] * (len(spans) - 2)))
            records[place] = with_outcome(records[place], side_by_side=together)
    return of_records(records, spec=dataclasses.replace(SPEC, compare="auto"))


def in_window(launch: LaunchRecord, job: int = 3, **changes: Any) -> LaunchRecord:
    """The launch as a window of a running job, the one that starts it where the numbers agree."""
    started_s = 2.0 if launch.number == job else 0.0
    window = dataclasses.replace(WINDOW, job=job, started_s=started_s)
    ending = launch.outcome.ending
    if not isinstance(ending, Failed):  # on the scale of cold launches without a log
        figure_s = ending.elapsed_s if isinstance(ending, Finished) else ending.projection_s
        pace_s = figure_s / (ITERATIONS + Noise().warm_up_typical)
        window = dataclasses.replace(window, pace_s=pace_s)
    return with_outcome(launch, window=window, progress=(), **changes)


def measured_live() -> StudyView:
    """Searched in the windows of two running jobs, one for the defaults; proven by launches."""
    made: list[Made] = [
        (Purpose.WARM_UP, FAST, 4.2),
        (Purpose.GUESS, FAST, 3.6),
        (Purpose.SEARCH, NEXT, 3.9),
        (Purpose.SEARCH, SLOW, stopped(0.9, 9.8)),
        (Purpose.SEARCH, BROKEN, None),
        (Purpose.SEARCH, BROKEN, 4.4),
        (Purpose.REPEAT, FAST, 3.62),
        (Purpose.BASELINE, BASELINE, 8.316),
    ]
    jobs = {2: 2, 3: 2, 4: 2, 5: 2, 7: 7, 8: 8}
    data = launched([*made, *in_turn(8.3, 3.6, 6)])
    records = tuple(
        in_window(launch, jobs[launch.number]) if launch.number in jobs else launch
        for launch in data.records
    )
    why = "crashed: rank 1 ended with status 1; perhaps by the switch"
    broken = with_outcome(records[4], exclusion=Exclusion(ExclusionKind.OTHER_HOST, why))
    return of_records((*records[:4], broken, *records[5:]))


def faster() -> StudyView:
    """Proven: some 2.3 times faster, by six pairs."""
    return launched([*searched(), *in_turn(8.3, 3.6, 6)])


def at_least() -> StudyView:
    """Proven: at least 2.5 times faster; the defaults never came to their end."""
    return launched([*searched(stopped(13.5, 30.0)), *cut_in_turn(9.0, 3.6)])


def no_gain() -> StudyView:
    """Launched in turn, the best of the search is as fast as the defaults."""
    return launched([*searched(3.7), *in_turn(3.53, 3.6, 10)])


def inconclusive() -> StudyView:
    """Launched in turn, it cannot be told which of the two is faster."""
    made = in_turn(3.6, 3.6, 10)
    for number, (how, each, came) in enumerate(made):
        assert isinstance(came, float)
        made[number] = how, each, came * (1.1 if number % 4 == 0 else 1.0)
    return launched([*searched(3.7), *made])


def not_pursued() -> StudyView:
    """Beside the defaults, all that worked was stopped on its way."""
    made: list[Made] = [
        (how, each, stopped(3.1, 9.8) if each in {FAST, NEXT} else came)
        for how, each, came in searched(3.0)
        if how is not Purpose.REPEAT
    ]
    return launched(made)


def failing() -> StudyView:
    """The defaults crash, and the best has nothing to be compared with."""
    made = searched(None)
    made[1] = (Purpose.GUESS, NEXT, 4.7)
    made[3] = (Purpose.SEARCH, FAST, 3.6)
    return launched(made)


# --- for the report -------------------------------------------------------------------------


def watched(data: StudyView, *, gpu: bool = True) -> StudyView:
    """The same study, each launch with what a sampler saw: of pairs, nothing but a log."""
    return dataclasses.replace(data, records=tuple(_watched(r, gpu) for r in data.records))


def _watched(record: LaunchRecord, gpu: bool) -> LaunchRecord:
    """The launch with five samples a second; the first of them were not seen."""
    busy = 3.6 if record.setting.is_baseline else 2.0
    times_s = tuple(0.2 * number for number in range(1, int(5 * record.outcome.wall_s)))
    columns = {
        "user_cores": busy,
        "system_cores": 0.4,
        "steal_cores": 0.1,
        "runnable_threads": 2 * busy,
        "network_bytes_per_s": 4e6,
        **({"gpu_share": 0.9, "gpu_power_w": 300.0} if gpu else {}),
    }
    tracks = {
        name: tuple(None if n < 2 else high * math.sin(at) ** 2 for n, at in enumerate(times_s))
        for name, high in columns.items()
    }
    gaps = () if gpu else ("no GPU was seen: NVML is not installed",)
    seen = Telemetry((Track("node1", None, times_s, tracks),), gaps=gaps)
    telemetry = seen if record.outcome.side_by_side is None else None
    ending = record.outcome.ending
    log: tuple[Progress, ...] = ()
    if isinstance(ending, Finished):
        entries = range(4, 21, 4)
        log = tuple(Progress(n, ending.elapsed_s * n / 20) for n in entries)
    return with_outcome(record, telemetry=telemetry, progress=log)


def hostile() -> StudyView:
    """Every text that a study may bring is hostile."""
    values = (HOSTILE, "</script><script>alert(2)</script>", "<b>x</b>", "%{x}", "$x$")
    bad = "</title>\"'><img src=x onerror=alert(3)> {{ 7*7 }} {% raw %} <!-- \x00\x07\udcff"
    knobs = (
        Knob(f"k{bad}", Choice(values), Env(("A",))),
        Knob("other", IntRange(1, 3), Env(("B",))),
    )
    spec = dataclasses.replace(
        SPEC,
        name=bad,
        knobs=knobs,
        command=("python", bad, "{out}"),
        machine=dataclasses.replace(MACHINE, hostname=bad, cpu_model=HOSTILE, gpus=(bad,)),
        left_out=((bad, HOSTILE),),
        folder=bad,
    )
    made: list[Made] = [(Purpose.BASELINE, BASELINE, Failed(FailureKind.CRASHED, HOSTILE))]
    for n, (value, other) in enumerate(itertools.product(values, (1, 2))):
        pairs: list[tuple[str, Value]] = [(f"k{bad}", value), ("other", other)]
        made.append((Purpose.SEARCH, Setting.of(pairs), 1.0 + n))
    made.append((Purpose.SEARCH, setting(other=3), Failed(FailureKind.CRASHED, bad, HOSTILE)))
    best = made[1][1]
    data = watched(launched(made, best=best, spec=spec))
    return dataclasses.replace(data, result=dataclasses.replace(data.result, notes=(HOSTILE, bad)))


def hybrid(**changes: Any) -> StudyView:
    """Ranks against threads: of four ranks in the baseline two are left, with two threads each."""
    times: dict[tuple[int, int], float | Ending | None] = {
        (1, 1): stopped(4.1, 9.8),
        (1, 4): 3.4,
        (2, 2): 2.0,
        (2, 4): None,
        (4, 1): 2.6,
    }
    made: list[Made] = [
        (Purpose.SEARCH, setting(ranks=ranks, omp_threads=threads), came)
        for (ranks, threads), came in times.items()
    ]
    spec = dataclasses.replace(
        SPEC,
        knobs=(Knob("ranks", Choice((1, 2, 4)), RankCount(), default=4), OMP),
        command=("./solver", "-n{ranks}"),
        layout=Layout(4),
        confirm="none",
    )
    best = setting(ranks=2, omp_threads=2)
    made.insert(0, (Purpose.BASELINE, BASELINE, 5.2))
    return launched(made, best, dataclasses.replace(spec, **changes))


def everything() -> dict[str, StudyView]:
    """One study of each kind."""
    return {
        "faster": watched(faster()),
        "at_least": watched(at_least(), gpu=False),
        "side_by_side": watched(side_by_side()),
        "no_gain": no_gain(),
        "not_pursued": not_pursued(),
        "failing": failing(),
        "one": launched([(Purpose.GUESS, FAST, 3.6)]),
        "only_failures": launched(
            [(Purpose.BASELINE, BASELINE, None), (Purpose.GUESS, FAST, None)]
        ),
        "no_baseline": launched([(Purpose.GUESS, FAST, 3.6), (Purpose.SEARCH, NEXT, 4.0)]),
        "nothing": launched([], best=None),
        "hybrid": hybrid(),
        "hostile": hostile(),
    }
