"""What kind of file system a database would lie on."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from tuner.model.errors import UsageError

#: File systems whose locks SQLite cannot trust (sqlite.org/faq.html, question 5;
#: optuna/optuna issues 815, 820 and 6036 are what happens).
NETWORK = frozenset(
    {"nfs", "nfs4", "lustre", "cifs", "smb3", "smbfs", "gpfs", "beegfs", "afs", "panfs"}
    | {"fuse.sshfs", "fuse.glusterfs"}
)


def network_filesystem(path: Path, mountinfo: str) -> str | None:
    """The kind of the network file system that ``path`` lies on, ``None`` for a local one.

    Args:
        path: Absolute, links resolved; need not exist.
        mountinfo: The text of ``/proc/self/mountinfo`` (proc(5)).
    """
    kind, longest = "", -1
    for line in mountinfo.splitlines():
        left, dash, right = line.partition(" - ")
        fields, rest = left.split(" "), right.split(" ")
        if not dash or len(fields) < 5 or not rest[0]:
            continue
        point = Path(_unescape(fields[4]))
        # ">=": of two mounts on one point, the later one lies on top
        if path.is_relative_to(point) and len(point.parts) >= longest:
            kind, longest = rest[0], len(point.parts)
    return kind if kind in NETWORK else None


def _unescape(text: str) -> str:
    """Undo the octal escapes of blanks and backslashes."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def _mountinfo() -> str:
    try:
        return Path("/proc/self/mountinfo").read_text(errors="surrogateescape")
    except OSError:  # no /proc: nothing can be said, so nothing is refused
        return ""


def require_local(path: Path, mountinfo: Callable[[], str] = _mountinfo) -> None:
    """Refuse a database file on a network file system, where SQLite gets corrupted.

    Raises:
        UsageError: Naming the file system and another place.
    """
    kind = network_filesystem(path.resolve(), mountinfo())
    if kind is not None:
        raise UsageError(
            f"the database {path} would lie on a network file system ({kind}),"
            " where SQLite loses data",
            "Put it on a local disk with --storage, e.g. --storage /var/tmp/tune.db, and copy"
            " the file when the study is done; or use a PostgreSQL server.",
        )
