from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.cli.conftest import Tune, store_study
from tests.study_samples import SPEC, study


def test_a_study_is_compared_with_a_file_of_it(tune: Tune, database: Path, tmp_path: Path) -> None:
    storage = ("--storage", str(database))
    assert tune("export", *storage, "-o", "before.json").code == 0
    done = tune("compare", "before.json", "mnist", *storage)
    assert (done.code, done.err) == (
        *(0, "nothing is launched: before.json is a file, which cannot be launched\n"),
    )
    assert "no difference above 1 % is proven: 1 (" in done.out and "your defaults" in done.out
    assert "(stored launches prove nothing: the machine may have changed in between)" in done.out
    assert tune("compare", "before.json", "mnist", *storage, "--stored").err == ""
    document = json.loads((tmp_path / "before.json").read_text())
    best = document["result"]["best"]["setting"]
    (launch,) = (each for each in document["launches"] if each["counts_for"] == best)
    launch["samples"][0]["figure"] /= 3
    (tmp_path / "fast.json").write_text(json.dumps(document))
    slower = ("compare", "fast.json", "before.json")
    assert "seems worse: it takes 3 (" in tune(*slower).out
    assert tune(*slower).code == 0
    assert tune(*slower, "--fail-if-slower", "5%").code == 6
    found = json.loads(tune(*slower, "--json", "--fail-if-slower", "5%").out)
    assert found["schema"] == "tuner.compare/1" and found["is_worse"]


def test_what_is_no_export_is_one_error(tune: Tune, database: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"\xff")
    for name, said in (
        ("file", "file is no export that can be read"),
        ("a/b", "a/b cannot be read: No such file"),
    ):
        done = tune("compare", name, "mnist", "--storage", str(database))
        assert done.code == 2 and said in done.err, done.err


def test_what_cannot_be_launched_is_refused(tune: Tune, tmp_path: Path, mpirun: str) -> None:
    place = tmp_path / "two.db"

    def stored(name: str, folder: str, *more: str, **changes: Any) -> None:
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "train.py").touch()
        command = (sys.executable, "train.py", "--out", "{out}", *more)
        launcher = replace(SPEC.launcher, mpirun=mpirun)
        changes |= {"command": command, "launcher": launcher, "folder": str(tmp_path / folder)}
        store_study(place, study(spec=replace(SPEC, name=name, **changes)))

    def refused(before: str, after: str, said: str) -> None:
        done = tune("compare", before, after, "--storage", str(place), "--remeasure")
        assert done.code == 2 and said in done.err, done.err
        done = tune("compare", before, after, "--storage", str(place))
        assert done.code == 0 and done.err.startswith("nothing is launched: "), done.err

    stored("main", "main")
    stored("same", "main")
    stored("branch", "branch")
    refused("main", "same", "launch one command in one folder")
    assert tune("export", "main", "--storage", str(place), "-o", "main.json").code == 0
    refused("main.json", "branch", "main.json is a file, which cannot be launched")
    stored("login", "branch", "--password", "***")
    refused("main", "login", "to launch login: the stored command hides a secret")
    stored("hidden", "branch", environment=(("NCCL_X", "***"),))
    refused("main", "hidden", "the stored value of NCCL_X hides a secret")
    stored("branch-again", "branch")
    refused("main", "branch", "there is a study branch-again, which is not of tune compare")
    stored("edited", "branch", "-x", programs=(("train.py", "1234"),))
    refused("main", "edited", "to launch edited: train.py was edited since that study began")
    (tmp_path / "main" / "train.py").unlink()
    refused("main", "branch", "the command's script 'train.py' does not exist")
