"""Surfaces: how they are read, and what is said of a file that is none."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.replay.surface_file import load
from tests.surfaces import document, setting, surface, write
from tuner.model.errors import UsageError

Change = Callable[[dict[str, Any]], object]


def test_a_surface_is_read(tmp_path: Path) -> None:
    loaded = surface(tmp_path, failing=8)
    assert (loaded.name, loaded.ranks, loaded.cores, loaded.iterations) == ("bowl", 2, 8, 100)
    assert loaded.default == (8, 4)
    assert loaded.best == (2, 2)
    assert loaded.points[(8, 1)].reason == "out of memory"
    assert loaded.regret(setting(2, 2)) == 0
    assert loaded.regret(setting(4, 2)) == pytest.approx(math.exp(0.5) - 1)
    assert math.isinf(loaded.regret(setting(8, 1)))
    assert math.isinf(loaded.regret(None))
    assert 12.5 < loaded.unit_s < 13.7


def first(made: dict[str, Any]) -> Any:
    return made["points"][0]


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (lambda d: d.pop("ranks"), "ranks is missing"),
        (lambda d: d.update(name=""), "name: must be a text"),
        (lambda d: d["knobs"].update(omp_threads=[1, 1]), "knobs.omp_threads: names a value twice"),
        (lambda d: d["default"].update(omp_threads=5), "default.omp_threads: 5 is not among"),
        (lambda d: d["points"].pop(), "points: 11 of the 12 settings"),
        (lambda d: d["points"].append(first(d)), "points[12].setting: is the setting of an"),
        (lambda d: first(d)["runs"].append([1, 0, -2]), "points[0].runs[8] (elapsed_s): must be"),
        (lambda d: d.update(run_columns=["elapsed_s"]), "run_columns: must be startup_s"),
        (
            lambda d: [p.update(failed=True, fail_after_s=1.0) for p in d["points"]],
            "points: every point fails",
        ),
    ],
)
def test_each_mistake_is_one_error_that_names_the_place(
    tmp_path: Path, change: Change, place: str
) -> None:
    made = document()
    change(made)
    with pytest.raises(UsageError) as caught:
        load(write(tmp_path / "wrong.json", made))
    assert place in caught.value.message
    assert "wrong.json" in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '"text"'])
def test_what_is_no_surface_is_one_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "wrong.json").write_text(text)
    with pytest.raises(UsageError, match=r"wrong\.json"):
        load(tmp_path / "wrong.json")
