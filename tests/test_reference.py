"""The reference says what the program says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_the_reference_is_up_to_date() -> None:
    made = subprocess.run(
        [sys.executable, "-c", "import make_reference; print(make_reference.reference(), end='')"],
        cwd=ROOT / "docs",
        capture_output=True,
        text=True,
        check=True,
    )
    assert made.stdout == (ROOT / "docs" / "reference.md").read_text(), "run `make docs`"


def test_the_readme_has_every_exit_code() -> None:
    from tuner.cli.exits import MEANINGS

    readme = (ROOT / "README.md").read_text()
    for code, meaning in MEANINGS:
        assert f"| {code} | {meaning} |" in readme


def test_the_readme_has_every_option() -> None:
    """Each option stands in the reference; those of the README exist."""
    import re

    known = set(re.findall(r"--[a-z][a-z-]+", (ROOT / "docs" / "reference.md").read_text()))
    readme = (ROOT / "README.md").read_text()
    tune_lines = [line for line in readme.splitlines() if "tune" in line and "pip" not in line]
    for option in re.findall(r"`(--[a-z][a-z-]+)", "\n".join(tune_lines)):
        assert option in known or option in {"--build-constraint", "--env-file"}, option
