"""What ``tune init`` makes of a command as it is typed, and of its ``--help``."""

from __future__ import annotations

import shlex

import pytest

from tuner.config import first_study, study_file

ARGPARSE = """
usage: train.py [-h] [-j N] [--output-dir OUTPUT_DIR] [--workers N]

options:
  -h, --help            show this help message and exit
  -j N, --workers N     data loading workers (default: 4)
  -b N, --batch-size N
                        mini-batch size, also --out and -o
  --output-dir OUTPUT_DIR
  --prefetch            prefetch batches
"""
CLICK = """
Options:
  -o, --out DIRECTORY      Where to write.  [default: result]
  --loader-jobs INTEGER
  --n-workers INTEGER RANGE
  --shuffle / --no-shuffle
"""
TYPER = """
╭─ Options ──────────────────────────────────────────────╮
│ *  --data               PATH     Where. [required]     │
│    --num-workers  -j    INTEGER  Loaders [default: 4]  │
│    --out-dir            <str>    [default: runs]       │
│    --prefetch           <bool>   fetch ahead           │
╰────────────────────────────────────────────────────────╯
"""
ABSL = """
flags:

train.py:
  --num_workers: Number of loader processes.
    (default: '4')
    (an integer)
  --[no]prefetch: Fetch ahead.
    (default: 'true')
  --output_dir: Where checkpoints go.
"""


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (ARGPARSE, {"iterator_workers": "--workers", "out": "--output-dir"}),
        (CLICK, {"out": "--out", "iterator_workers": "--n-workers"}),
        (TYPER, {"iterator_workers": "--num-workers", "out": "--out-dir"}),
        (ABSL, {"iterator_workers": "--num_workers", "out": "--output_dir"}),
        ("-j N  jobs\n-o DIR  output", {"iterator_workers": "-j", "out": "-o"}),
    ],
)  # fmt: skip
def test_the_options_of_a_help_text(text: str, options: dict[str, str]) -> None:
    found = first_study.proposals(text)
    assert {place: names[0] for place, names in found.items()} == options


@pytest.mark.parametrize(
    ("typed", "command", "baseline"),
    [
        ("python t.py", "python t.py --out {out} --workers {iterator_workers}", None),
        ("python t.py -j 4 x", "python t.py -j {iterator_workers} x --out {out}", 4),
        ("python t.py --workers=4", "python t.py '--workers={iterator_workers}' --out {out}", 4),
        ("python t.py --out 'my result' -j", "python t.py --out {out} -j {iterator_workers}", None),
    ],
)  # fmt: skip
def test_placeholders_stand_for_values(typed: str, command: str, baseline: int | None) -> None:
    options = {"out": ["--out"], "iterator_workers": ["--workers", "-j"]}
    keys = {"mpi_procs": 3, "mpirun_args": ["--mca", 'a "quoted" word']}
    text = first_study.study_text(keys, shlex.split(typed), options, "logreport")
    study = study_file.study_of(study_file.parse(text.encode(), "x"))
    assert sorted(study.command) == sorted(shlex.split(command))
    assert study.knobs["iterator_workers"].baseline == baseline
    assert list(study.knobs) == ["omp_threads", "opencv_threads", "iterator_workers"]
    assert study.option("mpi_procs") == 3
    assert list(study.option("mpirun_args")) == keys["mpirun_args"]
    assert study.objective.kind == "logreport"
