"""Runs ``tune`` in forked processes, each with a fault to come; all is imported once.

One JSON object a line on stdin, :class:`Request`; one a line on stdout, :class:`Reply`.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import resource
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from alembic import util
from alembic.util import pyfiles

import tuner.study
from tests.study_surface import log, surface
from tuner.cli.main import main as tune_main
from tuner.launch.launchers import discovery
from tuner.model import Finished, Launch, Outcome, Progress, Setting
from tuner.study.events import Event, LaunchEnded

#: What the shim counts; the order is its own.
KINDS = ("commit", "fsync", "rename", "write", "lock")

#: No run takes longer, s of CPU.
MOST_S = 60

REAL = tuner.study.tune


@dataclass(frozen=True)
class Request:
    """Run ``tune`` in ``folder``; of ``kind`` the ``at``-th fails with ``error`` (0: kill)."""

    folder: str
    argv: tuple[str, ...]
    kind: str = ""
    at: int = 0
    error: int = 0
    lasts: bool = False


@dataclass(frozen=True)
class Reply:
    """How it ended (negative: by that signal), and how often each kind was done."""

    code: int
    counts: dict[str, int]


class ServerDiary:
    """What really happened, beside the folder that faults strike: one JSON list a line."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self.launches = path.read_bytes().count(b'["ended"')

    def note(self, *words: object) -> None:
        os.write(self._file, json.dumps(words).encode() + b"\n")


def fake_run(
    launch: Launch,
    *,
    diary: ServerDiary,
    setting: Setting,
    on_progress: Callable[[Progress], None] | None = None,
    **_: Any,
) -> Outcome:
    """A launch without processes; each takes a time of its own, by which it is known again."""
    launch.out_dir.mkdir(parents=True, exist_ok=True)
    diary.launches += 1
    elapsed_s = surface(setting) + 1e-6 * diary.launches
    entries = log(elapsed_s)
    if on_progress is not None:
        on_progress(entries[-1])
    ended = Outcome(Finished(elapsed_s, entries[-1].iteration), elapsed_s + 1, 0, entries)
    diary.note("ended", elapsed_s, setting.to_json(), str(launch.folder))
    return ended


def _watched(diary: ServerDiary, real: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """``tune`` with launches without processes; what is reported is noted."""
    show = options.pop("on_event")

    def on_event(event: Event) -> None:
        if isinstance(event, LaunchEnded):
            samples = event.record.outcome.samples
            diary.note("reported", event.record.number, samples[0].elapsed_s)
        show(event)

    return real(*args, **options, on_event=on_event, run=partial(fake_run, diary=diary))


def _redirect(folder: Path) -> None:
    for name, number in (("stdout", 1), ("stderr", 2)):
        file = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(file, number)
        os.close(file)
    sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_S, MOST_S))


def _run(request: Request) -> int:
    folder = Path(request.folder)
    work = folder / "work"
    work.mkdir(exist_ok=True)
    os.chdir(work)
    os.environ["TUNE_LOCK_DIR"] = str(work / "lock")
    os.environ["TMPDIR"] = str(folder)
    diary = ServerDiary(folder / "diary")
    tuner.study.tune = partial(_watched, diary, REAL)
    shim = ctypes.CDLL(None)
    kind = KINDS.index(request.kind) if request.kind else -1
    root = os.fsencode(work)
    shim.every_k_arm(root, kind, ctypes.c_long(request.at), request.error, int(request.lasts))
    return tune_main(request.argv)


def _counts() -> list[int]:
    count = ctypes.CDLL(None).every_k_count
    count.restype = ctypes.c_long
    return [count(number) for number in range(len(KINDS))]


def _forked(request: Request) -> Reply:
    counted = os.memfd_create("counts")
    pid = os.fork()
    if pid == 0:
        code = 70
        try:
            _redirect(Path(request.folder))
            code = _run(request)
            os.pwrite(counted, json.dumps(_counts()).encode(), 0)
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    counts = json.loads(os.pread(counted, 1 << 16, 0) or b"[]")
    os.close(counted)
    return Reply(os.waitstatus_to_exitcode(status), dict(zip(KINDS, counts, strict=False)))


def _warm_up(request: Request) -> None:
    """Run once in this process: what that imports and compiles is there in each fork."""
    with (Path(request.folder) / "stdout").open("w") as out:
        sys.stdout, sys.stderr, kept = out, out, (sys.stdout, sys.stderr)
        code = _run(request)
        sys.stdout, sys.stderr = kept
    assert code == 0, (Path(request.folder) / "stdout").read_text()
    ctypes.CDLL(None).every_k_arm(b"", -1, ctypes.c_long(0), 0, 0)
    gc.collect()
    gc.freeze()


def _read_once() -> None:
    """Optuna has alembic read all its migrations for each storage: half of a case's time."""
    pyfiles.load_python_file = cache(pyfiles.load_python_file)  # type: ignore[assignment]
    util.load_python_file = pyfiles.load_python_file


def _ask_once() -> None:
    """What mpirun says of its version; the faults strike nothing of that."""
    said: dict[Path, str] = {}
    ask = discovery._ask

    def asked(path: Path, question: Sequence[str], environ: Mapping[str, str]) -> str:
        if path.resolve() not in said:
            said[path.resolve()] = ask(path, question, environ)
        return said[path.resolve()]

    discovery._ask = asked


def serve() -> None:
    """Answer until stdin ends; the first request is no case."""
    for number, line in enumerate(sys.stdin):
        request = Request(**json.loads(line))
        reply = Reply(0, {})
        if number:
            reply = _forked(request)
        else:
            _warm_up(request)
        print(json.dumps(asdict(reply)), flush=True)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _read_once()
    _ask_once()
    serve()
