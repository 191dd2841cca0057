"""Reads the body of a request, so that the application gets none that it would fail on."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

from tuner.results.dashboard.access import Refusal

if TYPE_CHECKING:
    from wsgiref.types import WSGIEnvironment

#: The longest body that is read, in bytes: a long note has a few thousand.
LONGEST_BODY = 1 << 20

#: The methods whose body the application reads.
_WITH_BODY = {"POST", "PUT", "PATCH", "DELETE"}


def unreadable(environ: WSGIEnvironment) -> Refusal | None:
    """A refusal where a body is no JSON object; the application would fail on any other.

    An empty body becomes an empty object. The body can be read once more after this.
    """
    if environ["REQUEST_METHOD"] not in _WITH_BODY:
        return None
    refusal = _announced(environ)
    if refusal is not None:
        return refusal
    try:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0)) or b"{}"
    except OSError:  # the rest of it did not come in time
        return Refusal("408 Request Timeout", "the body did not come")
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        return Refusal("400 Bad Request", "the body must be a JSON object")
    environ["wsgi.input"] = io.BytesIO(body)
    environ["CONTENT_LENGTH"], environ["CONTENT_TYPE"] = str(len(body)), "application/json"
    return None


def _announced(environ: WSGIEnvironment) -> Refusal | None:
    """A refusal where the headers speak of a body that is not wanted."""
    length = environ.get("CONTENT_LENGTH") or "0"
    if not (length.isascii() and length.isdecimal()):
        return Refusal("400 Bad Request", "the length of the body is no number")
    if len(length) > 18 or int(length) > LONGEST_BODY:
        return Refusal("413 Content Too Large", f"a body may have {LONGEST_BODY} bytes")
    kind = environ.get("CONTENT_TYPE", "").partition(";")[0].strip().lower()
    if int(length) and kind != "application/json":
        return Refusal("415 Unsupported Media Type", "the body must be JSON")
    return None
