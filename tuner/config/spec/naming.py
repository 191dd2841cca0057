"""The names of studies: each is the name of a folder and a word on the command line."""

from __future__ import annotations

import re

from tuner.model.errors import UsageError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def check_name(name: str, place: str = "name") -> str:
    """The name itself, once it is one.

    Raises:
        UsageError: It could not be a folder's name or would be taken for an option;
            ``place`` says where it was given.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{place} {name!r}: is no name for a study.",
            "Up to 100 letters, digits, and . _ - after the first, such as mnist-n8.",
        )
    return name


def as_name(text: str) -> str:
    """The text with all that a name cannot have replaced or cut off; may be empty."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", text).strip("._-")
