"""Rank 0's line to the supervisor: one JSON object a line, over a Unix socket."""

import json
import os
import select
import socket

MOST = 64 * 1024  # bytes a line

_LIMIT_S = 5.0  # a supervisor that does not read keeps the job no longer


class LostError(Exception):
    """The supervisor is gone, or says what cannot be read."""


def _connected(path):
    """A path to a socket may be longer than the 108 bytes of its address."""
    folder, name = os.path.split(path)
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        line.settimeout(_LIMIT_S)
        line.connect(f"/proc/self/fd/{place}/{name}")
    except OSError:
        line.close()
        raise
    finally:
        os.close(place)
    return line


class Line:
    """The connection.

    Raises:
        OSError: Nobody listens there.
    """

    def __init__(self, path):
        self._socket = _connected(path)
        self._rest = b""
        self._lines = []

    def send(self, message):
        """Send one message; :class:`LostError` without a reader."""
        try:
            self._socket.settimeout(_LIMIT_S)
            self._socket.sendall(_encoded(message))
        except OSError:
            raise LostError from None

    def takes_more(self):
        """Whether a message goes at once: a socket says so where 3/4 of its buffer are free."""
        ready = select.poll()  # select() takes no file above 1023
        try:
            ready.register(self._socket, select.POLLOUT)
            return bool(ready.poll(0))
        except (OSError, ValueError):  # it is closed
            raise LostError from None

    def send_fitting(self, message):
        """Send the read-backs of all ranks; of very many the less important parts are left out."""
        for part in ("affinity", "pools"):
            if len(_encoded(message)) > MOST:
                message["ranks"] = [dict(rank, **{part: []}) for rank in message["ranks"]]
        self.send(message)

    def wait(self, limit_s):
        """Until something is there to be received, or the supervisor is gone; at most so long."""
        if not self._lines:
            readable = select.poll()  # select() takes no descriptor above 1023
            readable.register(self._socket, select.POLLIN)
            readable.poll(limit_s * 1000)

    def receive(self):
        """The next message that is there by now, or None; :class:`LostError` at the end."""
        self._read()
        if not self._lines:
            return None
        try:
            message = json.loads(self._lines.pop(0).decode())
        except ValueError:
            raise LostError from None
        return message if isinstance(message, dict) else {}

    def _read(self):
        self._socket.settimeout(0)
        while True:
            try:
                data = self._socket.recv(MOST)
            except BlockingIOError:
                return
            except OSError:
                raise LostError from None
            if not data:
                raise LostError
            lines = (self._rest + data).split(b"\n")
            self._rest = lines.pop()
            self._lines += lines
            if len(self._rest) > MOST:
                raise LostError

    def close(self):
        """The supervisor sees the end, though loader workers may have inherited the socket."""
        try:  # noqa: SIM105
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:  # the other side was faster
            pass
        self._socket.close()


def _encoded(message):
    return json.dumps(message, separators=(",", ":"), default=str).encode() + b"\n"
