"""The fuzzers themselves: they run, they repeat what they did, and they find what is there."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

from fuzz import engine
from fuzz.__main__ import main, shares, table
from fuzz.target import Target
from fuzz.targets import TARGETS
from fuzz.texts import LONGEST, Texts
from fuzz.trees import Trees


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_a_target_holds(name: str) -> None:
    """A few hundred inputs of each, fewer of slow ones; a campaign runs millions."""
    target = TARGETS[name]
    inputs = max(30, min(400, int(600 * target.share)))
    chunk = engine.run(target, seed=1, number=0, inputs=inputs)
    assert chunk.inputs == inputs
    assert not chunk.findings, chunk.findings[0].text


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_a_seed_gives_the_same_inputs(name: str) -> None:
    make = TARGETS[name].make
    one, other = Random(7), Random(7)
    made = [make(one) for _ in range(20)]
    assert made == [make(other) for _ in range(20)]
    assert len(set(made)) > 10
    assert max(map(len, made)) <= LONGEST


def _toy_text(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    if "=" in text and text.partition("=")[2].isdigit():
        int(text.partition("=")[2])  # '²'.isdigit(), and more digits than Python reads


def _toy_tree(data: bytes) -> None:
    try:
        document = json.loads(data)
    except ValueError:
        return
    if isinstance(document, dict) and isinstance(document.get("time"), int | float):
        assert document["time"] * 2 >= 0, "a negative time"


_TOYS = {
    "text": (Target("toy", _toy_text, Texts([b"a=1", b"b=22"])), "ValueError at "),
    "tree": (Target("toy", _toy_tree, Trees([{"time": 1, "a": [1]}])), "AssertionError at "),
    "deep": (Target("toy", _toy_tree, Trees([{"time": 1, "a": [1]}])), "RecursionError"),
}


@pytest.mark.parametrize("name", sorted(_TOYS))
def test_a_planted_defect_is_found(name: str) -> None:
    target, where = _TOYS[name]
    chunk = engine.run(target, seed=3, number=0, inputs=3_000)
    found = [each for each in chunk.findings if each.where.startswith(where)]
    assert found, [each.where for each in chunk.findings]
    again = engine.attempt(target, found[0].data)
    assert again is not None
    assert again.where == found[0].where


def test_of_each_finding_the_shortest_input_stays() -> None:
    found: dict[str, engine.Finding] = {}
    for data in (b"long", b"s", b"middle"):
        engine.keep(found, engine.Finding("t", "here", data, ""))
    assert [each.data for each in found.values()] == [b"s"]


def test_an_input_without_end_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(_: bytes) -> None:
        while True:
            try:
                sum(range(1000))
            except Exception:  # what a target takes for its own is not the end of its time
                continue

    monkeypatch.setattr(engine, "LIMIT_S", 0.05)
    chunk = engine.run(Target("endless", endless, Texts([b"a"])), seed=0, number=0, inputs=1)
    assert [each.where for each in chunk.findings] == ["TooSlow"]


def test_the_inputs_are_shared_out() -> None:
    counts = shares(["measures", "log_yaml"], 10_000)
    assert sum(counts.values()) == 10_000
    assert counts["measures"] > counts["log_yaml"] > 0
    assert list(engine.chunks(2 * engine.CHUNK + 1)) == [
        (0, engine.CHUNK),
        (1, engine.CHUNK),
        (2, 1),
    ]


def test_the_command_prints_a_table(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["measures", "words", "--count", "60", "--jobs", "1", "--out", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["target", "measures", "words", "all"]
    assert lines[-1].split()[1] == "60"
    assert list(tmp_path.iterdir()) == []


def test_an_input_is_given_again(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "input").write_bytes(b"90s")
    assert main(["measures", "--input", str(tmp_path / "input")]) == 0
    assert capsys.readouterr().out == ""
    assert table({}).splitlines()[0].split() == ["target", "inputs", "inputs/s", "findings"]
