"""Our tables, SQLAlchemy over SQLite or PostgreSQL: what was measured, and nothing else.

SQLAlchemy takes 0.15 s to import; importing this package does not import it yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tuner.store.urls import DEFAULT_STORAGE as DEFAULT_STORAGE
from tuner.store.urls import STORAGE_VARIABLE as STORAGE_VARIABLE
from tuner.store.urls import display_url as display_url
from tuner.store.urls import resolve_url as resolve_url

if TYPE_CHECKING:
    from tuner.store.rows import StudyRow as StudyRow
    from tuner.store.rows import StudySummary as StudySummary
    from tuner.store.rows import Summary as Summary
    from tuner.store.store import Store as Store
else:

    def __getattr__(name: str) -> Any:
        if name in {"Store", "StudyRow", "StudySummary", "Summary"}:
            from tuner.store import store

            return getattr(store, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
