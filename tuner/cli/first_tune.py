"""``--first-tune``: the line of a job with the setting that is known for it, or is found.

Whatever fails here, the job runs as its line stands.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.cli import console
from tuner.config import typed_job
from tuner.hosts.machine import this_machine
from tuner.model import JobFacts, TunedJob
from tuner.model.errors import TunerError
from tuner.model.wording import duration
from tuner.store import tuned_jobs

if TYPE_CHECKING:
    from tuner.config.typed_job import TypedJob
    from tuner.results.study_view import StudyView


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

    def line(self, words: tuple[str, ...]) -> tuple[tuple[str, ...], int]:
        """Return the words of a job with the best setting, as they are if tune fails; its ranks.

        There are 0 ranks if even their number is not known.
        """
        ranks = 0
        try:
            job = typed_job.read(words, os.environ)
            facts = typed_job.facts(job, this_machine(), os.environ)
            ranks, known = facts.ranks, None
            if not self.fresh:
                known = tuned_jobs.nearest(facts, self.storage, os.environ)
            tuned, differences = known or (self._tune(job, facts), [])
            change = tuned.change
            if facts.ranks != tuned.job.ranks:  # as many ranks may not fit on the cores by them
                change = replace(change, launcher=())
            line = job.with_change(change)
        except Exception as error:  # the job comes first
            message = error.message if isinstance(error, TunerError) else f"{error!r}"
            from tuner.launch.secrets import Redactor

            text = Redactor.of(os.environ, sys.argv).text(message).replace("\n", "; ")
            console.err(f"tune: the job runs as it stands: {text}")
            return words, ranks
        if not self.quiet:
            like = f" of a job like it ({'; '.join(differences)}; --fresh tunes this one)"
            source = f"the setting of study {tuned.study}{like if differences else ''}"
            console.err(f"tune: the job runs with {source}: {tuned.verdict}")
        return line, ranks

    @contextmanager
    def started(
        self, line: tuple[str, ...], ranks: int
    ) -> Iterator[tuple[tuple[str, ...], dict[str, str], Callable[[], str]]]:
        """Yield the line, what its environment gets, and what is called while the job runs."""
        if not (self.learn and ranks):
            yield line, {}, lambda: ""
            return
        from tempfile import TemporaryDirectory

        from tuner.live.learning import Learning

        def say(text: str) -> None:
            console.err(f"tune: the running job goes on with {text}")

        with TemporaryDirectory(prefix="tune-", ignore_cleanup_errors=True) as folder:
            learning = Learning(ranks, this_machine().cores, Path(folder), say)
            with closing(learning):
                yield line, learning.environment, learning

    def _tune(self, job: TypedJob, facts: JobFacts) -> TunedJob:
        """Tune the job and store what came of it; a ``TunerError`` if nothing is known after it."""
        from tuner.cli import progress, standard_input, stored
        from tuner.config import study_file
        from tuner.config.job_study import study_of_job
        from tuner.launch.render import line_change
        from tuner.study import tune
        from tuner.study.interruption import StudyInterrupted

        cwd = Path.cwd()
        file, _ = study_file.find_study_file(self.study_file, cwd=cwd, has_command=True)
        spec = study_of_job(
            job, file=file, short=self.short, limit_s=self.limit_s, environ=os.environ, cwd=cwd
        )
        spec = replace(spec, typed=self.typed)
        if (path := standard_input.file_at_input()) is not None:
            spec = replace(spec, input=str(path), input_digest=standard_input.digest(path))
        limit = duration(self.limit_s)
        console.err(f"tune: no setting is known for this job: it is tuned first, for up to {limit}")
        try:
            with progress.view(self.quiet) as view:
                result = tune(
                    spec,
                    storage=self.storage,
                    fresh=self.fresh,
                    limit_s=self.limit_s,
                    on_event=view,
                )
        except StudyInterrupted as end:
            if end.signal_number != signal.SIGALRM:
                raise
            if end.result is None or not end.result.launches_measured:
                raise TunerError(
                    f"no launch has ended within {limit}: --short '--epochs 1' makes them short"
                ) from end
            raise TunerError(f"nothing is proven after {limit}; the next start goes on") from end
        with stored.open_store(self.storage) as store:
            data = stored.load(store, result.name)
            change = line_change(data.spec, data.best_setting)
            tuned = TunedJob(result.name, facts, change, _verdict(data))
            store.set_tuned_job(tuned)
        return tuned


def _verdict(data: StudyView) -> str:
    """Return what is proven of the setting of a job, in one sentence."""
    from tuner.results import claims

    if data.keeps_defaults:
        return "nothing is proven to be faster than the line as it stands"
    return f"{data.handed_over}, {claims.comparison(data.result)}"
