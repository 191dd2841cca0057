"""A launch line is parsed, not guessed: what ``tune init`` makes of it, and what ``--`` refuses."""

from __future__ import annotations

import os
import shlex
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cli.conftest import Tune
from tuner.launch.launch_syntax import HYDRA, MPIS, OPEN_MPI_4, OPEN_MPI_5, SRUN, TORCHRUN, Syntax
from tuner.launch.launch_syntax import Role as R

SAYS = {
    OPEN_MPI_4.name: "mpirun (Open MPI) 4.1.8",
    OPEN_MPI_5.name: "mpirun (Open MPI) 5.0.11",
    HYDRA.name: "HYDRA build details:\n    Version:      4.2.3",
    SRUN.name: "slurm 23.02.3",
    TORCHRUN.name: "torchrun of torch 2.9.0",
}
PROGRAMS = {SRUN.name: "srun", TORCHRUN.name: "python"}


def script(path: Path, says: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)
    return path


Install = Callable[[Syntax | None], None]


@pytest.fixture
def install(tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Puts a launcher that says its version on PATH, and programs into the folder; None: none."""
    monkeypatch.setenv("TUNE_MPIRUN", str(tmp_path / "bin" / "mpirun"))  # of no other folder
    script(tmp_path / "solver", "")
    script(tmp_path / "bin" / "python3", "")
    for name in ("t.py", "sub/t.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "hosts").write_text("localhost slots = 4\n")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}/usr/bin{os.pathsep}/bin")
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)

    def put(syntax: Syntax | None) -> None:
        if syntax:
            names = [PROGRAMS[syntax.name]] if syntax.name in PROGRAMS else ["mpirun", "mpiexec"]
            for name in names:
                script(tmp_path / "bin" / name, SAYS[syntax.name])

    return put


def study_of(text: str) -> dict[str, Any]:
    document = tomllib.loads(text)
    return {key: value for key, value in document.items() if key not in ("objective", "knobs")}


O4, O5 = OPEN_MPI_4, OPEN_MPI_5
LINES: list[tuple[Syntax | None, str, dict[str, Any]]] = [
    (None, "./solver -n 3", {"command": "./solver -n 3", "mpi_procs": 1}),
    (None, "time ./solver", {"command": "time ./solver", "mpi_procs": 1}),
    # Values of options that are programs, too.
    (O4, "mpirun --mca pml ob1 --mca btl_openib_allow_ib true --mca btl ^uct -np 2 ./solver",
     {"command": "./solver", "mpi_procs": 2, "mpirun_args": shlex.split(
         "--mca pml ob1 --mca btl_openib_allow_ib true --mca btl ^uct")}),
    (O5, "mpirun -mca plm_rsh_agent ssh -np 2 python3 t.py",
     {"command": "python3 t.py", "mpi_procs": 2, "mpirun_args": ["-mca", "plm_rsh_agent", "ssh"]}),
    (O5, "mpirun --prtemca plm_ssh_agent ssh -n 2 ./solver",
     {"command": "./solver", "mpi_procs": 2,
      "mpirun_args": ["--prtemca", "plm_ssh_agent", "ssh"]}),
    (O5, "mpirun --allow-run-as-root --oversubscribe --np=4 --tag-output -- ./solver -np 3",
     {"command": "./solver -np 3", "mpi_procs": 4,
      "mpirun_args": ["--oversubscribe", "--tag-output"]}),
    (O5, "mpirun --oversub -n4 ./solver",
     {"command": "./solver", "mpi_procs": 4, "mpirun_args": ["--oversub"]}),
    (O4, "mpiexec -c 3 --rankfile true --report-bindings ./solver",
     {"command": "./solver", "mpi_procs": 3,
      "mpirun_args": ["--rankfile", "true", "--report-bindings"]}),
    # One option that takes a word with one Open MPI, and none with the other.
    (O4, "mpirun -n 2 --display-topo ./solver",
     {"command": "./solver", "mpi_procs": 2, "mpirun_args": ["--display-topo"]}),
    (O5, "mpirun -n 2 --display-topo true ./solver",
     {"command": "./solver", "mpi_procs": 2, "mpirun_args": ["--display-topo", "true"]}),
    # Hosts, hostfiles and variables.
    (O5, "mpirun -np 4 -H server1:2,server2:2 -bind-to none -map-by slot -x NCCL_DEBUG=INFO"
         " -x PATH -mca btl ^openib python3 t.py",
     {"command": "python3 t.py", "mpi_procs": 4, "hosts": "server1:2,server2:2",
      "mpirun_args": shlex.split("--bind-to none --map-by slot -x NCCL_DEBUG=INFO -x PATH"
                                 " -mca btl ^openib")}),
    (O4, "mpirun -H localhost,localhost,localhost ./solver",
     {"command": "./solver", "hosts": "localhost,localhost,localhost"}),
    (O5, "mpirun -np 3 --host a:2,b --host c:1 ./solver",
     {"command": "./solver", "mpi_procs": 3, "hosts": "a:2,b:1,c:1"}),
    (O5, "mpirun -np 4 --hostfile hosts --oversubscribe ./solver",
     {"command": "./solver", "mpi_procs": 4, "hostfile": "hosts", "more_ranks_than_slots": True}),
    (O5, "mpirun -machinefile later -pernode ./solver",
     {"command": "./solver", "hostfile": "later", "ppn": 1}),
    # MPICH and Intel MPI.
    (HYDRA, "mpiexec -genv I_MPI_DEBUG 5 -genv A=1 -ppn 2 -n 4 -l ./solver",
     {"command": "./solver", "mpi_procs": 4,
      "mpirun_args": ["-genv", "I_MPI_DEBUG", "5", "-genv", "A=1", "-l"]}),
    (HYDRA, "mpiexec -f hosts -n=2 -bind-to=core ./solver -l",
     {"command": "./solver -l", "mpi_procs": 2, "hostfile": "hosts",
      "mpirun_args": ["--bind-to=core"]}),
    (HYDRA, "mpirun ./solver", {"command": "./solver", "mpi_procs": 1}),
    # Nobody can say whose mpirun it is, and it makes no difference.
    (None, "mpirun -np 2 -x A ./solver",
     {"command": "./solver", "mpi_procs": 2, "mpirun_args": ["-x", "A"]}),
    (None, "/opt/none/mpiexec.hydra -hosts localhost:2 -n 2 ./solver",
     {"command": "./solver", "mpi_procs": 2, "hosts": "localhost:2",
      "mpirun": "/opt/none/mpiexec.hydra"}),
    (SRUN, "srun -n4 -c 2 -lu --cpu-bind=cores -K1 -p short ./solver -n 3",
     {"command": "./solver -n 3", "launcher": "srun", "mpi_procs": 4, "mpirun_args": shlex.split(
         "-c 2 -l -u --cpu-bind=cores -p short")}),
    (SRUN, "srun --ntasks 4 -N2 -w n[1-2] ./solver",
     {"command": "./solver", "launcher": "srun", "mpi_procs": 4, "ppn": 2, "hosts": "n1,n2"}),
    (SRUN, "srun --nodes=2 --ntasks-per-n=3 ./solver",
     {"command": "./solver", "launcher": "srun", "mpi_procs": 6, "ppn": 3}),
    (TORCHRUN, "torchrun --standalone --nproc_per_node=4 --max-restarts 0 t.py --n 2",
     {"command": "python t.py --n 2", "launcher": "torchrun", "mpi_procs": 4,
      "mpirun_args": ["--max-restarts", "0"]}),
    (TORCHRUN, "torchrun --no-python --nproc-per-node 2 ./solver x",
     {"command": "./solver x", "launcher": "torchrun", "mpi_procs": 2}),
    (TORCHRUN, "torchrun --nnodes=1 t.py",
     {"command": "python t.py", "launcher": "torchrun", "mpi_procs": 1}),
    (TORCHRUN, "python3 -u -m torch.distributed.run --nproc-per-node 4 -m pkg.train",
     {"command": "python3 -u -m pkg.train", "launcher": "torchrun", "mpi_procs": 4}),
    # What stands before the launcher and changes nothing.
    (O5, "time -p mpirun -n 2 ./solver", {"command": "./solver", "mpi_procs": 2}),
    (O5, "nohup timeout -k 5 60 stdbuf -oL mpirun -n 2 ./solver",
     {"command": "./solver", "mpi_procs": 2}),
    (O5, "bash -lc 'exec mpirun -n 2 ./solver \"a b\"'",
     {"command": "./solver 'a b'", "mpi_procs": 2}),
    (O5, "mpirun -n 2 env A=1 ./solver", {"command": "env A=1 ./solver", "mpi_procs": 2}),
]  # fmt: skip


@pytest.mark.parametrize(("syntax", "line", "study"), LINES)
def test_what_init_makes_of_a_line(
    tune: Tune, install: Install, syntax: Syntax | None, line: str, study: dict[str, Any]
) -> None:
    install(syntax)
    done = tune("init", "-", "--", *shlex.split(line))
    assert done.code == 0, done.err
    assert study_of(done.out) == study


REFUSED: list[tuple[Syntax | None, str, str, str]] = [
    (O5, "mpiexec -n 1 ./solver a : -n 3 ./solver b", "`:` starts several programs", "sh -c"),
    (O5, "mpirun --app file", "--app file starts several programs", ""),
    (SRUN, "srun --multi-prog file", "--multi-prog starts several programs", ""),
    (O5, "mpirun -np 2 --bogus 3 ./solver", "'--bogus' is no option of Open MPI 5", "mpirun_args"),
    (O4, "mpirun -np 2 --bind-too none ./solver", "'--bind-too' is no option", "--bind-to?"),
    (SRUN, "srun --ntask 3 ./solver", "'--ntask' is no option of srun", "mean --ntasks?"),
    (O5, "mpirun -np", "-np of Open MPI 5 takes another word", ""),
    (O5, "mpirun -np all ./solver", "-np all: 'all' is no fixed number", ""),
    (O5, "mpirun -n 0 ./solver", "-n 0: '0' is no fixed number", ""),
    (O5, "mpirun -n 2 -wdir sub python3 t.py", "-wdir sub runs the program elsewhere", "cd sub"),
    (SRUN, "srun -n 2 --chdir=sub python3 t.py", "--chdir=sub runs the program else", "cd sub"),
    (O5, "mpirun -n 2 -ppn 2 ./solver", "'-ppn' is no option of Open MPI 5",
     "it is one of MPICH or Intel MPI: put the mpirun that the line is for first on PATH"),
    (HYDRA, "mpirun -n 2 --oversubscribe ./solver", "'--oversubscribe' is no option of MPICH",
     "it is one of Open MPI 5"),
    (O5, "mpirun ./solver", "without a number of ranks", "mpirun -n 4"),
    (O5, "mpirun -n 2 -H a --hostfile hosts ./solver", "names hosts more than once", ""),
    (O5, "mpirun -n 2 -H me@h1 ./solver", "names a user", "ssh/config"),
    (O5, "mpirun -n 5 --hostfile hosts ./solver", "--mpi-procs 5, but --hostfile hosts", ""),
    (None, "mpirun -n 2 --display-topo true ./solver", "depends on whose mpirun it is", "path"),
    (TORCHRUN, "torchrun --nnodes 2 t.py", "--nnodes 2 is typed once on each host", "hosts ="),
    (TORCHRUN, "torchrun --nproc_per_node gpu t.py", "'gpu' is no fixed number above 0", "4"),
    (O5, "env OMP_NUM_THREADS=4 mpirun -n 2 ./solver", "OMP_NUM_THREADS=4 before mpirun",
     "export OMP_NUM_THREADS=4\n        tune init -- mpirun -n 2 ./solver"),
    (O5, "A=1 mpirun -n 2 ./solver", "A=1 before mpirun", "export A=1"),
    (O5, "numactl -N 0 mpirun -n 2 ./solver", "`numactl -N 0` before mpirun", "numactl -N 0 tune"),
    (O5, "taskset -c 0-3 mpirun -n 2 ./solver", "`taskset -c 0-3` before mpirun", ""),
    (O5, "nice -n 5 mpirun -n 2 ./solver", "`nice -n 5` before mpirun", ""),
    (O5, "sh -c 'cd sub && mpirun -n 2 ../solver'", "does more than start mpirun", ""),
    (O5, "mpirun -n 2 torchrun t.py", "begins with torchrun", "--launcher torchrun"),
    (None, "accelerate launch --num_processes 2 t.py", "begins with accelerate launch",
     "--launcher torchrun"),
    (None, "horovodrun -np 2 python3 t.py", "begins with horovodrun", "tune -n RANKS"),
    (O5, "mpirun -n 2 ./solver --password s3cr3t-word", "--password '***'", '"$PASSWORD"'),
    (O5, "mpirun -n 2 -x API_TOKEN=abcdef123456 ./solver", "'API_TOKEN=***'", "export API_TOKEN"),
]  # fmt: skip


@pytest.mark.parametrize(("syntax", "line", "message", "hint"), REFUSED)
def test_what_init_refuses(
    tune: Tune,
    install: Install,
    tmp_path: Path,
    syntax: Syntax | None,
    line: str,
    message: str,
    hint: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install(syntax)
    if syntax is None:  # the system's own launcher is hidden, too
        monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    done = tune("init", "my.toml", "--", *shlex.split(line))
    assert (done.code, done.err.count("tune: error:")) == (2, 1), done.err
    assert message in done.err
    assert hint in done.err.partition("next:")[2]
    assert "s3cr3t" not in done.err
    assert "abcdef123456" not in done.err
    assert not (tmp_path / "my.toml").exists()


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        ("mpirun -n 2 ./solver", "begins with mpirun, but tune starts", "tune init -- mpirun"),
        ("env A=1 mpirun -n 2 ./solver", "mpirun behind env", "tune -n RANKS"),
        ("A=1 mpirun -n 2 ./solver", "begins with mpirun behind A=", ""),
        ("time mpirun ./solver", "mpirun behind time", ""),
        ("nice -n 5 srun ./solver", "srun behind nice", "--launcher srun"),
        ("numactl -N0 -m0 /opt/bin/mpiexec ./solver", "mpiexec behind numactl", ""),
        ("taskset 0x3 mpirun ./solver", "mpirun behind taskset", ""),
        ("timeout -s KILL 60 mpirun ./solver", "mpirun behind timeout", ""),
        ("stdbuf -oL mpirun ./solver", "mpirun behind stdbuf", ""),
        ("nohup mpirun ./solver", "mpirun behind nohup", ""),
        ("bash -c 'cd x; if true; then exec mpirun ./solver; fi'", "mpirun behind bash", ""),
        ("python -u -m torch.distributed.run t.py", "begins with torchrun", "--launcher torchrun"),
        ("accelerate launch t.py", "which starts ranks itself", "--launcher torchrun"),
        ("python -m accelerate.commands.launch t.py", "accelerate launch", ""),
        ("deepspeed t.py", "begins with deepspeed", "--launcher torchrun"),
        ("jsrun -n 2 ./solver", "begins with jsrun, which starts ranks itself", ""),
        ("OMP_NUM_THREADS=1 python3 t.py", "begins with OMP_NUM_THREADS=…", "before tune"),
        ("./solver a : -n 3 ./solver b", "`:` starts several programs", ""),
    ],
)
def test_after_dashes_a_launcher_is_seen_and_refused(
    tune: Tune, install: Install, line: str, message: str, hint: str
) -> None:
    install(O5)
    done = tune("-n", "2", "--objective", "wall", "--dry-run", "--", *shlex.split(line))
    assert (done.code, done.err.count("tune: error:")) == (2, 1)
    assert message in done.err
    assert hint in done.err.partition("next:")[2]


@pytest.mark.parametrize(
    "line", ["numactl --membind=0 ./solver", "sh -c 'exec ./solver mpirun'", "accelerate config",
             "env A=1 ./solver mpirun", "python3 t.py mpirun -n 2"]
)  # fmt: skip
def test_a_word_that_only_looks_like_a_launcher_is_left_alone(
    tune: Tune, install: Install, tmp_path: Path, line: str
) -> None:
    install(O5)
    for name in ("accelerate", "numactl"):
        script(tmp_path / "bin" / name, "")
    done = tune("-n", "2", "--objective", "wall", "--dry-run", "--", *shlex.split(line))
    assert done.code == 0, done.err


def test_what_stood_before_the_launcher_and_what_is_missing_is_told(
    tune: Tune, install: Install
) -> None:
    done = tune("init", "--", *shlex.split("time mpirun -n 2 --hostfile later ./solver"))
    assert "left out: time" in done.err
    assert "the hostfile later does not exist yet" in done.err
    assert "TUNE_MPIRUN: there is no " in done.err


@pytest.mark.parametrize(
    ("options", "is_told"), [("-n 1", True), ("-n 1 --bind-to core", False), ("-n 2", False)]
)
def test_one_rank_that_mpirun_would_bind_is_told(
    tune: Tune, install: Install, options: str, is_told: bool
) -> None:
    install(O5)
    done = tune("init", "-", "--", *shlex.split(f"mpirun {options} ./solver"))
    assert ("tune starts one rank unbound" in done.err) == is_told


def test_the_mpirun_that_was_typed_is_the_one_that_tune_takes(
    tune: Tune, install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(O5)
    monkeypatch.delenv("TUNE_MPIRUN")
    python = script(tmp_path / "venv" / "python", "")
    script(tmp_path / "venv" / "mpirun", SAYS[HYDRA.name])
    done = tune("init", "-", "--", *f"mpirun -n 2 {python} t.py".split())
    assert study_of(done.out)["mpirun"] == "mpirun", "on PATH, not the one beside the interpreter"


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        (["--map-by ppr:2:node"], "--map-by ppr:2:node"),
        (["--map-by", "ppr:2:node", "-x 'A=b c'"], "--map-by ppr:2:node -x 'A=b c'"),
    ],
)
def test_arguments_for_mpirun_are_split_as_a_shell_would(
    tune: Tune, install: Install, typed: list[str], words: str
) -> None:
    install(O5)
    arguments = [word for text in typed for word in ("--mpirun-arg", text)]
    done = tune(*arguments, "--objective", "wall", "--dry-run", "--", "./solver")
    assert done.code == 0, done.err
    assert f" {words} -n 2 " in done.out
    done = tune("--mpirun-arg", "-x 'A", "--dry-run", "--", "./solver")
    assert done.code == 2
    assert "--mpirun-arg -x 'A: a quotation is not closed" in done.err


# --- for every option of every table -----------------------------------------------------------


@st.composite
def lines(draw: st.DrawFn) -> tuple[Syntax, list[str], list[str]]:
    """A launcher, options of its table with values that could be programs, and a program."""
    syntax = draw(st.sampled_from([*MPIS, SRUN, TORCHRUN]))
    values = {R.RANKS: "4", R.NODES: "1", R.RANKS_PER_HOST: "4", R.HOSTS: "localhost:4",
              R.HOSTFILE: "hosts"}  # fmt: skip
    words = []
    for name in draw(st.lists(st.sampled_from(sorted(syntax.arity)), max_size=5, unique=True)):
        two = len(name) > 1 and (syntax.is_gnu or draw(st.booleans()))
        odd = st.sampled_from(["true", "7", "./solver", "env", "^ofi", "a.b", "mpirun"])
        value = [values.get(syntax.roles.get(name, R.OURS)) or draw(odd)]
        value = (value * 2)[: syntax.arity[name]]
        is_joined = two and len(value) == 1 and draw(st.booleans())
        option = f"--{name}" if two else f"-{name}"
        words += [f"{option}={value[0]}"] if is_joined else [option, *value]
    ranks = {TORCHRUN.name: "--nproc-per-node"}.get(syntax.name, "-n")
    program = draw(st.sampled_from([["./solver"], ["./solver", "-n", "3"], ["./solver", "true"]]))
    return syntax, [*words, ranks, "4"], program


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines())
def test_the_program_begins_where_the_options_end_and_tune_takes_what_init_writes(
    tune: Tune,
    install: Install,
    monkeypatch: pytest.MonkeyPatch,
    line: tuple[Syntax, list[str], list[str]],
) -> None:
    syntax, options, program = line
    install(syntax)
    name = syntax.name if syntax in (SRUN, TORCHRUN) else "mpirun"
    with monkeypatch.context() as changed:
        if syntax is SRUN:
            changed.setenv("SLURM_JOB_ID", "1")
        written = tune("init", "--force", "my.toml", "--", name, *options, *program)
        if written.code:
            assert (written.code, written.err.count("tune: error:")) == (2, 1), written.err
            assert "no option" not in written.err
            return
        study = study_of(Path("my.toml").read_text())
        assert study["command"].removeprefix("python ").removeprefix("-m ") == shlex.join(program)
        assert study["mpi_procs"] == 4
        shown = tune("--study", "my.toml", "--storage", "s.db", "--dry-run")
        assert shown.code == 0, (options, shown.err)
