"""What MkDocs makes of the docstrings for docs/api.md: Sphinx's roles go, their names stay."""

from __future__ import annotations

import re
from typing import Any


def on_page_content(html: str, **_: Any) -> str:
    """``:class:`Name``` as ``Name``."""
    return re.sub(r":(?:class|data|exc|func|meth|mod):(<code>)~?(?:[\w.]*\.)?", r"\1", html)
