"""``tune --dry-run``: what is printed can be pasted into a shell."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.json_schema import check
from tests.study_samples import SPEC
from tuner.cli import dry_run
from tuner.launch import render
from tuner.model import BASELINE, Choice, Env, Flag, Knob, LauncherInfo, Setting

#: Says what it was started with, one JSON list a line, in place of mpirun.
SAY = "import json, os, sys; print(json.dumps([os.environ.get('MPI4PY_LIBMPI'), sys.argv[1:]]))"


@pytest.mark.system
@settings(max_examples=3, deadline=None)
@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12))
def test_every_word_arrives_and_nothing_else_runs(
    tmp_path_factory: pytest.TempPathFactory, value: str
) -> None:
    folder = tmp_path_factory.mktemp("dry run")
    mpirun = folder / "mpirun"
    mpirun.write_text(f'#!/bin/sh\nexec python3 -c {json.dumps(SAY)} "$@"\n')
    mpirun.chmod(0o755)
    knobs = (Knob("v", Choice((value,)), Flag("-v")), Knob("e", Choice((value,)), Env(("E",))))
    spec = dataclasses.replace(
        SPEC,
        launcher=LauncherInfo("openmpi", str(mpirun), "5.0.11", libmpi="/opt/my mpi/libmpi.so"),
        knobs=knobs,
        command=("train", "--out", "{out}"),
        left_out=(("x", f"why {value}"),),
    )
    launches = [
        (chosen, render.launch(spec, chosen, folder / "o", environ={}, cwd=folder))
        for chosen in (BASELINE, Setting.of({"v": value, "e": value}))
    ]
    lines = dry_run.script(spec, launches, {"MPI4PY_LIBMPI": "/opt/my mpi/libmpi.so"})
    expected = [["/opt/my mpi/libmpi.so", list(launch.argv[1:])] for _, launch in launches]
    text = "\n".join(lines) + "\n"
    done = subprocess.run(
        ["sh", "-e"], input=text, cwd=folder, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    assert [json.loads(line) for line in done.stdout.splitlines()] == expected
    assert (folder / "o" / "out").is_dir()


def test_json_has_the_environment_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    info = LauncherInfo("openmpi", "/opt/mpi/bin/mpirun", "5.0.11", libmpi="/opt/libmpi.so")
    spec = dataclasses.replace(SPEC, launcher=info)
    dry_run.print_launches(spec, as_json=True)
    document = json.loads(capsys.readouterr().out)
    check(document)
    assert document["schema"] == "tuner.dry-run/1"
    *guesses, defaults = document["launches"]
    assert [guess["setting"]["omp_threads"] for guess in guesses] == [2, 1]
    assert "OUTPUTS/1/out" in guesses[0]["argv"]
    assert defaults["setting"] == {}
    assert defaults["environment"] == {"MPI4PY_LIBMPI": "/opt/libmpi.so"}
