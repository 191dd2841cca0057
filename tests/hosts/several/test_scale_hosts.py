"""How far a job scales over hosts depends on the link between them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.hosts.several.bench import Bench
from tests.marked import eventually

pytestmark = [pytest.mark.system, pytest.mark.slow]

#: The ranks share the work, and exchange 500 kB after each part of it.
PROGRAM = """
import time
from mpi4py import MPI
world, data, began_s = MPI.COMM_WORLD, bytearray(500_000), time.monotonic()
for part in range(4):
    time.sleep(0.3 / world.size)
    world.Allreduce(MPI.IN_PLACE, [data, MPI.BYTE], MPI.BOR)
if world.rank == 0:
    print("took", time.monotonic() - began_s)
"""


def test_a_slow_link_turns_the_verdict(
    bench: Bench, folder: Path, require_program: Callable[[str], str]
) -> None:
    require_program("tc")
    (folder / "program.py").write_text(PROGRAM)

    def verdict(name: str) -> str:
        words = [
            str(Path(sys.executable).parent / "tune"),
            *("scale", "--hosts", "h1:1,h2:1", "--setting", "defaults", "--rounds", "3", "--name"),
            *(name, "--objective", "pattern:took ([0-9.]+)", "--unit", "s", "--storage"),
            *(str(folder / "scale.db"), "--", sys.executable, str(folder / "program.py")),
        ]
        env = {**os.environ}
        done = bench.run("h1", *words, env=env, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        eventually(lambda: not bench.processes("h2"))
        return done.stdout.splitlines()[-1]

    assert verdict("fast").startswith("2 hosts: 1.")
    with bench.slowed("h2", "eth0", 8):
        assert verdict("slow").startswith("2 hosts: not worth it, 0.")
