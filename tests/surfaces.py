"""A small synthetic surface: a bowl with its best at 2 threads and 2 workers."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

from benchmarks.replay.surface import Surface, load
from tuner.model import Setting

THREADS = (1, 2, 4, 8)
WORKERS = (1, 2, 4)


def setting(threads: int, workers: int) -> Setting:
    """A point of the surface."""
    return Setting.of({"omp_threads": threads, "iterator_workers": workers})


def document(*, slope: float = 0.5, failing: int | None = None, sd: float = 0.02) -> dict[str, Any]:
    """A surface file.

    Args:
        slope: How much slower each octave away from the best is; 0 is flat.
        failing: From how many threads on points fail.
        sd: Spread of single runs.
    """
    rng = random.Random(5)
    points = []
    for threads in THREADS:
        for workers in WORKERS:
            setting = {"omp_threads": threads, "iterator_workers": workers}
            if failing is not None and threads >= failing:
                reason = {"fail_after_s": 2.0, "reason": "out of memory"}
                points.append({"setting": setting, "failed": True, "runs": [], **reason})
                continue
            away = abs(math.log2(threads / 2)) + abs(math.log2(workers / 2))
            middle_s = 10.0 * math.exp(slope * away)
            runs = [
                [round(3 + 0.1 * rng.random(), 3), 0.2, middle_s * math.exp(sd * rng.gauss(0, 1))]
                for _ in range(8)
            ]
            points.append({"setting": setting, "failed": False, "runs": runs, "truth_s": middle_s})
    return {
        "name": "bowl",
        "model": True,
        "machine": {"physical_cores": 8},
        "ranks": 2,
        "iterations": 100,
        "knobs": {"omp_threads": list(THREADS), "iterator_workers": list(WORKERS)},
        "default": {"omp_threads": 8, "iterator_workers": 4},
        "points": points,
        "run_columns": ["startup_s", "first_iteration_s", "elapsed_s"],
    }


def write(path: Path, made: dict[str, Any]) -> Path:
    """Put a surface into a file."""
    path.write_text(json.dumps(made))
    return path


def surface(folder: Path, **made: Any) -> Surface:
    """The surface of a document, read from a file in the folder."""
    return load(write(folder / "bowl.json", document(**made)))
