"""A shell program that listens to one option is handed that option, and no other."""

from __future__ import annotations

import json
from pathlib import Path

from tests.light_trainer import tune

PROGRAM = """
n=10
while [ $# -gt 0 ]; do case $1 in -nstlist) n=$2 ;; esac; shift; done
case $n in 60) echo took 1.0 s ;; 40) echo took 1.5 s ;; *) echo took 3.0 s ;; esac
"""


def test_a_program_is_handed_the_one_knob_that_matters(tmp_path: Path) -> None:
    (tmp_path / "md.sh").write_text(PROGRAM)
    unused = ("--env-knob", "MALLOC_ARENA_MAX=1,2", "--env-knob", "MALLOC_PERTURB_=1,2")
    knobs = ("--knob", "nstlist=10,40,60", *unused)
    figure = ("--objective", "pattern:took ([0-9.]+)", "--unit", "s", "--warm-ups", "0")
    program = ("--", "sh", "md.sh", "-nstlist", "{nstlist}")
    done = tune(tmp_path, "-n", "1", "--trials", "9", *figure, *knobs, *program)
    assert done.returncode == 0, done.stderr

    show = tune(tmp_path, "show")
    assert "  best:      nstlist=60\n" in show.stdout
    told = json.loads(tune(tmp_path, "show", "--json").stdout)
    assert told["result"]["export"] == {"nstlist": 60}
    by_knob = {each["knob"]: each for each in told["contributions"]}
    assert by_knob["nstlist"]["ratio"] > 2
    assert by_knob["MALLOC_ARENA_MAX"]["value"] is None
    assert by_knob["MALLOC_ARENA_MAX"]["text"].startswith("no effect seen")
    for name, each in by_knob.items():
        assert f"{name}" in show.stdout and each["text"] in show.stdout

    script = tune(tmp_path, "export", "--format", "sh").stdout
    assert "-nstlist 60" in script and "MALLOC" not in script
    printed = tune(tmp_path, "exec", "--", "sh", "md.sh", "-nstlist", "{nstlist}")
    assert printed.stdout == "took 1.0 s\n"
