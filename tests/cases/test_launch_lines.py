"""A launch line is parsed, not guessed: what ``tune init`` makes of it, and what ``--`` refuses."""

from __future__ import annotations

import os
import shlex
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Tune

#: What launchers say of their version.
O5 = "mpirun (Open MPI) 5.0.11"
HYDRA = "HYDRA build details:\n    Version:      4.2.3"
SLURM = "slurm 23.02.3"
TORCH = "torchrun of torch 2.9.0"
#: No launcher, not even that of the system.
HIDDEN = "hidden"
PROGRAMS: dict[str, tuple[str, ...]] = {"": (), HIDDEN: (), SLURM: ("srun",), TORCH: ("python",)}


def script(path: Path, says: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)


Install = Callable[[str], None]


@pytest.fixture
def install(tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Puts a launcher that says this on PATH, and programs into the folder; empty: none."""
    monkeypatch.setenv("TUNE_MPIRUN", str(tmp_path / "bin" / "mpirun"))  # of no other folder
    script(tmp_path / "solver", "")
    script(tmp_path / "bin" / "python3", "")
    for name in ("t.py", "sub/t.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "hosts").write_text("localhost slots = 4\n")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}/usr/bin{os.pathsep}/bin")
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)

    def put(says: str) -> None:
        if says == HIDDEN:
            monkeypatch.setenv("PATH", str(tmp_path / "bin"))
        for name in PROGRAMS.get(says, ("mpirun", "mpiexec")):
            script(tmp_path / "bin" / name, says)

    return put


LINES: list[tuple[str, str, dict[str, Any]]] = [
    *(("", line, {"command": line, "mpi_procs": 1, "launcher": "none"}) for line in (
        "time ./solver -n 3",
        "nice -n 5 ./solver -b mpirun", "stdbuf -oL ./solver -b mpirun",
        "time -v ./solver -b mpirun", "env A=1 3dsolver -b mpirun",
    )),
    # Values of options that are programs, too.
    (O5, "mpirun --mca btl_openib_allow_ib true -mca plm_rsh_agent ssh -np 2 ./solver",
     {"command": "./solver", "mpi_procs": 2, "mpirun_args": shlex.split(
         "--mca btl_openib_allow_ib true -mca plm_rsh_agent ssh")}),
    (O5, "mpirun --allow-run-as-root --oversubscribe --np=4 --tag-output -- ./solver -np 3",
     {"command": "./solver -np 3", "mpi_procs": 4,
      "mpirun_args": ["--oversubscribe", "--tag-output"]}),
    (O5, "mpirun -n4 --of-another-version ./solver",
     {"command": "./solver", "mpi_procs": 4, "mpirun_args": ["--of-another-version"]}),
    # Hosts, hostfiles and variables.
    (O5, "mpirun -np 4 -H server1:2,server2:2 -bind-to none -x NCCL_DEBUG=INFO python3 t.py",
     {"command": "python3 t.py", "mpi_procs": 4, "hosts": "server1:2,server2:2",
      "mpirun_args": shlex.split("-bind-to none -x NCCL_DEBUG=INFO")}),
    (O5, "mpirun -np 3 --host a:2,b --host c:1 ./solver",
     {"command": "./solver", "mpi_procs": 3, "hosts": "a:2,b:1,c:1"}),
    (O5, "mpirun -np 4 --hostfile hosts --oversubscribe ./solver",
     {"command": "./solver", "mpi_procs": 4, "hostfile": "hosts", "more_ranks_than_slots": True}),
    (O5, "mpirun -machinefile later -pernode ./solver",
     {"command": "./solver", "hostfile": "later", "ppn": 1}),
    (HYDRA, "mpiexec -genv I_MPI_DEBUG 5 -genv A=1 -ppn 2 -n 4 -l ./solver",
     {"command": "./solver", "mpi_procs": 4,
      "mpirun_args": ["-genv", "I_MPI_DEBUG", "5", "-genv", "A=1", "-l"]}),
    ("", "/opt/none/mpiexec.hydra -hosts localhost:2 -n 2 ./solver",
     {"command": "./solver", "mpi_procs": 2, "hosts": "localhost:2",
      "mpirun": "/opt/none/mpiexec.hydra"}),
    (SLURM, "srun -n4 -c 2 -lu --cpu-bind=cores -K1 -p short ./solver -n 3",
     {"command": "./solver -n 3", "launcher": "srun", "mpi_procs": 4, "mpirun_args": shlex.split(
         "-c 2 -l -u --cpu-bind=cores -p short")}),
    (SLURM, "srun --ntasks 4 -N2 -w n[1-2] ./solver",
     {"command": "./solver", "launcher": "srun", "mpi_procs": 4, "ppn": 2, "hosts": "n1,n2"}),
    (SLURM, "srun -n 8 --ntasks-per-node 4 ./solver",
     {"command": "./solver", "launcher": "srun", "mpi_procs": 8, "ppn": 4}),
    (TORCH, "torchrun --standalone --nproc_per_node=4 --max-restarts 0 t.py --n 2",
     {"command": "python t.py --n 2", "launcher": "torchrun", "mpi_procs": 4,
      "mpirun_args": ["--max-restarts", "0"]}),
    (TORCH, "torchrun --no-python --nproc-per-node 2 ./solver x",
     {"command": "./solver x", "launcher": "torchrun", "mpi_procs": 2}),
    (TORCH, "python3 -u -m torch.distributed.run --nproc-per-node 4 -m pkg.train",
     {"command": "python3 -u -m pkg.train", "launcher": "torchrun", "mpi_procs": 4}),
    (O5, "mpirun -n 2 env A=1 ./solver", {"command": "env A=1 ./solver", "mpi_procs": 2}),
]  # fmt: skip


@pytest.mark.parametrize(("says", "line", "study"), LINES)
def test_what_init_makes_of_a_line(
    tune: Tune, install: Install, says: str, line: str, study: dict[str, Any]
) -> None:
    install(says)
    done = tune("init", "-", "--", *shlex.split(line))
    assert done.code == 0, done.err
    if says and line.startswith(("mpirun", "mpiexec")):
        study = {"mpirun": shlex.split(line)[0], **study}  # the one that was typed
    document = tomllib.loads(done.out)
    assert {k: v for k, v in document.items() if k not in ("objective", "knobs")} == study


REFUSED: list[tuple[str, str, str, str]] = [
    (O5, "mpiexec -n 1 ./solver a : -n 3 ./solver b", "`:` starts several programs", "sh -c"),
    (SLURM, "srun --multi-prog file", "--multi-prog starts several programs", ""),
    (O5, "mpirun -np", "-np of mpirun takes another word", ""),
    (O5, "mpirun -np all ./solver", "-np all: 'all' is no fixed number", ""),
    (O5, "mpirun -n 2 -wdir sub python3 t.py", "-wdir sub runs the program elsewhere", "cd sub"),
    (O5, "mpirun ./solver", "without a number of ranks", "mpirun -n 4"),
    (O5, "mpirun -n 2 -H a --hostfile hosts ./solver", "names hosts more than once", ""),
    (TORCH, "torchrun --nnodes 2 t.py", "--nnodes 2 is typed once on each host", "hosts ="),
    (O5, "env OMP_NUM_THREADS=4 mpirun -n 2 ./solver", "no place for `env OMP_NUM_THREADS=4`",
     "tune init -- mpirun -n 2 ./solver"),
    (O5, "numactl -N 0 mpirun -n 2 ./solver", "`numactl -N 0` before mpirun", "leave it out"),
    (O5, "mpirun -n 2 torchrun t.py", "begins with torchrun", "--launcher torchrun"),
    (HIDDEN, "horovodrun -np 2 python3 t.py", "begins with horovodrun", "tune -n RANKS"),
    (O5, "mpirun -n 2 ./solver --password s3cr3t-word", "--password '***'", '"$PASSWORD"'),
    (O5, "mpirun -n 2 -x API_TOKEN=abcdef123456 ./solver", "-x 'API_TOKEN=***'", "export"),
    (O5, "mpirun -n 3 python3 none.py", "none.py", ""),
    (O5, "mpirun -n 3", "no command", ""),
    (O5, "", "no command", ""),
]  # fmt: skip


@pytest.mark.parametrize(("says", "line", "message", "hint"), REFUSED)
def test_what_init_refuses(
    tune: Tune, install: Install, tmp_path: Path, says: str, line: str, message: str, hint: str
) -> None:
    install(says)
    done = tune("init", "my.toml", "--", *shlex.split(line))
    assert (done.code, done.err.count("tune: error:")) == (2, 1), done.err
    assert message in done.err
    assert hint in done.err.partition("next:")[2]
    assert "s3cr3t" not in done.err and "abcdef123456" not in done.err
    assert not (tmp_path / "my.toml").exists()


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        ("mpirun -n 2 ./solver", "begins with mpirun, but tune starts", "tune init -- mpirun"),
        ("env A=1 mpirun -n 2 ./solver", "mpirun behind env", "tune -n RANKS"),
        ("nice -n 5 srun ./solver", "srun behind nice", "--launcher srun"),
        ("taskset ff timeout -s KILL .5 srun ./x", "srun behind taskset", "--launcher srun"),
        ("taskset 0x3 mpirun ./solver", "mpirun behind taskset", ""),
        ("python -u -m torch.distributed.run t.py", "begins with torchrun", "--launcher torchrun"),
        ("accelerate launch t.py", "which starts ranks itself", "--launcher torchrun"),
        ("python -m accelerate.commands.launch t.py", "accelerate launch", ""),
        ("jsrun -n 2 ./solver", "begins with jsrun, which starts ranks itself", ""),
        ("OMP_NUM_THREADS=1 python3 t.py", "begins with OMP_NUM_THREADS=…", "before tune"),
        ("./solver a : -n 3 ./solver b", "`:` starts several programs", ""),
        # These only look like a launcher.
        ("numactl --membind=0 ./solver", "", ""),
        ("accelerate config", "", ""),
        ("python3 t.py mpirun -n 2", "", ""),
    ],
)
def test_after_dashes_a_launcher_is_seen_and_refused(
    tune: Tune, install: Install, tmp_path: Path, line: str, message: str, hint: str
) -> None:
    install(O5)
    for name in ("accelerate", "numactl"):
        script(tmp_path / "bin" / name, "")
    done = tune("-n", "2", "--objective", "wall", "--dry-run", "--", *shlex.split(line))
    assert (done.code, done.err.count("tune: error:")) == ((2, 1) if message else (0, 0))
    assert message in done.err
    assert hint in done.err.partition("next:")[2]


def test_arguments_for_mpirun_are_split_as_a_shell_would(tune: Tune, install: Install) -> None:
    install(O5)
    typed = ("--map-by", "ppr:2:node", "-x 'A=b c'")
    arguments = [word for text in typed for word in ("--mpirun-arg", text)]
    done = tune(*arguments, "--objective", "wall", "--dry-run", "--", "./solver")
    assert done.code == 0, done.err
    assert " --map-by ppr:2:node -x 'A=b c' -n 2 " in done.out
    done = tune("--mpirun-arg", "-x 'A", "--dry-run", "--", "./solver")
    assert done.code == 2
    assert "--mpirun-arg" in done.err and "a quotation is not closed" in done.err
