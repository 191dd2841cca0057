"""The shipped study files: each can be asked for, and reads what its program prints."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.config.test_spec import MACHINE, build
from tuner.config.study_file import find_study_file
from tuner.launch import command
from tuner.launch.render import rank_argv
from tuner.model import BASELINE

STUDIES = sorted(path.stem for path in command.shipped_dir("studies").glob("*.toml"))
#: What the programs print, as they really did.
PRINTED = {
    "mpi_stencil": ("time per step: 38.517 ms", "38.517"),
    "hpl": (
        "WR11C2R4        1000    80     1     2               1.65              4.061e-01",
        "4.061e-01",
    ),
    "gromacs": ("Performance:       21.174        1.133", "21.174"),
    "lammps": ("Performance: 2163.892 tau/day, 5.009 timesteps/s", "5.009"),
    "dlrm_example": ("Finished training it 20/20 of epoch 0, 17.44 ms/it, loss 0.109944", "17.44"),
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with what the studies want to find, and all modules that trainers import."""
    monkeypatch.setattr("tuner.config.program.find_spec", lambda _: object())
    for name in ("hpcc", "gmx", "lmp", "python", "sh"):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.touch(mode=0o755)
    for script in ("train_imagenet.py", "dlrm_s_pytorch.py"):
        (tmp_path / "example").mkdir(exist_ok=True)
        (tmp_path / "example" / script).touch()
    return tmp_path


@pytest.mark.parametrize("name", STUDIES)
def test_it_can_be_run_and_what_its_program_prints_is_read(name: str, place: Path) -> None:
    file, _ = find_study_file(name, cwd=place)
    machine = replace(MACHINE, gpus=("A", "B")) if name.endswith("_gpu") else MACHINE
    spec = build(file=file, cwd=place, machine=machine, environ={"PATH": str(place / "bin")})
    assert spec.name.startswith(name)
    assert spec.trial_limit_s is not None
    # What cannot be left out has a default: the program runs with nothing set.
    for template in filter(None, (spec.command, spec.job)):
        assert rank_argv(spec, BASELINE, out="/out", wrapper=(), template=template)
    assert (spec.objective.kind == "pattern") == (name in PRINTED)
    if name in PRINTED:
        line, figure = PRINTED[name]
        assert re.findall(spec.objective.pattern, line) == [figure]
        assert spec.objective.unit
