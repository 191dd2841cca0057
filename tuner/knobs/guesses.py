"""The first guesses: what is launched before anything is measured.

`tune` and :class:`tuner.search.RuntimeSampler` both take them from the list here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tuner.knobs import Role
from tuner.model import SHARE, Value

#: The guesses, the more likely first: values by role, and by the name of a knob. Threads and
#: workers of a rank that is bound to one core would all share it.
GUESSES: tuple[Mapping[str, Value], ...] = (
    {
        "threads": SHARE,
        "workers": SHARE,
        "worker_threads": 1,
        "bind_to": "none",
        "cores_per_rank": SHARE,
    },
    {"threads": 1, "workers": 1, "worker_threads": 1, "bind_to": "none"},
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


def guesses(knobs: Sequence[GuessedKnob], rank_cores: int) -> list[dict[str, Value]]:
    """Return a value of each knob for each guess of the list; a rank has ``rank_cores`` cores.

    A count takes its largest value that is no more than the guess says, or else its least value.
    """
    return [{knob.name: _value(knob, guess, rank_cores) for knob in knobs} for guess in GUESSES]


def _value(knob: GuessedKnob, guess: Mapping[str, Value], rank_cores: int) -> Value:
    counts = [value for value in knob.values if not isinstance(value, str)]
    if knob.role is None or not counts:
        value = guess.get(knob.name)
        return value if value is not None and value in knob.values else knob.usual
    guessed = guess[knob.role]
    most = rank_cores if guessed == SHARE else guessed
    assert not isinstance(most, str)
    return max((value for value in counts if 1 <= value <= most), default=min(counts))
