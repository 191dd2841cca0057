"""One launch of a trainer under the real mpirun."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tuner.hosts import machine
from tuner.launch import launchers, render, trial
from tuner.model import Layout, Outcome, Progress, Setting, StudySpec


def run_trainer(
    folder: Path,
    code: str,
    *words: str,
    ranks: int,
    on_progress: Callable[[Progress], None] | None = None,
    **limits: Any,
) -> Outcome:
    """Run Python code, which finds its output folder and the words in ``sys.argv``.

    What is kept of the launch is in ``trial`` below the folder.
    """
    script = folder / "train.py"
    script.write_text(code)
    spec = StudySpec(
        name="test",
        command=(sys.executable, str(script), "{out}", *words),
        launcher=launchers.find(None, environ=os.environ),
        layout=Layout(ranks),
        machine=machine.this_machine(),
        knobs=(),
        **limits,
    )
    setting = Setting.of({})
    launch = render.launch(
        *(spec, setting, folder / "trial"), environ=os.environ, cwd=folder, marker=uuid.uuid4().hex
    )
    return trial.run(
        launch, spec=spec, setting=setting, expected_iterations=None, on_progress=on_progress
    )
