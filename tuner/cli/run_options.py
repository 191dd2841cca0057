"""What was asked for, as a study."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tuner.config.spec import RunOptions
    from tuner.model import StudySpec


def spec_of(given: dict[str, Any], words: tuple[str, ...] | None) -> StudySpec:
    """What was typed, and the study file, as a spec."""
    from tuner.cli import console
    from tuner.config import study_file
    from tuner.model.errors import UsageError

    if words == ():
        raise UsageError("there is no program after `--`", "tune -- python train.py --out {out}")
    file, source = study_file.find_study_file(
        given["study_file"], cwd=Path.cwd(), has_command=words is not None
    )
    if source == study_file.LOCAL_NAME and given["study_file"] is None:
        console.err(f"tune: using ./{source} (another: --study FILE)")
    return study_file.build_spec(
        file=file,
        source=source,
        command=words,
        options=_run_options(given),
        environ=os.environ,
        cwd=Path.cwd(),
    )


def _run_options(given: dict[str, Any]) -> RunOptions:
    """The options by their own names; ``benchmarks.record`` has not all of them."""
    from tuner.config.spec import RunOptions

    return RunOptions(
        ranks=given["ranks"],
        trials=given.get("trials"),
        knobs=given["knobs"],
        all_knobs=given["all_knobs"],
        fixes=given["fixes"],
        defaults=given["defaults"],
        name=given["name"],
        mpirun=given["mpirun"],
        launcher=given["launcher"],
        mpirun_args=given["mpirun_args"],
        seed=given["seed"],
        trial_limit_s=given["trial_limit"],
        stall_limit_s=given["stall_limit"],
        budget_s=given.get("budget"),
        until=given.get("until"),
        precision=given.get("precision"),
        oversubscribe=given.get("oversubscribe"),
        confirm=given.get("confirm"),
        warm_ups=given["warm_ups"],
        live=given.get("live"),
        objective=given["objective"],
        log=given["log"],
        unit=given["unit"],
        maximize=given["maximize"],
        items=given["items"],
        price_per_hour=given["price_per_hour"],
    )
