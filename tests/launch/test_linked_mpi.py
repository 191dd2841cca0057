"""Which MPI a compiled program is linked with."""

from __future__ import annotations

from pathlib import Path

from tuner.launch.linked_mpi import mismatch


def linked(library: Path | str) -> str:
    name = Path(library).name
    return (
        f"\tlinux-vdso.so.1 (0x7ffd)\n\t{name} => {library} (0x7f12)\n\tlibc.so.6 => /lib/libc.so.6"
    )


def test_an_mpi_that_is_not_mpiruns_is_named_with_its_own_mpirun(tmp_path: Path) -> None:
    said = mismatch(linked("/opt/mpich/lib/libmpi.so.12"), "openmpi")
    assert "linked with MPICH" in said and said.endswith("--mpirun PATH")
    assert "(/opt/mpich/lib/libmpi.so.12), and mpirun is Open MPI's" in said
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/mpirun").touch()
    said = mismatch(linked(tmp_path / "lib/libmpi.so.40"), "mpich")
    assert "linked with Open MPI" in said and said.endswith(f"--mpirun {tmp_path}/bin/mpirun")


def test_the_same_mpi_or_none_is_no_mismatch() -> None:
    assert mismatch(linked("/opt/x/libmpi.so.40"), "openmpi") == ""
    assert mismatch(linked("/opt/x/libmpi.so.12"), "mpich") == ""
    assert mismatch("\tnot a dynamic executable\n", "openmpi") == ""
