"""Commands under the real mpirun that end with exit code 0 whatever becomes of their program."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.system.jobs import failed, finished, run, spec_of
from tuner.model import BASELINE, FailureKind, ObjectiveSpec

pytestmark = [pytest.mark.system, pytest.mark.slow]

#: What Python prints into a pipe comes below the traceback, unless it is flushed.
CRASH = "print('model starts'); raise ValueError('halo of 4')"
CAUGHT = """
import traceback
try:
    raise ValueError('halo of 4')
except ValueError:
    traceback.print_exc()
print('model done')
"""


@pytest.mark.parametrize(
    ("script", "died"),
    [
        ("{python} crash.py 2>&1 | cat", True),
        ("{python} crash.py 2>/dev/null | cat", True),
        ("[ $OMPI_COMM_WORLD_RANK = 1 ] && {python} crash.py; echo finished", True),
        ("{python} crash.py || {python} caught.py; echo finished", False),
    ],
)
def test_a_hidden_exit_code(tmp_path: Path, script: str, died: bool) -> None:
    (tmp_path / "crash.py").write_text(CRASH)
    (tmp_path / "caught.py").write_text(CAUGHT)
    spec = replace(
        spec_of(tmp_path, "", ranks=2),
        command=("bash", "-c", script.replace("{python}", sys.executable)),
        objective=ObjectiveSpec(kind="wall"),
        folder=str(tmp_path),
    )
    outcome = run(spec, BASELINE, tmp_path / "a trial")
    assert outcome.exit_code == 0
    if died:
        assert failed(outcome).kind is FailureKind.CRASHED
    else:
        finished(outcome)
