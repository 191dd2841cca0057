"""Hides the secrets of one environment and its commands."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from urllib.parse import quote, unquote

from tuner.model import Failed, LaunchRecord, StudySpec
from tuner.secrets.names import is_secret_variable
from tuner.secrets.shapes import HIDDEN, hide_shapes
from tuner.secrets.words import hide_words

#: Shorter values stand in too many words that are no secrets, characters.
SHORTEST = 6

#: A secret of several lines is known by any line of this length, characters.
LINE = 16

#: Values of variables with a telling name that tell nothing.
_EMPTY_WORDS = frozenset({"true", "false", "none", "null", "default", "enabled", "disabled"})


@dataclass(frozen=True)
class Hider:
    """Knows ``secrets``, and hides them beside all that looks like one."""

    secrets: frozenset[str] = frozenset()

    @classmethod
    def of(cls, environ: Mapping[str, str], *commands: Sequence[str]) -> Hider:
        """The secrets of an environment and of these commands, as they are run."""
        found: set[str] = set()
        for name, value in environ.items():
            if is_secret_variable(name):
                found.add(value)
            hide_shapes(value, found.add)
        for command in commands:
            hide_words(command, lambda word: hide_shapes(word, found.add), found.add)
        return cls(frozenset(secret for secret in found if _is_telling(secret)))

    def text(self, text: str) -> str:
        """The text without secrets."""
        if self.secrets:
            text = self._known.sub(HIDDEN, text)
        return hide_shapes(text)

    def words(self, argv: Sequence[str]) -> tuple[str, ...]:
        """The command without secrets; as many words as before."""
        return hide_words(argv, self.text, lambda _: None)

    @cached_property
    def _known(self) -> re.Pattern[str]:
        forms = {form for secret in self.secrets for form in _forms(secret)}
        return re.compile("|".join(map(re.escape, sorted(forms, key=len, reverse=True))))


def _is_telling(secret: str) -> bool:
    return len(secret) >= SHORTEST and secret.lower() not in _EMPTY_WORDS


def _forms(secret: str) -> set[str]:
    """How a secret may stand in a text: as it is, in a URL, quoted, line by line."""
    lines = [line for line in map(str.strip, secret.splitlines()) if len(line) >= LINE]
    encoded = quote(secret, safe="", errors="backslashreplace")
    forms = {secret, encoded, unquote(secret), json.dumps(secret)[1:-1], repr(secret)[1:-1]}
    return {form for form in (*forms, *lines) if len(form) >= SHORTEST}


def kept_spec(spec: StudySpec, environ: Mapping[str, str]) -> StudySpec:
    """The study as it may be stored: the same, but for secrets in its commands."""
    args = spec.launcher.extra_args
    hider = Hider.of(environ, spec.command, spec.job, args)
    return replace(
        spec,
        command=hider.words(spec.command),
        job=hider.words(spec.job),
        launcher=replace(spec.launcher, extra_args=hider.words(args)),
        environment=tuple((name, hider.text(value)) for name, value in spec.environment),
    )


def kept_record(record: LaunchRecord, environ: Mapping[str, str]) -> LaunchRecord:
    """The launch as it may be stored and told of: its command and its reasons without secrets."""
    hider = Hider.of(environ, record.argv)
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
