from __future__ import annotations

import json

from tests.cli.conftest import Tune
from tuner.knobs import names


def test_the_table_has_every_knob_and_says_why_one_does_not_apply(tune: Tune, mpirun: str) -> None:
    done = tune("knobs", "--mpirun", mpirun, "-n", "4")
    assert done.code == 0
    lines = done.out.splitlines()
    rows = [line.split()[0] for line in lines[1:] if not line.startswith(" ")]
    assert rows == list(names())
    for words in ("no: only MPICH", "yes, if omp_proc_bind", "changes numerics"):
        assert words in done.out


def test_one_row_has_its_reason_and_its_source(tune: Tune, mpirun: str) -> None:
    done = tune("knobs", "malloc_arenas", "--mpirun", mpirun)
    assert done.code == 0
    for word in ("why: Threads that", "mallopt.3.html", "MALLOC_ARENA_MAX", "allocator is glibc"):
        assert word in done.out


def test_as_json(tune: Tune, mpirun: str) -> None:
    document = json.loads(tune("knobs", "--mpirun", mpirun, "--json").out)
    assert document["schema"] == "tuner.knobs/1"
    rows = {row["name"]: row for row in document["knobs"]}
    assert list(rows) == list(names())
    assert rows["mpich_allreduce"]["applies"] is False
    assert rows["omp_places"]["when"] == {"omp_proc_bind": ["close", "spread"]}
    assert rows["omp_wait_policy"]["domain"] == {"values": ["unset", "active", "passive"]}
