"""Our tables, SQLAlchemy over SQLite or PostgreSQL: what was measured, and nothing else.

SQLAlchemy takes 0.15 s to import; importing this package does not import it yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tuner.store.urls import DEFAULT_STORAGE, STORAGE_VARIABLE, display_url, resolve_url

if TYPE_CHECKING:
    from tuner.store.rows import StudyRow, StudySummary, Summary
    from tuner.store.store import Store

__all__ = [
    "DEFAULT_STORAGE",
    "STORAGE_VARIABLE",
    "Store",
    "StudyRow",
    "StudySummary",
    "Summary",
    "display_url",
    "resolve_url",
]


def __getattr__(name: str) -> Any:
    if name == "Store":
        from tuner.store.store import Store

        return Store
    if name in {"StudyRow", "StudySummary", "Summary"}:
        from tuner.store import rows

        return getattr(rows, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
