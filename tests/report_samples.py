"""Studies for the report: with what a sampler saw, with many knobs, with hostile texts."""

from __future__ import annotations

import dataclasses
import itertools
import math

from tests import study_samples as samples
from tests.study_samples import FAST, HOSTILE, MACHINE, SPEC, launched, setting
from tuner.model import (
    BASELINE,
    Choice,
    Env,
    Failed,
    FailureKind,
    Finished,
    IntRange,
    Knob,
    LaunchRecord,
    Progress,
    Purpose,
    Setting,
    Telemetry,
    Track,
    Value,
)
from tuner.results.study_view import StudyView


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
    outcome = dataclasses.replace(record.outcome, telemetry=telemetry, progress=log)
    return dataclasses.replace(record, outcome=outcome)


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
    made: list[samples.Made] = [(Purpose.BASELINE, BASELINE, Failed(FailureKind.CRASHED, HOSTILE))]
    for n, (value, other) in enumerate(itertools.product(values, (1, 2))):
        pairs: list[tuple[str, Value]] = [(f"k{bad}", value), ("other", other)]
        made.append((Purpose.SEARCH, Setting.of(pairs), 1.0 + n))
    made.append((Purpose.SEARCH, setting(other=3), Failed(FailureKind.CRASHED, bad, HOSTILE)))
    best = made[1][1]
    data = watched(launched(made, best=best, spec=spec))
    return dataclasses.replace(data, result=dataclasses.replace(data.result, notes=(HOSTILE, bad)))


def everything() -> dict[str, StudyView]:
    """One study of each kind."""
    return {
        "faster": watched(samples.faster()),
        "at_least": watched(samples.at_least(), gpu=False),
        "side_by_side": watched(samples.side_by_side()),
        "no_gain": samples.no_gain(),
        "not_pursued": samples.not_pursued(),
        "failing": samples.failing(),
        "one": launched([(Purpose.GUESS, FAST, 3.6)]),
        "only_failures": launched(
            [(Purpose.BASELINE, BASELINE, None), (Purpose.GUESS, FAST, None)]
        ),
        "no_baseline": launched([(Purpose.GUESS, FAST, 3.6), (Purpose.SEARCH, samples.NEXT, 4.0)]),
        "nothing": launched([], best=None),
        "hostile": hostile(),
    }
