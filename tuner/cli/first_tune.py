"""``--first-tune``: the line of a job with the setting that is known for it, or is found.

Whatever fails here, the job runs as its line stands.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.cli import console
from tuner.config import typed_job
from tuner.hosts.machine import this_machine
from tuner.model import Conclusion, JobFacts, LineChange, TunedJob
from tuner.model.errors import LimitReachedError, NothingMeasuredError, TunerError
from tuner.model.wording import duration
from tuner.store import tuned_jobs

if TYPE_CHECKING:
    from tuner.config.typed_job import TypedJob
    from tuner.results.study_view import StudyView

#: A command, what its environment gets, and what says which of its hosts are lost.
StartedCommand = tuple[tuple[str, ...], dict[str, str], Callable[[], str]]


@dataclass(frozen=True)
class FirstTune:
    """What was typed for the tuning of a job."""

    storage: str | None
    limit_s: float
    short: tuple[str, ...]
    study_file: str | None
    fresh: bool
    learn: bool
    quiet: bool
    typed: tuple[str, ...]  # all words after `tune`

    def line_to_run(self, words: tuple[str, ...]) -> tuple[tuple[str, ...], int]:
        """Return the words of a job with the best setting, as they are if tune fails; its ranks.

        There are 0 ranks if even their number is not known.
        """
        ranks = 0
        try:
            job = typed_job.read(words, os.environ)
            stdin = Path("/proc/self/fd/0")
            input_file = stdin.readlink() if stdin.is_file() and stdin.stat().st_size else ""
            facts = typed_job.facts(job, this_machine(), os.environ, Path.cwd(), str(input_file))
            ranks, match = facts.ranks, None
            if not self.fresh:
                match = tuned_jobs.nearest(facts, self.storage, os.environ)
            tuned_job, differences = match or (self._tune(job, facts), [])
            change = tuned_job.change
            if differences:  # what this program or its launcher might refuse is left out
                change = replace(change, launcher=(), appended=())
            line = job.with_change(change)
        except Exception as error:  # the job comes first
            from tuner.launch.secrets import Redactor

            message = error.message if isinstance(error, TunerError) else f"{error!r}"
            if isinstance(error, OSError):
                message = f"{error.strerror}: {error.filename}"
            text = Redactor.of(os.environ, sys.argv).text(message).replace("\n", "; ")
            _say(f"the job runs as it stands: {text}")
            return words, ranks
        if not self.quiet:
            source = f"study {tuned_job.study}"
            if differences:
                source += f" of a job like it ({'; '.join(differences)}; --fresh tunes this one)"
            how = "as it stands, by" if change == LineChange() else "with the setting of"
            _say(f"the job runs {how} {source}: {tuned_job.verdict}")
        return line, ranks

    @contextmanager
    def started(self, line: tuple[str, ...], ranks: int) -> Iterator[StartedCommand]:
        """Yield the line as it is started once; with ``--learn`` the job is improved meanwhile."""
        if not (self.learn and ranks):
            yield line, {}, lambda: ""
            return
        from tempfile import TemporaryDirectory

        from tuner.live.learning import Learning

        with TemporaryDirectory(prefix="tune-", ignore_cleanup_errors=True) as folder:
            learning = Learning(ranks, this_machine().cores, Path(folder), _say)
            with closing(learning):
                yield line, learning.environment, learning

    def _tune(self, job: TypedJob, facts: JobFacts) -> TunedJob:
        """Tune the job, and store what came of it for the next start; that may be nothing."""
        from tuner.cli import progress, standard_input, stored
        from tuner.config import study_file
        from tuner.config.job_study import study_of_job, with_own_name
        from tuner.launch.render import line_change
        from tuner.study.interruption import TIME_IS_OVER, StudyInterrupted
        from tuner.study.tuning import tune

        cwd = Path.cwd()
        file, _ = study_file.find_study_file(self.study_file, cwd=cwd, has_command=True)
        spec = study_of_job(
            job, file=file, short=self.short, limit_s=self.limit_s, environ=os.environ, cwd=cwd
        )
        if (path := standard_input.file_at_input()) is not None:
            spec = replace(spec, input=str(path), input_digest=standard_input.digest(path))
        spec = with_own_name(replace(spec, typed=self.typed))
        limit = duration(self.limit_s)
        _say(f"no setting is known for this job: it is tuned first, for up to {limit}")
        why_not = ""
        try:
            with _notices_ignored(), progress.view(self.quiet) as view:
                tune(
                    spec,
                    storage=self.storage,
                    fresh=self.fresh,
                    limit_s=self.limit_s,
                    on_event=view,
                )
        except StudyInterrupted as end:
            if end.signal_number != TIME_IS_OVER:
                raise
            if end.result is None or not end.result.launches_measured:
                why_not = f"no launch ended within {limit}; try --fresh --short '--epochs 1'"
            elif end.result.conclusion is not Conclusion.FASTER:
                why_not = f"nothing was proven within {limit}; for another try: --fresh"
        except (NothingMeasuredError, LimitReachedError) as error:
            why_not = f"{error.message}; for another try: --fresh"
        with stored.open_store(self.storage) as store:
            tuned_job = TunedJob(spec.name, facts, LineChange(), why_not, is_finished=False)
            if not why_not:
                data = stored.load(store, spec.name)
                change = line_change(data.spec, data.best_setting)
                tuned_job = TunedJob(spec.name, facts, change, _verdict(data))
            store.set_tuned_job(tuned_job)
        return tuned_job


def _say(text: str) -> None:
    """Write a line to stderr, if anybody reads it."""
    with suppress(OSError):
        console.err(f"tune: {text}")


@contextmanager
def _notices_ignored() -> Iterator[None]:
    """Let SIGUSR1 and SIGUSR2, which are for the job, pass while it has not begun."""
    numbers = (signal.SIGUSR1, signal.SIGUSR2)
    before = [signal.signal(number, lambda *_: None) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def _verdict(data: StudyView) -> str:
    """Return what is proven of the setting of a job, in one sentence."""
    from tuner.results import claims

    if data.keeps_defaults:
        return "nothing is proven to be faster"
    gain = claims.comparison(data.result).replace("your defaults", "the line as typed")
    return f"{data.handed_over}, {gain}"
