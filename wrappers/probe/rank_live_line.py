"""Unix sockets with one JSON object a line: from rank 0 to the tool, and to each other rank."""

import json
import os
import select
import socket
import struct
import sys
import time

MOST = 64 * 1024  # bytes a line

_SEND_S = 5.0  # who does not read keeps the job no longer
_PAUSE_S = 0.005
_LOOK_MS = 2  # between two calls of MPI


class Line:
    """A connection; OSError or ValueError if the other side is gone or cannot be understood."""

    def __init__(self, connected):
        self._socket = connected
        self._socket.settimeout(_SEND_S)
        self._rest, self._lines = b"", []

    def send(self, message):
        """Send one message."""
        # The program may have SIGPIPE end it.
        self._socket.sendall(encoded(message), socket.MSG_NOSIGNAL)

    def takes_more(self):
        """Whether a message goes at once: a socket says so if 3/4 of its buffer are free."""
        return _is_ready(self._socket, select.POLLOUT)

    def wait(self, limit_s):
        """Until something is there to be received, or the other side is gone; at most this long."""
        return bool(self._lines) or _is_ready(self._socket, select.POLLIN, limit_s)

    def receive(self, limit_s=0.0):
        """The next message that comes within the limit, or None."""
        while not self._lines:
            if not self.wait(limit_s):
                return None
            data = self._socket.recv(MOST)
            lines = (self._rest + data).split(b"\n")
            self._rest = lines.pop()
            self._lines += lines
            if not data or len(self._rest) > MOST:
                raise ConnectionError
        return json.loads(self._lines.pop(0).decode())

    def close(self):
        """The other side sees the end, though loader workers may have inherited the socket."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:  # the other side was faster
            pass
        self._socket.close()


def encoded(message):
    """A message as it is sent."""
    return json.dumps(message, separators=(",", ":"), default=str).encode() + b"\n"


def to_tool(path):
    """The line to the tool, which listens at `path`; OSError if it does not."""
    folder, name = os.path.split(path)
    # A path to a socket may be longer than the 108 bytes of its address.
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return Line(_connected(f"/proc/self/fd/{place}/{name}"))
    finally:
        os.close(place)


def to_others(path, size, limit_s):
    """At rank 0: yields the lines to the `size` - 1 other ranks of the job whose tool is at `path`.

    Raises:
        OSError: They have not all come within the limit.
    """
    end_s = time.monotonic() + limit_s
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(_meeting(path))
        listener.listen(size)
        for _ in range(size - 1):
            if not _is_ready(listener, select.POLLIN, end_s - time.monotonic()):
                raise TimeoutError
            yield Line(_checked(listener.accept()[0]))
    finally:
        listener.close()


def to_rank_0(path, limit_s):
    """At another rank: the line to rank 0; OSError if that does not listen within the limit."""
    end_s = time.monotonic() + limit_s
    meeting = _meeting(path)
    while True:
        try:
            return Line(_checked(_connected(meeting)))
        except ConnectionRefusedError:
            if time.monotonic() >= end_s:
                raise
        time.sleep(_PAUSE_S)
        _let_mpi_progress()


def _connected(address):
    connected = socket.socket(socket.AF_UNIX)
    try:
        connected.settimeout(_SEND_S)
        connected.connect(address)
    except OSError:
        connected.close()
        raise
    return connected


def _meeting(path):
    """Where rank 0 listens: no file (see unix(7)), but only the tool's tells what it is called."""
    tool = os.stat(path)
    return f"\0tune-{tool.st_dev}-{tool.st_ino}-{tool.st_mtime_ns}"


def _checked(connected):
    """The socket, if its other side is ours: every user can come to an address that is no file."""
    credentials = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    if struct.unpack("3i", credentials)[1] != os.getuid():
        raise PermissionError
    return connected


def _is_ready(opened, event, limit_s=0.0):
    """Whether a socket is ready within the limit, to be read or written."""
    ready = select.poll()  # select() takes no descriptor above 1023
    ready.register(opened, event)
    end_s = time.monotonic() + limit_s
    while not ready.poll(_LOOK_MS if limit_s > 0 else 0):
        if time.monotonic() >= end_s:
            return False
        _let_mpi_progress()
    return True


def _let_mpi_progress():
    """Messages of the program may move only inside of MPI: whom we wait for may wait for them."""
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is None or not mpi.Is_initialized() or mpi.Is_finalized():
        return
    if mpi.Query_thread() == mpi.THREAD_MULTIPLE:  # else another thread might be in MPI
        mpi.COMM_WORLD.Iprobe()
