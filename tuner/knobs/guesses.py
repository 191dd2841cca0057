"""The first guesses: what is launched before anything is measured.

`tune` and :class:`tuner.search.RuntimeSampler` both take them from the list here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tuner.knobs import Role
from tuner.model import SHARE, Value

#: Of ranks: about as many as each of them has cores.
ROOT = "root"

#: The guesses, the more likely first: values by role, and by the name of a knob. Threads and
#: workers of a rank that is bound to one core would all share it.
GUESSES: tuple[Mapping[str, Value], ...] = (
    {
        "ranks": SHARE,
        "threads": SHARE,
        "workers": SHARE,
        "worker_threads": 1,
        "bind_to": "none",
        "cores_per_rank": SHARE,
    },
    {"ranks": SHARE, "threads": 1, "workers": 1, "worker_threads": 1, "bind_to": "none"},
    {"ranks": ROOT, "threads": SHARE, "workers": SHARE, "worker_threads": 1, "bind_to": "none"},
    # Few programs refuse one rank.
    {"ranks": 1, "threads": SHARE, "workers": SHARE, "worker_threads": 1, "bind_to": "none"},
)


class GuessedKnob(NamedTuple):
    """A knob as a guess needs it.

    ``role`` says what its number costs in cores (``None``: nothing), and ``usual`` is its value in
    a guess that names neither the knob nor its role.
    """

    name: str
    role: Role | None
    values: Sequence[Value]
    usual: Value


def guesses(knobs: Sequence[GuessedKnob], cores: int, ranks: int) -> list[dict[str, Value]]:
    """Return a value of each knob for each guess of the list, each guess once.

    The host has this many cores, and this many ranks if no knob counts them. A count takes its
    largest value that is no more than the guess says, or else its least value.
    """
    counts_ranks = [knob for knob in knobs if knob.role == "ranks"]
    settings = []
    for guess in GUESSES:
        setting: dict[str, Value] = {}
        ranks_of_guess = ranks
        for knob in [*counts_ranks, *knobs]:
            most = {SHARE: cores, ROOT: math.isqrt(cores)}
            if knob.role != "ranks":
                most[SHARE] = max(1, cores // ranks_of_guess)
            value = setting[knob.name] = _value(knob, guess, most)
            if knob.role == "ranks" and isinstance(value, int):
                ranks_of_guess = max(1, value)
        settings.append({knob.name: setting[knob.name] for knob in knobs})
    return [setting for n, setting in enumerate(settings) if setting not in settings[:n]]


def _value(knob: GuessedKnob, guess: Mapping[str, Value], most: Mapping[str, int]) -> Value:
    counts = [value for value in knob.values if not isinstance(value, str)]
    if knob.role is None or not counts:
        value = guess.get(knob.name)
        return value if value is not None and value in knob.values else knob.usual
    guessed = guess[knob.role]
    limit = most[guessed] if isinstance(guessed, str) else guessed
    return max((value for value in counts if 1 <= value <= limit), default=min(counts))
