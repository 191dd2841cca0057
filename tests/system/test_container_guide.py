"""The commands of the guide to containers, with a docker that runs them here; and its image."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import yaml

from tests.guides import TRAIN, blocks
from tests.light_trainer import captured

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "examples" / "container" / "Dockerfile"

#: Takes the options of `run` and their values off, and runs what follows the image here.
DOCKER = """#!/bin/sh
[ "$1" = run ] || exit 0
while [ "$1" != me/tune ]; do shift; done
shift
exec "$@"
"""

#: Writes down what it is given, and the file on its input.
KUBECTL = """#!/bin/sh
echo "$*" > kubectl.words
cat > kubectl.yaml
"""


@pytest.mark.system
@pytest.mark.slow
def test_the_guide_tunes_exports_and_runs_the_job(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in (("docker", DOCKER), ("kubectl", KUBECTL)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "length").write_text("3")
    path = f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    short = "--trials 1 --no-confirm --knob omp_threads=1,2 --"
    script = "set -e\n" + "".join(blocks("docs/how-to/container.md"))
    script = script.replace("-n 2 --", f"-n 2 {short}")
    done = captured(["sh", "-c", script], tmp_path, {**os.environ, "PATH": path})
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "snapshot_3").exists(), "the exported script has run the job"
    assert (tmp_path / "kubectl.words").read_text() == "create -f -\n"
    job = yaml.safe_load((tmp_path / "kubectl.yaml").read_text())
    for replica in job["spec"]["mpiReplicaSpecs"].values():
        (container,) = replica["template"]["spec"]["containers"]
        assert container["image"] == "me/job:1"


def test_the_dockerfile_has_no_complaint_of_hadolint() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    done = captured([hadolint, DOCKERFILE], ROOT, os.environ)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
