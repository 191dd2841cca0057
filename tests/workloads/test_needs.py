"""What a trainer says in an interpreter that has not what it needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from workloads import needs

WORKLOADS = Path(needs.__file__).parent


@pytest.mark.parametrize("trainer", needs.MODULES)
def test_without_its_packages_a_trainer_names_them_and_the_extra(trainer: str) -> None:
    script = WORKLOADS / f"{trainer}.py"
    # -S: an interpreter without site-packages, and so without any of them.
    command = [sys.executable, "-S", str(script), "--benchmark"]
    done = subprocess.run(command, capture_output=True, text=True, env={}, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    lacks = " and no ".join(needs.MODULES[trainer])
    assert line.startswith(f"{trainer}.py: error: {sys.executable} has no {lacks}: start it ")
    assert line.endswith(f"in a checkout: {needs.INSTALL} '.[{needs.extra(trainer)}]'")


def test_rank_0_says_it_for_all(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(needs, "LAST_WORD_S", 0.0)
    for rank in ("0", "1"):
        with pytest.raises(SystemExit) as caught:
            needs.check(
                "a/torch_ddp.py",
                {"PMI_RANK": rank, "PMI_SIZE": "2"},
                lambda name: name != "cv2" or None,
            )
        assert caught.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert " has no cv2: " in line


def test_with_its_packages_it_starts() -> None:
    needs.check("a/torch_ddp.py", {}, lambda _: object())
    assert needs.missing("mine", lambda _: None) == []
