"""A study of the shipped trainer whose settings are measured in a running job.

Faults of such jobs are in `test_campaigns.py`.
"""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.light_trainer import tune
from tests.marked import marked

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(find_spec("chainer") is None, reason="needs the extra `chainer`"),
]

#: Not confirmed: that is launches, as without windows.
STUDY = (
    *("--study", "chainer_mnist", "-n", "2", "--trials", "2", "--fix", "iterator_workers=1"),
    *("--mpirun-arg", "--bind-to none"),
    *("--min-gain", "20%", "--no-confirm", "--live", "on", "--json"),
)


def test_one_job_measures_the_settings_of_a_search(tmp_path: Path) -> None:
    done = tune(tmp_path, *STUDY, TUNE_STORAGE=str(tmp_path / "tune.db"))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["windows"] > found["jobs"], "a job has measured several settings"
    assert found["launches"] - found["windows"] == 2, "the warm-up and the baseline"
    assert found["best"]["windows"] == len(found["best"]["samples"]) > 0
    assert "(job 2)" in done.stderr, "the first launch after the warm-up went on"
    assert marked(str(tmp_path), "TUNE_LOCK_DIR") == []
