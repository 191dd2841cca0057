"""The manifest is one that Kubeflow's operator takes: it is read and checked by its schema."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.study_samples import SPEC, setting, study
from tuner.model import BASELINE, Choice, Knob, LauncherInfo, LauncherOption, Layout
from tuner.model.errors import UsageError
from tuner.results.exporters import Export
from tuner.results.exporters.mpijob import manifest

SCHEMA = json.loads(Path(__file__).with_name("mpijob_schema.json").read_text())


def exported(**changes: Any) -> tuple[Any, Any, Any, Export]:
    """The ``spec`` of a study's job, the containers of launcher and worker, and the export."""
    export = manifest(study(spec=replace(SPEC, **changes)))
    document = yaml.safe_load(export.text)
    jsonschema.validate(document, SCHEMA)
    assert (document["apiVersion"], document["kind"]) == ("kubeflow.org/v2beta1", "MPIJob")
    spec = document["spec"]
    (launcher,), (worker,) = (
        spec["mpiReplicaSpecs"][kind]["template"]["spec"]["containers"]
        for kind in ("Launcher", "Worker")
    )
    return spec, launcher, worker, export


def under(kind: str, version: str = "1") -> LauncherInfo:
    return LauncherInfo(kind, "/opt/mpi/mpirun", version, "/opt/mpi/libmpi.so", (), ("ssh",))


@pytest.mark.parametrize(
    ("kind", "version", "implementation", "option"),
    [
        ("openmpi", "5.0.11", "OpenMPI", "--hostfile"),
        ("mpich", "4.1.2", "MPICH", "-f"),
        ("intelmpi", "2021.10", "Intel", "-f"),
    ],
)
def test_the_images_mpirun_starts_the_ranks_on_the_operators_hosts(
    kind: str, version: str, implementation: str, option: str
) -> None:
    layout = Layout(4, ("h1", "h2"), (2, 2))
    spec, launcher, _, export = exported(launcher=under(kind, version), layout=layout)
    assert (spec["mpiImplementation"], spec["slotsPerWorker"]) == (implementation, 2)
    assert spec["mpiReplicaSpecs"]["Worker"]["replicas"] == 2
    words = launcher["command"]
    assert words[0] == "mpirun" and words[words.index("-n") + 1] == "4"
    assert words[words.index(option) + 1] == "/etc/mpi/hostfile"
    assert "worker" not in " ".join(words)
    assert " ".join(words).count(" -ppn 2 ") == (kind == "intelmpi")
    environment = words.index("env")
    assert words[environment + 1] == "OMP_NUM_THREADS=1" and "python" in words[environment:]
    assert not {"--oversubscribe", "workers:4", "h1:2,h2:2"} & {*words}
    assert "/opt/mpi" not in export.text, "the image has an MPI of its own"


def test_a_worker_has_cpus_gpus_shared_memory_and_an_output_folder() -> None:
    spec, launcher, worker, export = exported(machine=replace(SPEC.machine, gpus=("H100", "H100")))
    limits = {"cpu": SPEC.machine.cores, "nvidia.com/gpu": 2}
    assert worker["resources"] == {"limits": limits}
    mounts = {mount["mountPath"]: mount["name"] for mount in worker["volumeMounts"]}
    volumes = spec["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["volumes"]
    (memory,) = (v["emptyDir"] for v in volumes if v["name"] == mounts["/dev/shm"])
    assert memory == {"medium": "Memory", "sizeLimit": "512Mi"}
    assert launcher["command"][launcher["command"].index("--out") + 1] == "$(OUT)"
    assert {"name": "OUT", "value": "/out"} in launcher["env"]
    assert "/out" in mounts
    assert any("/out ends with its pod" in warning for warning in export.warnings)


def test_words_that_parsers_of_yaml_take_for_something_else_are_quoted() -> None:
    words = ("1e-3", "y", "0o17", "no", "~", "a: b", "a\nb", "\x85 \u2028\udcff", "")
    *_, launcher, _, export = exported(command=("program", *words))
    assert tuple(launcher["command"][-len(words) - 2 : -2]) == words
    assert all(f'- "{word}"\n' in export.text for word in words if word.isprintable())


def test_kubernetes_puts_in_secrets_and_nothing_else() -> None:
    _, launcher, _, export = exported(command=("program", "--password", "***", "$(OUT) $$"))
    words = launcher["command"]
    assert words[words.index("--password") + 1 :][:2] == ["$(TUNE_SECRET_1)", "$$(OUT) $$$$"]
    reference = {"name": "tune-mnist", "key": "TUNE_SECRET_1"}
    assert {"name": "TUNE_SECRET_1", "valueFrom": {"secretKeyRef": reference}} in launcher["env"]
    said = "# The Secret tune-mnist must have the key TUNE_SECRET_1: the secret after"
    assert said in export.text


@pytest.mark.parametrize(
    ("name", "label"),
    [("My study/2", "tune-my-study-2"), ("日本", "tune"), ("x" * 99, "tune-" + "x" * 40)],
)
def test_the_name_is_a_label_of_the_dns(name: str, label: str) -> None:
    text = manifest(study(spec=replace(SPEC, name=name))).text
    assert yaml.safe_load(text)["metadata"]["name"] == label


def test_what_a_manifest_cannot_carry_is_said_twice_or_refused() -> None:
    knob = Knob("bind_to", Choice(("none", "core")), LauncherOption("bind_to"))
    spec = replace(SPEC, knobs=(knob,), layout=Layout(3, ("h1", "h2"), (2, 1)))
    command = ("/opt/venv/bin/python", "train.py", "--data=/data/x", "{out}")
    times = {BASELINE: 3.0, setting(bind_to="core"): 1.0}
    export = manifest(study(times, replace(spec, command=command)))
    files, _, slots, cpus = export.warnings
    assert files.endswith(
        "Open MPI 5.0.11, the program, an SSH server, /opt/venv/bin/python, /data/x"
    )
    assert "2 on h1, 1 on h2" in slots
    assert "bind_to=core" in cpus and "static CPU manager" in cpus
    assert all(f"# not in this file: {warning}\n" in export.text for warning in export.warnings)
    for kind in ("srun", "torchrun"):
        with pytest.raises(UsageError, match=f"mpijob cannot carry {kind}"):
            exported(launcher=under(kind))
