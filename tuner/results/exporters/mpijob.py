"""A job for Kubeflow's MPI operator: the exported job, with a worker for each host."""

from __future__ import annotations

import json
import re
from typing import Any

from tuner.launch.launchers import launcher_for
from tuner.model import JsonDict, Layout, wording
from tuner.model.errors import UsageError
from tuner.results.exporters import Export
from tuner.results.exporters.container import binding_warning, image_holds, image_launcher
from tuner.results.exporters.job import Secrets, comment, job_parts, omissions
from tuner.results.study_view import StudyView

#: By launcher, what the operator calls it, and the option of mpirun for a file of hosts.
_MPI = {
    "openmpi": ("OpenMPI", "--hostfile"),
    "mpich": ("MPICH", "-f"),
    "intelmpi": ("Intel", "-f"),
}


def manifest(data: StudyView) -> Export:
    """Write an ``MPIJob`` (kubeflow.org/v2beta1) with the slots, CPUs and GPUs of each host.

    Raises:
        UsageError: A launcher other than an mpirun.
    """
    spec, layout, kind = data.spec, data.best_spec.layout, data.spec.launcher.kind
    if kind not in _MPI:
        names = {**wording.LAUNCHER_NAMES, "none": "a job without a launcher"}
        raise UsageError(
            f"export --format mpijob cannot carry {names.get(kind, kind)}:"
            " Kubeflow's MPI operator starts the ranks with an mpirun",
            "tune it under one (`tune --launcher openmpi`), or use --format sh",
        )
    implementation, option = _MPI[kind]
    hosts = tuple(f"worker{n}" for n in range(len(layout.hosts)))
    workers = Layout(layout.ranks, hosts, tuple(ranks for _, ranks in layout.slots))
    argv, prefix, job = job_parts(data, image_launcher(spec.launcher), workers)
    place = argv.index(launcher_for(kind).host_list(workers))
    argv = (*argv[: place - 1], option, "/etc/mpi/hostfile", *argv[place + 1 :])  # the operator's
    # Kubernetes puts $(NAME) for the value of a variable, and takes $$ for $.
    secrets = Secrets(lambda text: text.replace("$", "$$"), "$({})")
    words = [secrets.quote(word) for word in (*argv, *prefix, *job)]
    # Kubernetes takes 63 letters for a name in the DNS, and adds some to this one.
    name = re.sub(r"[^a-z0-9]+", "-", f"tune-{spec.name.lower()}")[:45].strip("-")
    environment: list[JsonDict] = [{"name": "OUT", "value": "/out"}]
    environment += [
        {"name": key, "valueFrom": {"secretKeyRef": {"name": name, "key": key}}}
        for key in secrets.purposes
    ]
    gpus = {"nvidia.com/gpu": len(spec.machine.gpus)} if spec.machine.gpus else {}
    memory = {"medium": "Memory", "sizeLimit": f"{spec.machine.shared_bytes >> 20}Mi"}
    mounts = [{"name": "memory", "mountPath": "/dev/shm"}, {"name": "out", "mountPath": "/out"}]
    worker = {"resources": {"limits": {"cpu": spec.machine.cores, **gpus}}, "volumeMounts": mounts}
    volumes = [{"name": "memory", "emptyDir": memory}, {"name": "out", "emptyDir": {}}]
    document = {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": name},
        "spec": {
            "mpiImplementation": implementation,
            "slotsPerWorker": layout.ranks_per_host,
            "launcherCreationPolicy": "WaitForWorkersReady",
            "runPolicy": {"cleanPodPolicy": "Running"},  # ends the workers with the job
            "mpiReplicaSpecs": {
                "Launcher": _replica(1, {"command": words, "env": environment}),
                "Worker": _replica(len(layout.hosts), worker, volumes=volumes),
            },
        },
    }
    warnings = [
        image_holds(data, (*prefix, *job), "the program", "an SSH server"),
        "what the job writes: /out ends with its pod until a volume of yours is there",
    ]
    if len({ranks for _, ranks in layout.slots}) > 1:
        warnings.append(f"{wording.by_host(layout)}: each worker has as many slots")
    if spec.input:
        warnings.append(f"the standard input: {spec.input}")
    if interface := data.best_setting.as_dict().get("interface"):
        warnings.append(f"interface={interface}: a pod's networks have names of their own")
    warnings += binding_warning(data, "the kubelet's static CPU manager policy")
    text = comment(data) + omissions(warnings)
    text += "# use:      sed 's|image: .*|image: YOUR-IMAGE|' FILE | kubectl create -f -\n"
    for key, what in secrets.purposes.items():
        text += f"# The Secret {name} must have the key {key}: the secret {what}.\n"
    text += "# Add yours: memory, namespace, nodeSelector.\n"
    return Export(text + _yaml(document).lstrip() + "\n", tuple(warnings))


def _yaml(value: Any, indent: str = "") -> str:
    """Return the value as YAML. Strings are quoted: parsers differ about 1e-3 and y.

    What JSON takes as it is, but YAML 1.1 does not, is escaped (yaml.org/spec/1.1, 5.1).
    """
    if value and isinstance(value, dict):
        return "".join(f"\n{indent}{key}:{_yaml(v, indent + '  ')}" for key, v in value.items())
    if value and isinstance(value, list):
        return "".join(f"\n{indent}- {_yaml(item, indent + '  ').lstrip()}" for item in value)
    text = json.dumps(value, ensure_ascii=False)
    escape = "[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]"
    return " " + re.sub(escape, lambda match: f"\\u{ord(match[0]):04x}", text)


def _replica(replicas: int, container: JsonDict, **pod: Any) -> JsonDict:
    """Return the description of so many pods with one container each."""
    containers = [{"name": "job", "image": "IMAGE", **container}]
    return {"replicas": replicas, "template": {"spec": {"containers": containers, **pod}}}
