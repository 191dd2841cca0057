"""Some trials of the soak (`make campaigns` runs many)."""

from __future__ import annotations

from pathlib import Path

import pytest

from campaigns import soak

pytestmark = [pytest.mark.system, pytest.mark.slow]

#: Eight in all, of two seeds, so that two processes can share them.
SEEDS = (1, 2)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_short_soak(seed: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("mpi4py")
    arguments = ["--trials", "4", "--seed", str(seed), "--jobs", "1"]
    code = soak.main([*arguments, "--json", str(tmp_path / "soak.json")])
    assert code == 0, capfd.readouterr().out
