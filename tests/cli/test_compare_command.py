from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.cli.conftest import Tune, store_study
from tests.study_samples import SPEC, study


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
        done = tune("compare", before, after, "--storage", str(place))
        assert done.code == 2 and said in done.err, done.err

    stored("main", "main")
    stored("same", "main")
    stored("branch", "branch")
    refused("main", "main.json", "no study main.json in ")
    refused("main", "same", "launch one command in one folder")
    stored("rate", "branch", objective=replace(SPEC.objective, unit="ns/day", maximize=True))
    refused("main", "rate", "the second logreport elapsed_time in log, in ns/day, more is better")
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
    store_study(place, study({}, spec=replace(SPEC, name="nothing")))
    refused("nothing", "main", "the study nothing has measured nothing")
