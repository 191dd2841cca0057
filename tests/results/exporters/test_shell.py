"""The exported script is run with an mpirun that writes down what it was given.

Hostile words, values and secrets, and a whole job in the measured one's place are in
`campaigns/exports_inert.py`.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.light_trainer import captured, python_script
from tests.study_samples import SPEC, setting, study
from tuner.model import BASELINE, Choice, Env, Knob, LauncherInfo, Layout, StudySpec
from tuner.results.exporters.shell import script
from tuner.results.study_view import StudyView

DUMP = python_script("""
import json, os, sys
program = sys.argv[sys.argv.index("-n") + 2:]
print(json.dumps(sys.argv), flush=True)
os.execvp(program[0], program)
""")
PROGRAM = python_script("""
import json, os, sys
print(json.dumps([sys.argv[1:], {n: v for n, v in os.environ.items() if n.startswith("T_")}]))
""")


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a space in its name, a fake mpirun, and a program."""
    folder = tmp_path_factory.mktemp("with space")
    for name, text in (("mpirun", DUMP), ("program", PROGRAM)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder


def spec_for(machine: Path, *command: str, **changes: object) -> StudySpec:
    info = LauncherInfo("openmpi", str(machine / "mpirun"), "5.0.11")
    spec = replace(SPEC, launcher=info, command=(str(machine / "program"), *command))
    return replace(spec, **changes)  # type: ignore[arg-type]


def run(
    data: StudyView, folder: Path, *args: str, **env: str
) -> tuple[list[str], list[str], dict[str, str]]:
    """Run a script; gives mpirun's argv, the program's arguments and its T_ variables."""
    (folder / "job.sh").write_text(script(data).text)
    done = captured(["sh", "job.sh", *args], folder, {"PATH": os.environ["PATH"], **env})
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    arguments, variables = json.loads(second)
    return json.loads(first), arguments, variables


@pytest.mark.parametrize(
    ("command", "args", "env", "words"),
    [
        (("--out={out}/x y",), ("a b",), {}, ["--out=a b/x y"]),  # the folder is an argument
        (("--out={out}/x y",), (), {"OUT": "a b"}, ["--out=a b/x y"]),  # or a variable
        (("{out}",), (), {}, ["./mnist-out"]),
        (("{out}",), ("a", "--resume", "x y"), {}, ["a", "--resume", "x y"]),
        (("input.dat",), ("--resume", "x y"), {}, ["input.dat", "--resume", "x y"]),
    ],
)
def test_the_first_argument_is_the_output_folder_and_what_follows_goes_to_the_job(
    machine: Path,
    tmp_path: Path,
    command: tuple[str, ...],
    args: tuple[str, ...],
    env: dict[str, str],
    words: list[str],
) -> None:
    arguments = run(study(spec=spec_for(machine, *command)), tmp_path, *args, **env)[1]
    assert [word for word in arguments if word in words] == words
    assert (tmp_path / "mnist-out").exists() is ("./mnist-out" in words)


def test_a_variable_names_other_hosts(machine: Path, tmp_path: Path) -> None:
    layout = Layout(4, ("h1", "h2"), (2, 2))
    data = study(spec=spec_for(machine, "{out}", layout=layout))
    for environ, hosts in (({}, "h1:2,h2:2"), ({"HOSTS": "h3:2,h4:2"}, "h3:2,h4:2")):
        mpirun, _, _ = run(data, tmp_path, **environ)
        assert mpirun[mpirun.index("--host") + 1] == hosts


def test_relative_paths_of_the_command_lead_where_they_did(machine: Path, tmp_path: Path) -> None:
    spec = replace(spec_for(machine, folder=str(machine)), command=("./program", "{out}"))
    assert run(study(spec=spec), tmp_path, "a b")[1][0] == str(tmp_path / "a b")
    spec = replace(SPEC, input="/data/job in")
    assert "\nexec <'/data/job in'\n" in script(study({BASELINE: 3.0}, spec)).text


def test_unset_variables_are_unset(machine: Path, tmp_path: Path) -> None:
    knob = Knob("t", Choice(("unset", "1")), Env(("T_ONE",)))
    spec = spec_for(machine, "{out}", knobs=(knob,))
    data = study({BASELINE: 3.0, setting(t="unset"): 1.0}, spec)
    assert "T_ONE" not in run(data, tmp_path, T_ONE="5")[2]


#: As they lie in the database: the secrets were never stored.
SECRETIVE = ("--password", "***", "{out}", "--url=https://me:***@host/x")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (SECRETIVE, "TUNE_SECRET_2: set it to the secret after --url=https://me:"),
        (('$(touch pwned)`touch pwned`"}}; touch pwned; #\n', "x", "***", "***"), "TUNE_SECRET_2"),
    ],
)
def test_without_the_secret_the_script_says_so_and_does_nothing(
    machine: Path, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    (tmp_path / "job.sh").write_text(script(study(spec=spec_for(machine, *words))).text)
    env = {"PATH": os.environ["PATH"], "TUNE_SECRET_1": "x"}
    done = captured(["sh", "job.sh"], tmp_path, env)
    assert done.returncode != 0
    assert message in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["job.sh"]
