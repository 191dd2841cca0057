"""The script that tunes real programs: what is missing, and the table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.programs import catalogue, table
from benchmarks.programs.catalogue import PROGRAMS
from benchmarks.programs.inputs import Checkouts
from tuner.launch import command

BY_NAME = {program.study: program for program in PROGRAMS}


def document(**result: Any) -> dict[str, Any]:
    found = {
        "trials": 20,
        "launches": 45,
        "baseline": {"elapsed_s": None, "figure": 2.0, "stopped": None},
        "best": {"elapsed_s": None, "figure": 4.0, "stopped": None},
        "verdict": "faster",
        "finding": {"ratio": 2.0, "low": 1.9, "high": 2.1},
        "export": {"omp_threads": 1, "bind_to": "core"},
    }
    objective = {"kind": "pattern", "pattern": "(.)", "unit": "steps/s", "maximize": True}
    study = {"layout": {"ranks": 2}, "objective": objective}
    return {"study": study, "result": found | result}


STOPPED = {"bound_s": 0.1, "projection_s": 0.25, "low_s": 0.2, "high_s": 0.3, "log_sd": 0.1,
           "rule": "drift"}  # fmt: skip
EXPLAINED = {
    "runs": [
        {"name": "best", "sentence": "bound by compute, 90 % of the time (clear)"},
        {"name": "baseline", "sentence": "held back by the loader (a.py:7 next), 60 % of the time"},
    ]
}


def test_a_line_of_the_table() -> None:
    assert table.row("A program", document(), EXPLAINED) == (
        "A program",
        "2",
        "20, 45",
        "2 steps/s",
        "4 steps/s",
        "2.00 (1.90 to 2.10)",
        "omp_threads=1 bind_to=core",
        "the loader (a.py:7 next), 60 % → bound by compute, 90 %",
    )


@pytest.mark.parametrize(
    ("changed", "cell"),
    [
        ({"finding": {"ratio": 3.0, "low": 2.5, "high": None}}, "at least 2.50"),
        ({"verdict": "no gain worth having"}, "2.00 (1.90 to 2.10): no gain worth having"),
        ({"verdict": "baseline fails", "finding": None}, "baseline fails"),
        ({"verdict": None, "finding": None}, "not confirmed"),
        ({"baseline": {"figure": None, "stopped": STOPPED}}, "~4 steps/s"),
        ({"baseline": {"figure": None, "stopped": None}}, "failed"),
        ({"baseline": None}, "not measured"),
        ({"export": {}}, "baseline"),
        ({"export": None}, "none yet"),
    ],
)
def test_what_there_is_instead(changed: dict[str, Any], cell: str) -> None:
    assert cell in table.row("A program", document(**changed), EXPLAINED)


def test_every_study_ships_with_the_tool() -> None:
    shipped = {path.stem for path in command.shipped_dir("studies").glob("*.toml")}
    assert BY_NAME.keys() <= shipped
    assert len(BY_NAME) == len(PROGRAMS)


def test_an_example_wants_a_checkout_and_an_interpreter(tmp_path: Path) -> None:
    example = BY_NAME["dlrm_example"]
    checkout, interpreter = catalogue.missing(example, Checkouts())
    assert "--dlrm FOLDER" in checkout and "git clone https://github.com/" in checkout
    assert "--dlrm-python FILE" in interpreter and "pip install torch" in interpreter
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.touch()
    checkouts = Checkouts(dlrm=tmp_path, dlrm_python=python)
    (lack,) = catalogue.missing(example, checkouts)
    assert f"--dlrm {tmp_path}: has no dlrm_s_pytorch.py" in lack
    (tmp_path / "dlrm_s_pytorch.py").touch()
    assert catalogue.missing(example, checkouts) == []
    example.prepare(tmp_path, checkouts)
    assert (tmp_path / "example" / "dlrm_s_pytorch.py").is_file()
    environ = catalogue.environment(example, checkouts, {"PATH": "/usr/bin", "HOME": "/"})
    assert environ == {"PATH": f"{python.parent}:/usr/bin", "HOME": "/"}
