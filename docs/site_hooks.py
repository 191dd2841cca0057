"""What MkDocs does beside its own: names in docs/api.md, and the pages' texts for llms.txt."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any


def on_page_content(html: str, **_: Any) -> str:
    """``:class:`Name``` as ``Name``: Sphinx's roles go."""
    return re.sub(r":(?:class|data|exc|func|meth|mod):(<code>)~?(?:[\w.]*\.)?", r"\1", html)


def on_post_build(config: Any, **_: Any) -> None:
    """Put the Markdown of each page beside it: llms.txt links to these."""
    docs = Path(config.docs_dir)
    for page in docs.rglob("*.md"):
        shutil.copyfile(page, Path(config.site_dir, page.relative_to(docs)))
