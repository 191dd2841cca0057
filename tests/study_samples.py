"""Small studies as they lie in the database, for the tests of what shows them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from tuner import stats
from tuner.exporters import ExportInput
from tuner.model import (
    BASELINE,
    Choice,
    Effect,
    Env,
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
    Purpose,
    Result,
    Setting,
    StudySpec,
    StudyState,
    Value,
    Verdict,
)
from tuner.pooling import Pooling
from tuner.study.findings import caps

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
)


def setting(**values: Value) -> Setting:
    return Setting.of(values)


def record(number: int, chosen: Setting, elapsed_s: float | None, **changes: Any) -> LaunchRecord:
    """A launch that took ``elapsed_s``, or crashed where that is ``None``."""
    ending = (
        Failed(FailureKind.CRASHED, "rank 1 ended with status 1", "Traceback …\nValueError: x")
        if elapsed_s is None
        else Finished(elapsed_s, 20)
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


def study(
    times: Mapping[Setting, float | None] | None = None,
    spec: StudySpec = SPEC,
    env: Mapping[str, str] | None = None,
) -> ExportInput:
    """A finished study of these times; by default the best is 2.31 times faster."""
    if times is None:
        times = {
            BASELINE: 8.316,
            setting(omp_threads=1, iterator_workers=1, communicator="naive"): 3.6,
            setting(omp_threads=1, iterator_workers=2, communicator="naive"): 3.9,
            setting(omp_threads=2, iterator_workers=1, communicator="naive"): 7.1,
            setting(omp_threads=1, iterator_workers=1, communicator="flat"): None,
        }
    records = tuple(
        record(number, chosen, elapsed_s, env=dict(env or {}))
        for number, (chosen, elapsed_s) in enumerate(times.items(), start=1)
    )
    pooling = Pooling.from_records(spec, records)
    found = stats.measurements(records, pooling.canonical)
    baseline = next((m for m in found if m.setting.is_baseline), None)
    reference = baseline if baseline and baseline.elapsed_s is not None else None
    if reference is None:
        reference = next((m for m in found if m.elapsed_s is not None), None)
    result = Result(
        study=spec.name,
        storage="studies/tune.db",
        state=StudyState.FINISHED,
        reason="8 settings were tried",
        best=stats.best(found),
        baseline=baseline,
        reference=reference,
        trials=stats.trials(records),
        launches=len(records),
        failures=stats.failures(records),
        settings_failed=sum(m.elapsed_s is None and not m.setting.is_baseline for m in found),
        launches_measured=sum(bool(record.outcome.samples) for record in records),
        caps=caps(pooling, records),
    )
    return ExportInput(spec, result, records, pooling)


def capped_study() -> ExportInput:
    """The defaults are the best, and what asked for more than 2 threads got 2."""
    asked = setting(omp_threads=4, iterator_workers=1, communicator="naive")
    data = study({BASELINE: 1.0, asked: 2.0})
    launch = data.records[-1]
    why = "the library runs no more than 2 here"
    effects = (Effect("omp_threads", 4, 2, Verdict.CAPPED, why), *launch.outcome.effects[:2])
    outcome = dataclasses.replace(launch.outcome, effects=effects)
    records = (*data.records[:-1], dataclasses.replace(launch, outcome=outcome))
    pooling = Pooling.from_records(data.spec, records)
    result = dataclasses.replace(data.result, caps=caps(pooling, records))
    return dataclasses.replace(data, records=records, pooling=pooling, result=result)
