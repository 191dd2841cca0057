"""Hides the secrets of one environment and its commands."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from urllib.parse import quote, unquote

from tuner.launch.secrets.hidden import HIDDEN
from tuner.launch.secrets.names import is_secret_variable
from tuner.launch.secrets.shapes import hide_shapes
from tuner.launch.secrets.words import hide_words
from tuner.model import Failed, LaunchRecord, StudySpec

#: Shorter values stand in too many words that are no secrets, characters.
SHORTEST = 6

#: A secret of several lines is known by any line of this length, characters.
LINE = 16

#: Values of variables with a telling name that tell nothing.
_EMPTY_WORDS = frozenset({"true", "false", "none", "null", "default", "enabled", "disabled"})


#: Of letters and many figures: a key, though its variable's name does not say so.
_RANDOM = re.compile(r"(?=(?:.*[0-9]){5})(?=.*[A-Za-z])[\w+=-]{16,}")


@dataclass(frozen=True)
class Redactor:
    """Knows ``secrets``, and hides them beside all that looks like one.

    ``suspects`` are values that may be secrets: they are hidden in texts, but not in commands,
    of which a study is made.
    """

    secrets: frozenset[str] = frozenset()
    suspects: frozenset[str] = frozenset()

    @classmethod
    def of(cls, environ: Mapping[str, str], *commands: Sequence[str]) -> Redactor:
        """The secrets of an environment and of these commands, as they are run."""
        found: set[str] = set()
        suspects = {value for value in environ.values() if _RANDOM.fullmatch(value)}
        for name, value in environ.items():
            if is_secret_variable(name):
                found.add(value)
            hide_shapes(value, found.add)
        for command in commands:
            hide_words(command, lambda word: hide_shapes(word, found.add), found.add)
        return cls(frozenset(filter(_is_telling, found)), frozenset(suspects))

    def text(self, text: str) -> str:
        """The text without secrets."""
        return self._hide(text, self._suspected)

    def words(self, argv: Sequence[str]) -> tuple[str, ...]:
        """The command without secrets; as many words as before."""
        return hide_words(argv, lambda word: self._hide(word, self._known), lambda _: None)

    @staticmethod
    def _hide(text: str, known: re.Pattern[str] | None) -> str:
        return hide_shapes(text if known is None else known.sub(HIDDEN, text))

    @cached_property
    def _known(self) -> re.Pattern[str] | None:
        return _any_of(self.secrets)

    @cached_property
    def _suspected(self) -> re.Pattern[str] | None:
        return _any_of(self.secrets | self.suspects)


def _any_of(secrets: frozenset[str]) -> re.Pattern[str] | None:
    """A pattern of all their forms, the longest first."""
    forms = {form for secret in secrets for form in _forms(secret)}
    longest_first = sorted(forms, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first))) if forms else None


def _is_telling(secret: str) -> bool:
    return len(secret) >= SHORTEST and secret.lower() not in _EMPTY_WORDS


def _forms(secret: str) -> set[str]:
    """How a secret may stand in a text: as it is, in a URL, quoted, line by line."""
    lines = [line for line in map(str.strip, secret.splitlines()) if len(line) >= LINE]
    encoded = quote(secret, safe="", errors="backslashreplace")
    forms = {secret, encoded, unquote(secret), json.dumps(secret)[1:-1], repr(secret)[1:-1]}
    return {form for form in (*forms, *lines) if len(form) >= SHORTEST}


def redact_spec(spec: StudySpec, environ: Mapping[str, str]) -> StudySpec:
    """The study as it may be stored: the same, but for secrets in its commands."""
    args = spec.launcher.extra_args
    hider = Redactor.of(environ, spec.command, spec.job, args)
    return replace(
        spec,
        command=hider.words(spec.command),
        job=hider.words(spec.job),
        launcher=replace(spec.launcher, extra_args=hider.words(args)),
        environment=tuple((name, hider.text(value)) for name, value in spec.environment),
    )


def kept_record(record: LaunchRecord, environ: Mapping[str, str]) -> LaunchRecord:
    """The launch as it may be stored and told of: its command and its reasons without secrets."""
    hider = Redactor.of(environ, record.argv)
    ending = record.outcome.ending
    if isinstance(ending, Failed):
        reason, tail = hider.text(ending.reason), hider.text(ending.log_tail)
        ending = replace(ending, reason=reason, log_tail=tail)
    return replace(
        record,
        argv=hider.words(record.argv),
        env={name: hider.text(value) for name, value in record.env.items()},
        outcome=replace(record.outcome, ending=ending),
    )
