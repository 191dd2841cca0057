"""The stacks of a job that hangs."""

from __future__ import annotations

import stat
from pathlib import Path
from types import SimpleNamespace

import pytest

from tuner.hosts import stacks

#: Says with what it was called; refuses process 2, and process 3 unless it need not stop it.
PY_SPY = """#!/bin/sh
printf 'Process 7: python x.py --password hunter2\\nmore\\nPython v3.11 (/p)\\n'
case "$*" in "dump --pid 3" | *2) echo "not allowed" >&2; exit 1 ;; esac
"""


def test_each_process_of_a_rank_has_a_file_for_its_owner_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = SimpleNamespace(executable=str(tmp_path / "python"))
    monkeypatch.setattr("tuner.hosts.stacks.sys", ours)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert "py-spy is not installed" in stacks.take({1: 0})["rank-0.txt"]
    (tmp_path / "py-spy").write_text(PY_SPY)
    (tmp_path / "py-spy").chmod(0o755)
    folder = tmp_path / "stacks"
    said = stacks.keep(folder, stacks.take({11: 0, 2: 1, 3: 0, 10: None}))
    assert said == f"stacks in {folder}"
    texts = {path.name: path.read_text() for path in folder.iterdir()}
    how = texts.pop("rank-1.txt")
    for part in ("not allowed", "process 2", "pip install py-spy", "ptrace_scope"):
        assert part in how
    assert texts.keys() == {"rank-0.txt", "rank-0-worker-11.txt"}
    assert not any("hunter2" in text for text in texts.values())
    for path in folder.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    (tmp_path / "file").touch()
    assert stacks.keep(tmp_path / "file", {"rank-0.txt": ""}).startswith("no stacks: ")
