"""``tune demo``: what it leaves in the current folder, and what it says if it may not write."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Tune


def test_a_place_that_cannot_be_written_is_named(tune: Tune, tmp_path: Path) -> None:
    (tmp_path / "tune-demo").touch()
    done = tune("demo")
    assert done.code == 2
    assert "the demo cannot write to ./tune-demo" in done.err


@pytest.mark.system
@pytest.mark.slow
def test_the_demo_ends_with_a_verdict_and_a_report(
    tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNE_LOCK_DIR", str(tmp_path))
    done = tune("demo", "--quiet")
    assert done.code == 0, done.err
    assert "Study demo-n4: finished" in done.out
    assert "your defaults" in done.out
    assert "wrote tune-demo/report.html" in done.err
    assert (tmp_path / "tune-demo" / "report.html").is_file()
