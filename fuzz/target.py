"""What a fuzz target is: a parser with what must hold of it, and inputs that reach into it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True)
class Target:
    """One parser.

    ``run`` raises where the parser breaks its word: an exception that it does not document, or
    an assertion about what it gave back. ``make`` gives one input of a seeded source. ``share``
    is its part of all inputs, relative to the others': less for what is slow.
    """

    name: str
    run: Callable[[bytes], None]
    make: Callable[[Random], bytes]
    share: float = 1.0
