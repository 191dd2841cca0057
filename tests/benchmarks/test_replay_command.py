"""``python -m benchmarks.replay``: a study on a surface in words, as JSON and as a trace."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from benchmarks.replay.__main__ import command
from tests.surfaces import document, write
from tuner.cli.main import main


class Done(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def replay(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., Done]:
    """Runs the program in this process, in a folder that has a surface."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "bowl.json", document(slope=0.2))
    return lambda *args: Done(main(args, command, "replay"), *capfd.readouterr())


def test_the_result_in_words(replay: Callable[..., Done], tmp_path: Path) -> None:
    done = replay("bowl.json")
    assert (done.code, done.err) == (0, "")
    assert re.match(
        r"1\.\d\d times faster than your defaults"
        r" \(95 % interval \d\.\d\d to \d\.\d\d, \d+ pairs in turn\)\n",
        done.out,
    )
    assert "best:     iterator_workers=2 omp_threads=2\n" in done.out
    assert re.search(r"search: +\d+\.\d best runs \(\d+ launches, \d+ settings\); \w+", done.out)
    assert re.search(r"confirm: +\d+\.\d best runs \(\d+ launches\)\n", done.out)
    assert "regret:   0.0 %" in done.out
    assert "export:" not in done.out


def test_the_result_as_json_and_its_trace(replay: Callable[..., Done], tmp_path: Path) -> None:
    made = json.loads(
        replay("bowl.json", "--budget", "1m", "--json", "--trace", "a trace.jsonl").out
    )
    assert made["schema"] == "tuner.replay/1"
    assert made["ended"] == "the budget of 1 min was used up (--budget)"
    assert made["search_best_runs"] > 4
    assert set(made) >= {"best", "export", "ratio", "interval", "verdict", "regret", "launches"}
    rows = [json.loads(line) for line in (tmp_path / "a trace.jsonl").read_text().splitlines()]
    assert rows[-1]["verdict"] == made["verdict"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("none.json",),
        ("/dev/zero",),
        ("sparse.json",),
        ("bowl.json", "--trials", "0"),
        ("bowl.json", "--trace", "no/such/folder.jsonl"),
    ],
)
def test_each_mistake_is_one_error(
    replay: Callable[..., Done], tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    with (tmp_path / "sparse.json").open("wb") as file:
        file.truncate(10 << 30)
    done = replay(*arguments)
    assert done.code == 2
    assert done.err.count("error:") == 1


def test_in_running_jobs(replay: Callable[..., Done], tmp_path: Path) -> None:
    out = replay("bowl.json", "--live").out
    assert re.search(
        r"search: +\d+\.\d best runs \(\d+ windows in \d+ jobs?, \d+ settings\); \w+", out
    )
    made = json.loads(replay("bowl.json", "--live", "--json").out)
    assert made["windows"] == made["launches"] > made["jobs"] > 0
