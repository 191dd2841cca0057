"""What programs print and write: logs, output, mpirun's version, the probe, a running job."""

from __future__ import annotations

import itertools
import math
import re
import tempfile
from pathlib import Path

from tests.parsers.strategies import DEEP, LONG, holds, texts, trees
from tuner.config import first_study, study_file
from tuner.launch import failure
from tuner.launch.objectives import EndedLaunch
from tuner.launch.objectives.logreport import LogReport
from tuner.model import Failed, FailureKind, ObjectiveSpec, codec

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_ENTRIES = [{"epoch": n, "iteration": 10 * n, "elapsed_time": 1.5 * n} for n in (1, 2, 3)]


@holds(
    trees(_ENTRIES, _ENTRIES[:1], [{"iteration": 0, "elapsed_time": 0}, *_ENTRIES])
    | texts(b'{"iteration": 1, "elapsed_time": 0.5}\n{"iteration": 2, "elapsed_time": 1.0}\n'),
    b'{"iteration": %d, "elapsed_time": 0.5}' % 10**30,
    b'[]\n1\n"a"',
    b'[{"iteration": %d, "elapsed_time": 1}]' % 2**63,
    *(
        b'[{"iteration": 1, "elapsed_time": %s}]' % time_s
        for time_s in (b"1e-31", b"1e31", b"5e-324", b"1e999", b"NaN", LONG, DEEP)
    ),
    b'[{"iteration": true, "elapsed_time": true}]',
    b'[{"iteration": "\\ud800", "elapsed_time": 1}]',
)
def test_what_is_read_of_a_log_can_be_stored_compared_and_shown(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "log").write_bytes(data)
        log = LogReport(ObjectiveSpec())
        progress = log.progress(folder)
        ending = log.result(EndedLaunch(folder, folder / "output.log", 1.0))
    for step in progress:
        assert type(step.iteration) is int and 0 <= step.iteration < 2**63, step
        assert 0 <= step.elapsed_s < math.inf, step
    for early, late in itertools.pairwise(progress):
        assert early.elapsed_s <= late.elapsed_s and early.iteration <= late.iteration
    if isinstance(ending, Failed):
        assert ending.reason.isprintable() and len(ending.reason) < 2_000, ending
    else:
        # Ratios of other figures are 0 or infinite, and what is worked out of them breaks.
        assert 1e-30 <= ending.elapsed_s <= 1e30 and 0 <= ending.iterations < 2**63, ending
        assert codec.loads(type(ending), codec.dumps(ending)) == ending


@holds(
    texts(
        b'Traceback (most recent call last):\n  File "a.py", line 1\nValueError: x\n',
        b"-" * 74 + b"\nThere are not enough slots available in the system\n" + b"-" * 74,
        b"=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   EXIT CODE: 9\n"
        b"YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)\n",
        b"OpenBLAS blas_thread_init: pthread_create failed for thread 3 of 8\nMemoryError\n",
        b"torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
        b"Root Cause (first observed failure):\n  rank      : 1 (local_rank: 1)\n"
        b"  exitcode  : -9 (pid: 7)  (SIGKILL)\n[rank1]: ValueError: x\n",
        b"\x1b[31merror\x1b[0m\rprogress 10 %\rprogress 20 %\r\n",
    )
)
def test_the_output_of_a_crash_gives_a_kind_and_one_line(data: bytes) -> None:
    text = failure.clean(data.decode("utf-8", "replace"))
    assert not _CONTROL.search(text), "an escape that reaches the terminal"
    assert len(failure.tail(text).split("\n")) <= failure.TAIL_LINES
    for code in (None, 1, -9, 127, 255, 10**9):
        kind, reason, _ = failure.explain(code, text)
        assert isinstance(kind, FailureKind)
        assert reason.strip() and "\n" not in reason and len(reason) < 2_000, reason


@holds(
    texts(
        b"  -j N, --workers N  loaders\n  -o DIR, --out DIR\n  --start-method {fork,spawn}\n",
        b"flags:\n  --num_workers: loaders\n    (an integer)\n  --[no]prefetch: ahead\n",
        "│ *  --num-workers  -j    INTEGER  loaders │\n│ --out-dir  <str>  where │".encode(),
        words="- -- --a.b --batch-size=N [no] -j4 : <bool>",
    ),
    b"-" * 5000,
    b" " * 20_000 + b"-x",
    b"-a" + b" " * 1_000_000 + b"<x",
)
def test_the_help_text_of_a_trainer(data: bytes) -> None:
    options = first_study.proposals(data.decode(errors="replace"))
    text = first_study.study_text({}, ["python", "train.py", "-j", "4"], options, "wall")
    study = study_file.study_of(study_file.parse(text.encode(), "tune.toml"))
    for place, (name, *_) in options.items():
        assert re.fullmatch(r"--?[A-Za-z][\w.-]*", name)
        assert place in {"out", *study.knobs}
