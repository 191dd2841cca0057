"""The shipped study files: each can be asked for, and reads what its program prints."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tuner.config.spec import WantedLauncher, build_spec
from tuner.config.study_file import find_study_file
from tuner.launch import command
from tuner.launch.render import rank_argv
from tuner.model import BASELINE, LauncherInfo, Machine, StudySpec
from tuner.model.errors import UsageError

STUDIES = sorted(path.stem for path in command.shipped_dir("studies").glob("*.toml"))
MACHINE = Machine("host", "cpu", 4, 4, 4, None, 1, 2**30)

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


def find(wanted: WantedLauncher, program_path: str, environ: Mapping[str, str]) -> LauncherInfo:
    kind = wanted.kind or "openmpi"
    return LauncherInfo(kind, wanted.mpirun or "/bin/mpirun", "5.0.11", None, wanted.args)


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


def spec_of(name: str, place: Path) -> StudySpec:
    file, source = find_study_file(name, cwd=place)
    return build_spec(
        file=file,
        source=source,
        command=None,
        environ={"PATH": str(place / "bin")},
        cwd=place,
        machine=replace(MACHINE, gpus=("A", "B")) if name.endswith("_gpu") else MACHINE,
        find=find,
    )


@pytest.mark.parametrize("name", STUDIES)
def test_it_can_be_asked_for(name: str, place: Path) -> None:
    spec = spec_of(name, place)
    assert spec.name.startswith(name)
    assert spec.trial_limit_s is not None
    # What cannot be left out has a default: the program runs with nothing set.
    assert rank_argv(spec, BASELINE, out="/out", wrapper=(), template=spec.command)
    if spec.job:
        assert rank_argv(spec, BASELINE, out="/out", wrapper=(), template=spec.job)


@pytest.mark.parametrize("name", STUDIES)
def test_what_a_program_prints_is_read(name: str, place: Path) -> None:
    objective = spec_of(name, place).objective
    if objective.kind != "pattern":
        assert name not in PRINTED
        return
    line, figure = PRINTED[name]
    found = re.findall(objective.pattern, line)
    assert found == [figure]
    assert objective.unit


def test_the_launches_of_an_earlier_run_are_no_study_file(tmp_path: Path) -> None:
    (tmp_path / "hpl").mkdir()
    for given in ("hpl", "hpl/", "./hpl"):
        assert find_study_file(given, cwd=tmp_path)[1] == "hpl.toml (shipped)"
    (tmp_path / "mine").mkdir()
    with pytest.raises(UsageError, match="mine cannot be read: it is no regular file"):
        find_study_file("mine", cwd=tmp_path)
