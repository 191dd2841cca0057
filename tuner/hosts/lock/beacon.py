"""A second half of the lock that nobody can remove: a name in the kernel.

The file may be removed while its owner measures (a cleaner of /tmp, a helpful colleague); who
comes next would make a new one and lock that. An abstract socket (unix(7)) has a name and no
file, and it ends with its owner as well.
"""

from __future__ import annotations

import errno
import hashlib
import socket
import struct
from pathlib import Path


def light(path: Path) -> tuple[socket.socket | None, bool]:
    """Take the name that stands for a lock file.

    Returns:
        The socket that holds it and True; ``None`` and False where another process has it,
        ``None`` and True where there are no such names.
    """
    try:
        beacon = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    except OSError:
        return None, True
    try:
        beacon.bind(_name(path))
        beacon.listen(64)
    except OSError as error:
        beacon.close()
        return None, error.errno != errno.EADDRINUSE
    return beacon, True


def keeper(path: Path) -> int:
    """The process id of who has the name; 0 where it cannot be told."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as asking:
        asking.setblocking(False)
        try:
            asking.connect(_name(path))
            size = struct.calcsize("3i")
            found = asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
        except OSError:
            return 0
    pid: int = struct.unpack("3i", found)[0]
    return pid


def _name(path: Path) -> bytes:
    place = hashlib.sha256(bytes(path.resolve())).hexdigest()
    return b"\0tuner-" + place[:32].encode()
