"""The exported script is run with an mpirun that writes down what it was given.

Hostile values are in `campaigns/exports_inert.py`.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests import study_samples as samples
from tests.light_trainer import python_script
from tests.study_samples import SPEC, setting, study
from tuner.model import BASELINE, Choice, Env, Knob, LauncherInfo, Layout, StudySpec
from tuner.results.exporters.shell import script
from tuner.results.study_view import StudyView

SHELLS = [shell for shell in ("sh", "dash", "bash") if shutil.which(shell)]

DUMP = python_script("""
import json, os, sys
names = [n for n in os.environ if n.startswith("T_") or n in ("OUT", "MPI4PY_LIBMPI")]
program = sys.argv[sys.argv.index("-n") + 2:]
print(json.dumps([sys.argv, {n: os.environ[n] for n in names}]), flush=True)
os.execvp(program[0], program)
""")
PROGRAM = python_script("""
import json, os, sys
print(json.dumps([sys.argv[1:], {n: v for n, v in os.environ.items() if n.startswith("T_")}]))
""")


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a space in its name, a fake mpirun, and a program with = in its name."""
    folder = tmp_path_factory.mktemp("with space")
    for name, text in (("mpirun", DUMP), ("program", PROGRAM), ("a=b", PROGRAM)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder


def spec_for(
    machine: Path, *command: str, program: str = "program", **changes: object
) -> StudySpec:
    info = LauncherInfo("openmpi", str(machine / "mpirun"), "5.0.11")
    spec = dataclasses.replace(SPEC, launcher=info, command=(str(machine / program), *command))
    return dataclasses.replace(spec, **changes)  # type: ignore[arg-type]


def run(
    data: StudyView, folder: Path, *args: str, shell: str = "sh", **env: str
) -> tuple[list[str], list[str], dict[str, str]]:
    """Run a script; gives mpirun's argv, the program's arguments and its T_ variables."""
    path = folder / "job.sh"
    path.write_bytes(script(data).text.encode("utf-8", "surrogateescape"))
    done = subprocess.run(
        [shell, str(path), *args],
        cwd=folder,
        env={"PATH": os.environ["PATH"], **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
    )
    first, second = done.stdout.splitlines()
    arguments, variables = json.loads(second)
    return json.loads(first)[0], arguments, variables


def test_the_script_runs_the_job_with_the_setting(machine: Path, tmp_path: Path) -> None:
    spec = spec_for(machine, "--out", "{out}", "-j", "{iterator_workers}")
    mpirun, arguments, _ = run(study(spec=spec), tmp_path)
    assert mpirun[mpirun.index("-n") + 1] == "2"
    assert mpirun[mpirun.index("-n") + 2] == "env"
    assert "OMP_NUM_THREADS=1" in mpirun
    assert arguments == ["--out", "./mnist-out", "-j", "1", "--communicator", "naive"]
    assert (tmp_path / "mnist-out").is_dir()


def test_the_script_reads_the_standard_input_of_the_study() -> None:
    spec = dataclasses.replace(SPEC, input="/data/job in")
    assert "\nexec <'/data/job in'\n" in script(study({BASELINE: 3.0}, spec)).text


def test_the_output_folder_is_the_first_argument_or_a_variable(
    machine: Path, tmp_path: Path
) -> None:
    data = study(spec=spec_for(machine, "--out={out}/x y"))
    place = str(tmp_path / "a b")
    assert run(data, tmp_path, place)[1][0] == f"--out={place}/x y"
    assert run(data, tmp_path, OUT=place)[1][0] == f"--out={place}/x y"


def test_what_follows_the_output_folder_goes_to_the_job(machine: Path, tmp_path: Path) -> None:
    data = study(spec=spec_for(machine, "{out}"))
    assert run(data, tmp_path, "a", "--resume", "x y")[1][-2:] == ["--resume", "x y"]
    data = study(spec=spec_for(machine, "input.dat"))
    assert run(data, tmp_path, "--resume", "x y")[1][-2:] == ["--resume", "x y"]


def test_a_variable_names_other_hosts(machine: Path, tmp_path: Path) -> None:
    layout = Layout(4, ("h1", "h2"), (2, 2))
    data = study(spec=spec_for(machine, "{out}", layout=layout))
    for environ, hosts in (({}, "h1:2,h2:2"), ({"HOSTS": "h3:2,h4:2"}, "h3:2,h4:2")):
        mpirun, _, _ = run(data, tmp_path, **environ)
        assert mpirun[mpirun.index("--host") + 1] == hosts


def test_a_command_without_an_output_folder_makes_none(machine: Path, tmp_path: Path) -> None:
    spec = spec_for(machine, "input.dat")
    run(study(spec=spec), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["job.sh"]


def test_relative_paths_of_the_command_lead_where_they_did(machine: Path, tmp_path: Path) -> None:
    spec = spec_for(machine, "{out}", folder=str(machine))
    data = study(spec=dataclasses.replace(spec, command=("./program", "{out}")))
    assert run(data, tmp_path, "a b")[1][0] == str(tmp_path / "a b")


def test_the_whole_job_takes_the_place_of_the_measured_command(
    machine: Path, tmp_path: Path
) -> None:
    spec = spec_for(machine, "--short", job=(str(machine / "program"), "--long", "{out}"))
    assert run(study(spec=spec), tmp_path)[1][:2] == ["--long", "./mnist-out"]


def test_a_program_with_an_equals_sign_is_no_assignment(machine: Path, tmp_path: Path) -> None:
    _, arguments, _ = run(study(spec=spec_for(machine, "{out}", program="a=b")), tmp_path)
    assert arguments[0] == "./mnist-out"


def test_unset_variables_are_unset(machine: Path, tmp_path: Path) -> None:
    knob = Knob("t", Choice(("unset", "1")), Env(("T_ONE",)))
    spec = spec_for(machine, "{out}", knobs=(knob,))
    data = study({BASELINE: 3.0, setting(t="unset"): 1.0}, spec)
    assert "T_ONE" not in run(data, tmp_path, T_ONE="5")[2]


def test_the_header_says_what_is_proven() -> None:
    text = script(samples.faster()).text
    assert "# The whole job with the fastest setting that `tune` found." in text
    assert "# measured: 2.33 times faster than your defaults (95 % interval 2.24 to 2.42" in text


def test_where_no_gain_is_proven_the_script_runs_the_defaults_and_says_why() -> None:
    text = script(samples.no_gain()).text
    assert "# The whole job with your defaults: `tune` found nothing faster." in text
    assert "# setting:  defaults\n" in text
    assert "# measured: no gain worth having: keep your defaults (1.00 times as fast" in text
    assert "OMP_NUM_THREADS" not in text


def secretive(machine: Path) -> StudyView:
    """A study as it lies in the database: its secrets were never stored."""
    words = (
        "--password",
        "***",
        "{out}",
        "--url=https://me:***@host/x",
        "-j",
        "{iterator_workers}",
    )
    return study(spec=spec_for(machine, *words))


def test_a_secret_comes_from_the_environment(machine: Path, tmp_path: Path) -> None:
    secrets = {"TUNE_SECRET_1": "a'b $(touch pwned)", "TUNE_SECRET_2": '"\\\n*'}
    _, arguments, _ = run(secretive(machine), tmp_path, **secrets)
    assert arguments[:2] == ["--password", "a'b $(touch pwned)"]
    assert arguments[3] == '--url=https://me:"\\\n*@host/x'
    assert not list(tmp_path.glob("*pwned*"))


@pytest.mark.parametrize("shell", SHELLS)
def test_without_the_secret_the_script_says_so_and_does_nothing(
    machine: Path, tmp_path: Path, shell: str
) -> None:
    (tmp_path / "job.sh").write_text(script(secretive(machine)).text)
    env = {"PATH": os.environ["PATH"], "TUNE_SECRET_1": "x"}
    done = subprocess.run(
        [shell, "job.sh"], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "TUNE_SECRET_2: set it to the secret after --url=https://me:" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["job.sh"]


@pytest.mark.parametrize("shell", SHELLS)
def test_what_names_a_missing_secret_is_never_interpreted(
    machine: Path, tmp_path: Path, shell: str
) -> None:
    words = ('$(touch pwned)`touch pwned`"}; touch pwned; #\n', "***", "{out}")
    data = study(spec=spec_for(machine, *(w.replace("}", "}}") for w in words[:1]), *words[1:]))
    (tmp_path / "job.sh").write_text(script(data).text)
    env = {"PATH": os.environ["PATH"]}
    done = subprocess.run(
        [shell, "job.sh"], cwd=tmp_path, env=env, capture_output=True, check=False
    )
    assert b"TUNE_SECRET_1: set it to the secret after" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["job.sh"]
