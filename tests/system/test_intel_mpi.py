"""A study under a program that takes the words of Intel MPI's ``mpiexec.hydra``."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.light_trainer import environment, tune

pytestmark = pytest.mark.system

#: Starts ranks on this host, with what its Developer Reference documents.
HYDRA = """#!/bin/sh
if [ "$1" = --version ]; then
  echo 'Intel(R) MPI Library for Linux* OS, Version 2021.13 Build 20240701 (id: 179630a)'
  echo 'Copyright 2003-2024, Intel Corporation.'
  exit
fi
while :; do
  case $1 in
    -genv) export "$2=$3"; shift 3 ;;
    -n) export PMI_SIZE="$2"; shift 2 ;;
    -*) echo "unrecognized argument $1" >&2; exit 255 ;;
    *) break ;;
  esac
done
rank=0 pids=
while [ "$rank" -lt "$PMI_SIZE" ]; do
  PMI_RANK=$rank "$@" &
  pids="$pids $!" rank=$((rank + 1))
done
for pid in $pids; do wait "$pid" || exit; done
"""

#: Waits long unless both knobs have their best values.
PROGRAM = """#!/bin/sh
[ "$I_MPI_ADJUST_ALLREDUCE" = 8 ] || sleep 0.2
[ "$I_MPI_PIN" = 0 ] || sleep 0.2
echo "rank $PMI_RANK of $PMI_SIZE: $I_MPI_PIN $I_MPI_ADJUST_ALLREDUCE"
"""


def test_its_variables_are_tuned_and_exported(tmp_path: Path) -> None:
    for name, text in (("mpiexec.hydra", HYDRA), ("solver", PROGRAM)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    options = ("-n", "2", "--mpirun", "./mpiexec.hydra", "--objective", "wall", "--no-confirm")
    knobs = ("--knob", "impi_allreduce=unset,ring", "--knob", "bind_to=unset,none")
    done = tune(tmp_path, *options, *knobs, "--json", "-q", "--", "./solver")
    assert done.returncode == 0, done.stderr
    best = json.loads(done.stdout)["best"]["setting"]
    assert best == {"impi_allreduce": "ring", "bind_to": "none"}
    assert "Intel MPI 2021.13" in tune(tmp_path, "export").stdout
    tune(tmp_path, "export", "-o", "job.sh")
    env = environment(tmp_path)
    output = subprocess.check_output(["sh", "job.sh"], cwd=tmp_path, env=env, text=True)
    assert sorted(output.splitlines()) == ["rank 0 of 2: 0 8", "rank 1 of 2: 0 8"]
