"""How a study is followed while it runs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from tuner.study.events import Event


def view(quiet: bool) -> AbstractContextManager[Callable[[Event], None]]:
    """The live view on a terminal, timed lines elsewhere."""
    from tuner.cli import console
    from tuner.cli.plain import PlainView, QuietView

    if quiet:
        return QuietView()
    if not console.is_live(sys.stderr):
        return PlainView()
    from tuner.cli.live import LiveView

    return LiveView()
