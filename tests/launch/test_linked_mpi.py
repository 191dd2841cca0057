"""Which MPI a compiled program is linked with."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuner.launch.linked_mpi import mismatch


@pytest.mark.parametrize(
    ("library", "kind", "said"),
    [
        ("/opt/mpich/lib/libmpi.so.12", "openmpi", "linked with MPICH"),
        ("/opt/ompi/lib/libmpi.so.40", "mpich", "linked with Open MPI"),
        ("/opt/x/libmpi.so.40", "openmpi", ""),
        ("/opt/x/libmpi.so.12", "mpich", ""),
        ("/lib/libc.so.6", "openmpi", ""),
    ],
)
def test_an_mpi_that_is_not_mpiruns_is_named(library: str, kind: str, said: str) -> None:
    text = f"\tlinux-vdso.so.1 (0x7ffd)\n\t{Path(library).name} => {library} (0x7f12)\n"
    message = mismatch(text, kind)
    assert said in message and bool(message) == bool(said)
    assert not said or message.endswith("--mpirun PATH")
