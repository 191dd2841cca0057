"""The script is run with a docker and an Apptainer that write down what they were given."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.light_trainer import captured, python_script
from tests.study_samples import SPEC, setting, study
from tuner import knobs
from tuner.model import BASELINE, SHARE, Choice, Knob, LauncherInfo, LauncherOption, Layout
from tuner.model.errors import UsageError
from tuner.results.exporters.container import script
from tuner.results.study_view import StudyView

DUMP = python_script("import json, sys\nprint(json.dumps(sys.argv[1:]))\n")


def run(data: StudyView, folder: Path, tool: str, *args: str) -> list[str]:
    """The words that the tool is given, if there is no other."""
    (folder / "bin").mkdir()
    (folder / "bin" / tool).write_text(DUMP)
    (folder / "bin" / tool).chmod(0o755)
    (folder / "bin" / "mkdir").symlink_to("/bin/mkdir")
    (folder / "job.sh").write_text(script(data).text)
    env = {"PATH": str(folder / "bin"), "IMAGE": "me/job:1"}
    done = captured(["/bin/sh", "job.sh", *args], folder, env)
    assert done.returncode == 0, done.stderr
    words: list[str] = json.loads(done.stdout)
    return words


def changed(**changes: Any) -> StudyView:
    return study(spec=replace(SPEC, **changes))


GPUS = replace(SPEC.machine, gpus=("H100", "H100"))


def test_docker_runs_the_job_with_the_setting_and_the_size_of_the_host(tmp_path: Path) -> None:
    words = run(changed(machine=GPUS), tmp_path, "docker", "a b", "--resume", "x y")
    image, out = words.index("me/job:1"), f"{tmp_path}/a b"
    options, job = words[:image], words[image + 1 :]
    assert options[:3] == ["run", "--rm", "--init"]
    for name, value in (("--cpus", "4"), ("--shm-size", "512m"), ("--gpus", "2")):
        assert options[options.index(name) + 1] == value
    assert {f"{out}:{out}", f"{tmp_path}:{tmp_path}"} < {*options} and Path(out).is_dir()
    assert options[options.index("-w") + 1] == str(tmp_path)
    assert job[0] == "mpirun" and job.count("--allow-run-as-root") == 1
    assert "OMP_NUM_THREADS=1" in job[job.index("env") : job.index("python")]
    assert job[-6:] == ["-j", "1", "--communicator", "naive", "--resume", "x y"]
    assert job[job.index("--out") + 1] == out


def test_without_docker_apptainer_runs_it(tmp_path: Path) -> None:
    words = run(changed(machine=GPUS), tmp_path, "apptainer", "out")
    assert words[:5] == ["exec", "--nv", "--bind", f"{tmp_path}/out", "me/job:1"]
    assert words[5] == "mpirun"


def test_without_an_image_the_script_says_so_and_does_nothing(tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text(script(study()).text)
    env = {"PATH": os.environ["PATH"]}
    done = captured(["sh", "job.sh"], tmp_path, env)
    assert done.returncode != 0 and "IMAGE: set it to the image of the job" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["job.sh"]


def test_what_a_container_cannot_carry_is_said_twice_or_refused() -> None:
    knob = Knob("bind_to", Choice(("none", "core")), LauncherOption("bind_to"))
    spec = replace(SPEC, knobs=(knob,), command=("/opt/venv/bin/python", "train.py", "{out}"))
    export = script(study({BASELINE: 3.0, setting(bind_to="core"): 1.0}, spec))
    files, cpus, binding = export.warnings
    assert files.endswith("must hold what the program needs, Open MPI 5.0.11, /opt/venv/bin/python")
    assert "--cpuset-cpus 0-3" in cpus and "bind_to=core" in binding
    assert all(f"# not in this file: {warning}\n" in export.text for warning in export.warnings)
    spec = replace(spec, knobs=(knobs.knob("cores_per_rank"),))
    export = script(study({BASELINE: 3.0, setting(cores_per_rank=SHARE): 1.0}, spec))
    assert "cores_per_rank=2 needs" in export.warnings[-1]
    assert "--map-by slot:PE=2 --bind-to core:overload-allowed" in export.text
    srun = LauncherInfo("srun", "/usr/bin/srun", "24.11")
    for data in (changed(layout=Layout(4, ("h1", "h2"), (2, 2))), changed(launcher=srun)):
        with pytest.raises(UsageError, match="cannot carry srun, nor several hosts"):
            script(data)
