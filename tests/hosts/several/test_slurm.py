"""A study in an allocation of Slurm, whose nodes are the hosts of the bench."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.guides import TRAIN, blocks
from tests.hosts.several.bench import UP_S, Bench
from tests.hosts.several.study_on_hosts import PROGRAM, SHORT, TUNE
from tests.marked import eventually
from tuner.model import Failed, LaunchRecord
from tuner.store.store import Store
from tuner.store.urls import resolve_url

pytestmark = [pytest.mark.system, pytest.mark.slow]

#: Of Debian's packages slurm-wlm, slurm-wlm-basic-plugins and munge.
PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "scancel", "sinfo")

CONFIG = """\
ClusterName=bench
SlurmctldHost=h1
SlurmUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir=/run/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0
NodeName=h[1-3] CPUs=2 RealMemory=500
PartitionName=all Nodes=h[1-3] Default=YES State=UP
"""

#: Of Debian's package libpmix2.
PMIX = Path("/usr/lib/x86_64-linux-gnu/pmix2/lib")

#: Starts what a node needs; ``$1`` is the folder.
NODE = """\
set -e
mkdir -p /run/munge /run/slurmd
# Slurm loads PMIx by a name that Debian's package of it does not have.
if [ -d "$PMIX" ]; then
  cp -r "$PMIX" /run/pmix
  ln -s libpmix.so.2 /run/pmix/libpmix.so
  mount --bind /run/pmix "$PMIX"
fi
munged --force --key-file "$1/munge.key" --socket /run/munge/munge.socket.2 \\
  --pid-file /run/munge/pid --seed-file /run/munge/seed --log-file /run/munge/log
[ "$(hostname)" != h1 ] || slurmctld
slurmd -N "$(hostname)"
"""


class Slurm:
    """Slurm on all hosts of a bench, controlled from the first one."""

    def __init__(self, bench: Bench, folder: Path) -> None:
        self.bench, self.folder = bench, folder
        (folder / "state").mkdir()
        (folder / "munge.key").write_bytes(os.urandom(128))
        (folder / "munge.key").chmod(0o400)
        (folder / "slurm.conf").write_text(CONFIG.format(folder=folder))
        self.env = {
            **os.environ,
            "SLURM_CONF": str(folder / "slurm.conf"),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PMIX": str(PMIX),
        }
        for host in bench.names:
            bench.run(host, "sh", "-c", NODE, "sh", str(folder), env=self.env)
        idle = [str(len(bench.names)), "idle"]
        eventually(lambda: self.run("sinfo", "-h", "-o", "%D %t").split() == idle, UP_S)

    def run(self, *words: str) -> str:
        return str(self.bench.run("h1", *words, env=self.env).stdout)

    def submit(
        self, folder: Path, seconds: float, *options: str, program: str = PROGRAM, nodes: int = 2
    ) -> str:
        """A job that runs ``tune`` on some nodes; its id."""
        (folder / "program.py").write_text(program)
        (folder / "seconds").write_text(str(seconds))
        tune = [TUNE, "--objective", "wall", *SHORT, "--name", "study", *options]
        tune += ["--storage", str(folder / "study.db"), "--", sys.executable]
        tune += [str(folder / "program.py"), str(folder / "seconds")]
        script = folder / "job.sh"
        script.write_text("#!/bin/sh\nexec " + " ".join(f"'{word}'" for word in tune))
        words = ["--parsable", f"--nodes={nodes}", "--ntasks-per-node=1", "--exclusive"]
        return self.run("sbatch", *words, f"--output={folder}/output", str(script)).strip()

    def nodes_are_empty(self) -> bool:
        return not any(map(self.of_job, self.bench.names))

    def of_job(self, host: str) -> list[list[str]]:
        """What runs on a node beside Slurm's own."""
        found = self.bench.processes(host).values()
        return [
            argv for argv in found if not re.search(r"munged|slurm(ctl)?d|slurmscriptd", argv[0])
        ]


@pytest.fixture(scope="module")
def slurm(bench: Bench, require_program: Callable[[str], str]) -> Iterator[Slurm]:
    for name in PROGRAMS:
        require_program(name)
    folder = bench.folder / "slurm"
    folder.mkdir()
    made = Slurm(bench, folder)
    yield made
    for host in bench.names:  # the other tests know nothing of Slurm
        bench.run(host, "pkill", "-9", "slurm|munged", check=False)


@pytest.fixture
def folder(bench: Bench) -> Path:
    """An empty folder that all hosts have, on which Slurm goes on."""
    return Path(tempfile.mkdtemp(dir=bench.folder))


def records(folder: Path, name: str = "study") -> list[LaunchRecord]:
    """The launches of a study; none of them failed."""
    with Store.open(resolve_url(str(folder / "study.db"), {}), create=False) as store:
        launches = list(store.launches(name))
    assert len(launches) >= 2  # and one more may leave a knob out
    for record in launches:
        assert not isinstance(record.outcome.ending, Failed), record.outcome.ending
    return launches


def test_agents_are_known_by_their_names_in_whatever_order_the_hosts_are(slurm: Slurm) -> None:
    doctor = (TUNE, "doctor", "--hosts", "h3,h1,h2", "--json")
    checks = json.loads(slurm.run("salloc", "--nodes=3", *doctor))["checks"]
    (saw,) = (check["saw"] for check in checks if check["name"] == "network")
    assert set(re.findall(r"(h\d): (h\d) is", saw)) == {("h1", "h1"), ("h2", "h2"), ("h3", "h3")}


@pytest.mark.parametrize("hosts", ["", "--hosts-from 'scontrol show hostnames' --ppn 1"])
def test_the_guides_scripts_tune_and_run_a_job(slurm: Slurm, folder: Path, hosts: str) -> None:
    script, *_, export = blocks("docs/how-to/slurm.md")
    short = script.replace("--trials 30", f"--trials 1 --no-confirm --knob omp_threads=1,2 {hosts}")
    assert short != script
    for name, text in (("tune.sh", short), ("train.py", TRAIN), ("length", "3")):
        (folder / name).write_text(text)
    slurm.run("sbatch", "--ntasks-per-node=1", f"--chdir={folder}", str(folder / "tune.sh"))
    eventually(lambda: any("finished" in log.read_text() for log in folder.glob("tune-*.log")))
    records(folder, "train-n2-h2")
    eventually(slurm.nodes_are_empty)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    export = export.replace("sbatch", "sbatch --wait --output=job.log")
    commands = f"cd {shlex.quote(str(folder))} && {export}"
    slurm.run("env", f"PATH={path}", "sh", "-c", commands)
    log = folder / "train-n2-h2-out" / "log"
    assert json.loads(log.read_text())[-1]["iteration"] == 3, (folder / "job.log").read_text()


#: A job that sleeps less with CHUNK=8, and its study file.
JOB = """
import os, time
chunk = int(os.environ.get("CHUNK", "1"))
time.sleep(0.8 / chunk)
print("chunk", chunk)
"""
JOB_STUDY = """
command = "{python} job.py"
objective = { kind = "wall" }
knobs.chunk = { env = "CHUNK", values = [1, 8], baseline = 1 }
"""


def test_a_job_is_tuned_at_its_first_start_and_known_on_every_node(
    slurm: Slurm, folder: Path
) -> None:
    script = next(block for block in blocks("docs/how-to/exec.md") if "#SBATCH" in block)
    job = f"srun --mpi=none {sys.executable} job.py"
    for old, new in (
        ("--ntasks=8", "--ntasks=2"),
        ("/var/tmp/$USER-tune.db", f"{folder}/tune.db"),
        ("--short '--epochs 1' -- srun python train.py --epochs 90", f"-- {job}"),
    ):
        assert old in script
        script = script.replace(old, new)
    for name, text in (("job.sh", script), ("job.py", JOB), ("tune.toml", JOB_STUDY)):
        (folder / name).write_text(text)
    logs = []
    for node in ("h1", "h2"):
        words = ("--wait", f"--chdir={folder}", f"--output={folder}/{node}", f"--nodelist={node}")
        slurm.run("sbatch", *words, str(folder / "job.sh"))
        logs.append((folder / node).read_text().splitlines())
    first, later = logs
    assert first[0].startswith("tune: no setting is known for this job")
    assert later == [first[-3], "chunk 8", "chunk 8"]
    assert "chunk=8" in later[0].lower()
    eventually(slurm.nodes_are_empty)


#: Ranks that are not of an MPI.
PLAIN = """
import os
print("ranks", os.environ.get("WORLD_SIZE") or os.environ["SLURM_NTASKS"], flush=True)
"""


@pytest.mark.parametrize(
    ("launcher", "program", "nodes", "ppn"),
    [
        (("--launcher", "torchrun"), PLAIN, 2, 2),
        (("--launcher", "srun"), PROGRAM, 2, 2),
        (("--launcher", "srun", "--mpirun-arg=--mpi=none"), PLAIN, 1, 2),
    ],
    ids=["torchrun on each node", "PMIx", "no MPI, on this node alone"],
)
def test_a_study_runs_on_the_nodes_of_its_allocation(
    slurm: Slurm, folder: Path, launcher: tuple[str, ...], program: str, nodes: int, ppn: int
) -> None:
    if program == PROGRAM and not PMIX.is_dir():
        pytest.skip("there is no PMIx for Slurm (Debian's package libpmix2)")
    options = (*launcher, "--ppn", str(ppn), "--oversubscribe-hosts")
    slurm.submit(folder, 0.3, *options, program=program, nodes=nodes)
    output = folder / "output"
    eventually(lambda: output.exists() and "Study study: finished" in output.read_text(), 180)
    for record in records(folder):
        assert f"ranks {nodes * ppn}" in Path(record.folder, "output.log").read_text()
    eventually(slurm.nodes_are_empty)


def test_scancel_empties_the_nodes(slurm: Slurm, folder: Path) -> None:
    job = slurm.submit(folder, 100)
    sleeper = ["sleep", "1000", ""]
    eventually(lambda: sum(sleeper in slurm.of_job(host) for host in slurm.bench.names) == 2)
    slurm.run("scancel", job)
    eventually(slurm.nodes_are_empty)
