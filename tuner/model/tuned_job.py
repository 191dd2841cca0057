"""Jobs that ``--first-tune`` has tuned: what each is, and what its setting changes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class JobFacts:
    """What the fastest setting of a job depends on, without names of hosts and without secrets."""

    program: str  # the path of the script or the program; a module's name
    program_digest: str  # of its content
    interpreter: str  # the path of the Python or the shell that runs it, if one does
    arguments_digest: str  # and of the file at its standard input
    environment_digest: str  # of the variables that a study records
    launcher: str  # its name, and digests of its file and its options; empty: there is none
    ranks: int
    hosts: int
    host_type: str  # CPU model, cores, NUMA nodes, GPUs

    def differences(self, other: JobFacts) -> list[str] | None:
        """Return what differs in another job; ``None`` if its setting says nothing of this one.

        The program must be the same by its path or by its content, the numbers of ranks may differ
        by a quarter of the larger, and launcher and hosts must be alike.
        """
        has_same_content = self.program_digest == other.program_digest
        is_near = 4 * abs(self.ranks - other.ranks) <= max(self.ranks, other.ranks)
        if not (
            (self.program == other.program or has_same_content)
            and (self.launcher, self.hosts) == (other.launcher, other.hosts)
            and self.host_type == other.host_type
            and is_near
        ):
            return None
        texts = {
            f"its file was {other.program}": self.program != other.program,
            "its file was changed since": not has_same_content,
            f"it ran by {other.interpreter}": self.interpreter != other.interpreter,
            "it had other arguments": self.arguments_digest != other.arguments_digest,
            "other variables were set": self.environment_digest != other.environment_digest,
            f"{other.ranks} ranks, not {self.ranks}": self.ranks != other.ranks,
        }
        return [text for text, differs in texts.items() if differs]


@dataclass(frozen=True)
class LineChange:
    """What a setting adds to a typed launch line; without a word the line stays as it is."""

    launcher: tuple[str, ...] = ()  # words after the launcher's name
    environment: tuple[str, ...] = ()  # words of ``env``: ``-u NAME``, ``NAME=VALUE``
    prefix: tuple[str, ...] = ()  # words that start the program, as of numactl
    options: tuple[tuple[str, str], ...] = ()  # options in the line, whose values are replaced
    appended: tuple[str, ...] = ()


@dataclass(frozen=True)
class TunedJob:
    """A job, the study that tuned it, and what came of that."""

    study: str
    job: JobFacts
    change: LineChange
    verdict: str  # a sentence about the setting: how much faster it is than the line as typed
    is_finished: bool = True  # otherwise only that job itself is not tuned again
