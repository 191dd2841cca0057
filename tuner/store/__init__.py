"""Stores studies: our table beside those of Optuna, by SQLAlchemy over SQLite or PostgreSQL.

SQLAlchemy takes 0.15 s to import; importing this package does not import it yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tuner.store.urls import DEFAULT_STORAGE as DEFAULT_STORAGE
from tuner.store.urls import display_url as display_url
from tuner.store.urls import resolve_url as resolve_url

if TYPE_CHECKING:
    from tuner.store.store import Store as Store


def __getattr__(name: str) -> Any:
    if name != "Store":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tuner.store.store import Store

    return Store
