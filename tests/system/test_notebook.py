"""The example notebook, and what the guide to Python says, from beginning to end."""

from __future__ import annotations

import json
import os
import sys
from itertools import chain
from pathlib import Path

import pytest

from tests.guides import TRAIN, blocks
from tests.light_trainer import captured

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.system, pytest.mark.slow]


def environment(folder: Path) -> dict[str, str]:
    """A lock of its own, and this Python first on ``PATH``."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "TUNE_LOCK_DIR": str(folder)}


def test_the_example_notebook_ends_with_a_result_a_bar_and_a_plot(
    tmp_path: Path, extras: Path
) -> None:
    notebook = tmp_path / "notebook.ipynb"
    notebook.write_text((ROOT / "examples" / "notebook.ipynb").read_text())
    argv = [extras / "jupyter-execute", "--inplace", notebook]
    done = captured(argv, tmp_path, environment(tmp_path))
    assert done.returncode == 0, done.stderr
    cells = json.loads(notebook.read_text())["cells"]
    outputs = [output.get("data", {}) for cell in cells for output in cell.get("outputs", ())]
    assert {"application/vnd.jupyter.widget-view+json", "image/png"} <= {*chain(*outputs)}
    (html,) = ("".join(data["text/html"]) for data in outputs if "text/html" in data)
    assert "your defaults" in html
    assert (tmp_path / "job.sh").read_text().startswith("#!/bin/sh")


def test_the_pieces_of_the_guide_run_one_after_the_other(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "length").write_text("2")
    (tmp_path / "tune.toml").write_text(
        'command = "python train.py --out {out}"\n[knobs.omp_threads]\nrange = "1..2"\n'
    )
    code = "\n".join(blocks("docs/how-to/python.md", "python"))
    code = code.replace("mpi_procs=4", "mpi_procs=1, confirm='none'").replace(
        "trials=", "trials=1+0*"
    )
    code = code.replace("range(1, 9)", "range(1, 3)")
    done = captured([sys.executable, "-c", code], tmp_path, environment(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "<TuneResult train-n1: " in done.stdout
    assert (tmp_path / "job.sh").exists()
