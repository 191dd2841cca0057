"""``tune export``: formats, files and what is refused."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from tests.cli.conftest import Tune, store_study
from tests.study_samples import setting, study
from tuner.model import BASELINE


def export(tune: Tune, database: Path, *args: str) -> tuple[int, str, str]:
    return tune("export", "--storage", str(database), *args)


def test_a_script_goes_to_stdout_by_default(tune: Tune, database: Path) -> None:
    code, out, err = export(tune, database)
    assert (code, err) == (0, "")
    assert out.startswith("#!/bin/sh\n")


@pytest.mark.parametrize(
    ("filename", "start"),
    [
        ("a.sh", "#!/bin/sh"),
        ("a.env", "# study:"),
        ("a.json", "{"),
        ("a.csv", "kind,"),
        ("a.md", "- "),
    ],
)
def test_the_suffix_chooses_the_format(
    tune: Tune, database: Path, tmp_path: Path, filename: str, start: str
) -> None:
    code, out, err = export(tune, database, "-o", filename)
    assert (code, out) == (0, "")
    assert f"wrote {filename}" in err
    assert (tmp_path / filename).read_text().startswith(start)


def test_the_format_wins_over_the_suffix(tune: Tune, database: Path, tmp_path: Path) -> None:
    export(tune, database, "--format", "json", "-o", "a.sh")
    assert json.loads((tmp_path / "a.sh").read_text())["schema"] == "tuner.export/1"


def test_only_a_script_is_executable_and_umask_holds(
    tune: Tune, database: Path, tmp_path: Path
) -> None:
    before = os.umask(0o077)
    try:
        export(tune, database, "-o", "a.sh")
        export(tune, database, "-o", "a.md")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a.sh").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "a.md").stat().st_mode) == 0o600


def test_a_file_is_replaced_whole_and_no_draft_stays(
    tune: Tune, database: Path, tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a.md").write_text("old")
    export(tune, database, "-o", "out/a.md")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["a.md"]
    assert "old" not in (tmp_path / "out" / "a.md").read_text()


def test_a_missing_folder_is_one_error(tune: Tune, database: Path) -> None:
    code, _, err = export(tune, database, "-o", "no/such/a.sh")
    assert code == 2
    assert err.startswith("tune: error: cannot write no/such/a.sh: No such file or directory\n")


def test_a_folder_is_no_file(tune: Tune, database: Path, tmp_path: Path) -> None:
    assert export(tune, database, "-o", str(tmp_path))[0] == 2


def test_a_folder_without_permission_is_one_error(tune: Tune, database: Path) -> None:
    code, _, err = export(tune, database, "-o", "/sys/a.sh")  # not even root may write there
    assert code == 2
    assert "Permission denied" in err


def test_an_unknown_format_is_one_error(tune: Tune, database: Path) -> None:
    code, _, err = export(tune, database, "--format", "yaml")
    assert code == 2
    assert "yaml" in err
    assert "sh, env, json" in err


def test_what_a_format_cannot_carry_is_said_on_stderr(tune: Tune, database: Path) -> None:
    _, out, err = export(tune, database, "--format", "env")
    assert "OMP_NUM_THREADS=1\n" in out
    assert "tune: warning: an environment cannot carry iterator_workers=1\n" in err


def test_defaults_that_stay_best_are_handed_over_and_said(tune: Tune, tmp_path: Path) -> None:
    path = store_study(tmp_path / "x.db", study({BASELINE: 1.0, setting(omp_threads=1): 2.0}))
    code, out, err = export(tune, path)
    assert code == 0
    assert "OMP_NUM_THREADS" not in out
    assert "nothing was faster than your defaults" in err


def test_nothing_measured_is_refused(tune: Tune, tmp_path: Path) -> None:
    path = store_study(tmp_path / "x.db", study({BASELINE: None}))
    code, out, err = export(tune, path)
    assert (code, out) == (2, "")
    assert "no measured setting" in err
