"""``tune compare``."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Tune


def test_a_study_is_compared_with_a_file_of_it(tune: Tune, database: Path, tmp_path: Path) -> None:
    storage = ("--storage", str(database))
    assert tune("export", *storage, "-o", "before.json").code == 0
    done = tune("compare", "before.json", "mnist", *storage)
    assert (done.code, done.err) == (0, "")
    assert "no difference above 1 % is proven: 1 (" in done.out and "your defaults" in done.out
    document = json.loads((tmp_path / "before.json").read_text())
    for sample in document["result"]["best"]["samples"]:
        sample["figure"] /= 3
    (tmp_path / "fast.json").write_text(json.dumps(document))
    slower = ("compare", "fast.json", "before.json")
    assert "worse: it takes 3 (" in tune(*slower).out
    assert tune(*slower).code == 0
    assert tune(*slower, "--fail-if-slower", "5%").code == 6
    found = json.loads(tune(*slower, "--json", "--fail-if-slower", "5%").out)
    assert found["schema"] == "tuner.compare/1" and found["is_worse"]


def test_what_is_no_export_is_one_error(tune: Tune, database: Path, tmp_path: Path) -> None:
    (tmp_path / "text.json").write_text("{")
    (tmp_path / "other.json").write_text("{}")
    (tmp_path / "deep.JSON").write_text("[" * 5000)
    (tmp_path / "file").write_bytes(b"\xff")
    for name, said in (
        ("text.json", "text.json is no JSON that can be read"),
        ("other.json", "other.json: schema is missing"),
        ("deep.JSON", "deep.JSON is no JSON that can be read"),
        ("file", "file is no JSON that can be read"),
        ("a/b", "a/b: No such file"),
        ("x" * 300, "File name too long"),
        ("none.json", "none.json: No such file"),
        ("nosuch", "no study"),
    ):
        done = tune("compare", name, "mnist", "--storage", str(database))
        assert done.code == 2 and said in done.err, done.err
