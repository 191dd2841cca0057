"""The published schema of what `tune` writes as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

SCHEMA = json.loads((Path(__file__).parents[1] / "docs" / "schema.json").read_text())
_VALIDATOR = Draft202012Validator(SCHEMA)


def check(document: Any) -> None:
    """Fail unless the document is one of those that the schema describes."""
    error = best_match(_VALIDATOR.iter_errors(document))
    assert error is None, f"{error.json_path}: {error.message}"
