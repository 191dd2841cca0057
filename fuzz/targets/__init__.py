"""Every target by name."""

from __future__ import annotations

from fuzz.target import Target
from fuzz.targets import (
    asked,
    figures,
    host,
    kept,
    launched,
    logs,
    recorded,
    retuned,
    shown,
    stored,
    typed,
    web,
)

TARGETS: dict[str, Target] = {
    target.name: target
    for module in (
        *(logs, figures, asked, typed, launched, retuned),
        *(host, recorded, stored, kept, shown, web),
    )
    for target in module.TARGETS
}
