"""How a study's figure is read: the command line's objective, else the study file's."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tuner.config.spec.options import RunOptions
from tuner.launch.objectives import Objective, objective_for, with_argument
from tuner.model import ObjectiveSpec
from tuner.model.errors import UsageError

if TYPE_CHECKING:
    from tuner.config.study_file import StudyFile


def objective(options: RunOptions, file: StudyFile) -> tuple[ObjectiveSpec, Objective]:
    """What is asked for, and what reads it.

    An objective that was typed takes the place of the file's, with its key, pattern and unit;
    the file's kind without an argument stays as the file has it.

    Raises:
        UsageError: There is no such objective, or it cannot do what is asked for: that is said
            here, and not at the first launch.
    """
    filed = file.objective.spec()
    spec = filed
    typed = options.objective
    if typed is not None and typed != filed.kind:
        spec = with_argument(ObjectiveSpec(loss_key=filed.loss_key), typed)
        if spec.kind == filed.kind:
            spec = replace(spec, filename=filed.filename)
    if options.log is not None and spec.kind == "wall":
        raise UsageError(f"--log {options.log}: the objective wall reads no log.", "Leave it out.")
    spec = replace(
        spec,
        filename=spec.filename if options.log is None else options.log,
        unit=spec.unit if options.unit is None else options.unit,
        maximize=spec.maximize or bool(options.maximize),
    )
    return spec, objective_for(spec)
