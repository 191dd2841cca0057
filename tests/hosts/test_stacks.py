"""The stacks of a job that hangs."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from types import SimpleNamespace

import pytest

from tuner.hosts import stacks


def test_each_process_of_a_rank_has_a_file_of_its_owners_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dump(pid: int, left_s: float) -> str:
        assert 0 < left_s <= stacks.ONE_S
        if pid == 12:
            raise PermissionError(1, "not allowed")
        return f"stack of {pid}"

    monkeypatch.setattr(stacks, "py_spy", dump)
    said = stacks.keep(tmp_path / "stacks", stacks.take({11: 0, 12: 1, 13: 0, 10: None}))
    assert said == f"stacks in {tmp_path / 'stacks'}"
    texts = {path.name: path.read_text() for path in (tmp_path / "stacks").iterdir()}
    how = texts.pop("rank-1.txt")
    assert texts == {"rank-0.txt": "stack of 11", "rank-0-worker-13.txt": "stack of 13"}
    for part in ("not allowed", "process 12", "pip install py-spy", "ptrace_scope"):
        assert part in how
    for path in (tmp_path / "stacks").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "stacks").stat().st_mode) == 0o700
    (tmp_path / "file").touch()
    assert stacks.keep(tmp_path / "file", stacks.take({11: 0})).startswith("no stacks: ")


def test_py_spy_is_run_on_the_process_if_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = SimpleNamespace(executable=str(tmp_path / "python"))
    monkeypatch.setattr("tuner.hosts.stacks.sys", ours)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(OSError, match="not installed"):
        stacks.py_spy(os.getpid(), 1.0)
    py_spy = tmp_path / "py-spy"
    refuses = 'case "$*" in "dump --pid 3" | *2) echo no >&2; exit 1 ;; esac'
    py_spy.write_text(f'#!/bin/sh\necho "$@"\n{refuses}\n')
    py_spy.chmod(0o755)
    assert stacks.py_spy(1, 30.0) == "dump --pid 1\n"
    with pytest.raises(OSError, match="no time left"):
        stacks.py_spy(1, 0.0)
    assert stacks.py_spy(3, 30.0) == "dump --nonblocking --pid 3\n"
    with pytest.raises(OSError, match="no"):
        stacks.py_spy(2, 30.0)
    # The command is left out.
    said = "Process 1: python x.py --password hunter2\nmore\nPython v3.11 (/p)\n\nThread 1 (idle)\n"
    py_spy.write_text(f"#!/bin/sh\nprintf %s '{said}'\n")
    assert stacks.py_spy(1, 30.0) == "Process 1\nPython v3.11 (/p)\n\nThread 1 (idle)\n"
