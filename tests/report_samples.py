"""Studies for the report: with what a sampler saw, with many knobs, with hostile texts."""

from __future__ import annotations

import dataclasses
import itertools
import math
import random

from tests import study_samples as samples
from tests.study_samples import FAST, HOSTILE, MACHINE, SPEC, launched, setting
from tuner.model import (
    BASELINE,
    Choice,
    Ending,
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


def large(count: int = 2000, knobs: int = 10) -> StudyView:
    """A long search over many knobs, with stopped and failed launches, and its confirmation."""
    rng = random.Random(5)
    domains = [
        Knob(
            f"knob_{n}",
            IntRange(1, 4 + n) if n % 3 else Choice(("none", "core", "socket")),
            Env((f"K{n}",)),
        )
        for n in range(knobs)
    ]
    spec = dataclasses.replace(SPEC, name="large", knobs=tuple(domains), trials=count)
    made: list[samples.Made] = [(Purpose.BASELINE, BASELINE, 9.0)]
    fast, fast_s = BASELINE, 9.0
    for _ in range(count):
        chosen = Setting.of(
            {
                k.name: rng.choice(k.domain.values)
                if isinstance(k.domain, Choice)
                else rng.randint(1, int(k.domain.high))
                for k in domains
            }
        )
        numbers = [v for _, v in chosen.items if isinstance(v, int)]
        time_s = 2.0 + 0.4 * abs(numbers[0] - 3) + 0.1 * sum(numbers[1:]) * rng.uniform(0.95, 1.05)
        made.append((Purpose.SEARCH, chosen, _came(rng, time_s)))
        if time_s < fast_s and isinstance(made[-1][2], float):
            fast, fast_s = chosen, time_s
    for number in range(6):
        made += [(Purpose.CONFIRM, BASELINE, 9.0 + 0.01 * number), (Purpose.CONFIRM, fast, fast_s)]
    return launched(made, best=fast, spec=spec)


def _came(rng: random.Random, time_s: float) -> float | Ending | None:
    drawn = rng.random()
    if drawn < 0.04:
        return Failed(rng.choice(list(FailureKind)[:5]), "rank 1 ended with status 1")
    if drawn < 0.5:
        return samples.stopped(0.4 * time_s, 1.5 * time_s if drawn < 0.4 else None)
    return time_s


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
