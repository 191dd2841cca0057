"""A program may leave anything where ``tune`` reads: it must not block or fill the memory."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tuner.hosts import stacks
from tuner.hosts.probe import read_phases, read_reports
from tuner.hosts.untrusted_files import read_end, read_untrusted
from tuner.launch.objectives import EndedLaunch, objective_for
from tuner.model import Failed, ObjectiveSpec
from tuner.model.errors import UsageError
from tuner.study import outputs


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(10 << 30)


HOSTILE = pytest.mark.parametrize("replace", [os.mkfifo, endless, sparse])


@HOSTILE
def test_a_hostile_file_is_read_to_a_limit(replace: Callable[[Path], None], tmp_path: Path) -> None:
    path = tmp_path / "file"
    replace(path)
    for read in (read_untrusted, read_end):
        try:
            assert len(read(path, 100)) <= 100
        except OSError as error:
            assert error.strerror in {"it is a symbolic link", "it is not a plain file"}
    path.unlink()
    path.write_bytes(b"0123456789")
    assert (read_untrusted(path, 4), read_end(path, 4)) == (b"0123", b"6789")


@HOSTILE
def test_what_a_probe_left_hangs_no_reader(replace: Callable[[Path], None], tmp_path: Path) -> None:
    (tmp_path / "probe").mkdir()
    for name in ("rank-0.json", "rank-0.17.phases"):
        replace(tmp_path / "probe" / name)
    assert not read_reports(tmp_path / "probe") and not read_phases(tmp_path)


@HOSTILE
@pytest.mark.parametrize("kind", ["logreport", "pattern"])
def test_a_hostile_log_or_output_is_a_failure(
    replace: Callable[[Path], None], kind: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    replace(out / "log")
    replace(tmp_path / "output.log")
    spec = ObjectiveSpec(kind=kind, pattern="(x)" if kind == "pattern" else "")
    if replace is sparse and kind == "pattern":
        pytest.skip("a search through 10 GiB of nothing ends by its time limit")
    ended = EndedLaunch(out, tmp_path / "output.log", 1.0)
    assert isinstance(objective_for(spec).result(ended), Failed)


def test_a_link_in_place_of_the_stacks_or_the_study_folder_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "0001").mkdir(parents=True)
    link = tmp_path / "link"
    link.symlink_to(elsewhere)
    monkeypatch.setattr(stacks, "py_spy", lambda *_: "where it is")
    assert "symbolic link" in stacks.keep(link, stacks.take({1: 0}))
    for touch in (lambda: outputs.prepare(link), lambda: outputs.remove([f"{link}/0001"], link)):
        with pytest.raises(UsageError, match="symbolic link"):
            touch()
    assert [path.name for path in elsewhere.iterdir()] == ["0001"]
    # Nor is what lies in place of a stack, nor is it waited for.
    folder, victim = tmp_path / "stacks", tmp_path / "victim"
    folder.mkdir()
    victim.write_text("kept")
    (folder / "rank-0.txt").symlink_to(victim)
    os.mkfifo(folder / "rank-1.txt")
    assert stacks.keep(folder, stacks.take({1: 0, 2: 1})) == f"stacks in {folder}"
    assert victim.read_text() == "kept"
    assert [path.read_text() for path in sorted(folder.iterdir())] == ["where it is"] * 2
