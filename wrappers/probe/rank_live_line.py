"""The connection of a rank to the tool: one JSON object a line, over TCP.

The file of the launch, for its owner only, tells where the tool listens, and a secret. Each side
shows that it knows that: with an HMAC over both sides' nonces. Nothing is encrypted.
"""

import _thread
import hmac
import json
import os
import select
import socket

MOST = 64 * 1024  # bytes a line

_DIAL_S = 5.0  # an address of the tool answers sooner; who does not read keeps the job no longer


class Line:
    """A connection; OSError or ValueError if the other side is gone or cannot be understood."""

    def __init__(self, address, port):
        self._socket = socket.socket()
        self._rest, self._lines = b"", []
        self._sending = _thread.allocate_lock()
        self._socket.settimeout(_DIAL_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self._socket.connect((address, port))
        except OSError:
            self._socket.close()
            raise

    def send(self, message):
        """Send one message, of whichever thread."""
        text = json.dumps(message, separators=(",", ":"), default=str).encode() + b"\n"
        with self._sending:
            # The program may have SIGPIPE end it.
            self._socket.sendall(text, socket.MSG_NOSIGNAL)

    def takes_more(self):
        """Whether a message goes at once: a socket says so if 1/3 of its buffer is free."""
        return _is_ready(self._socket, select.POLLOUT, 0)

    def receive(self, limit_s=None):
        """The next message; None if none comes within the limit."""
        while not self._lines:
            if not _is_ready(self._socket, select.POLLIN, limit_s):
                return None
            data = self._socket.recv(MOST)
            lines = (self._rest + data).split(b"\n")
            self._rest = lines.pop()
            self._lines += lines
            if not data or len(self._rest) > MOST:
                raise ConnectionError
        return json.loads(self._lines.pop(0).decode())

    def end(self):
        """Both sides see the end, though loader workers may have inherited the socket."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:  # the other side was faster
            pass

    def close(self):
        """Let go of it; only the thread that receives may."""
        self.end()
        self._socket.close()


def to_tool(place, hello):
    """The line to the tool, after the hello.

    Args:
        place: What the file of the launch tells: ``addresses``, ``port`` and ``secret``.
        hello: The first message; it is completed with what shows that we know the secret.

    Raises:
        Exception: No address is that of the tool.
    """
    problem = ConnectionError("no address")
    for address in place["addresses"]:
        try:
            line = Line(address, place["port"])
        except OSError as error:
            problem = error
            continue
        try:
            nonces = line.receive(_DIAL_S)["nonce"], os.urandom(16).hex()
            proof = mac(place["secret"], "rank", *nonces)
            line.send(dict(hello, nonce=nonces[1], mac=proof))
            answer = line.receive(_DIAL_S)["mac"]
            if hmac.compare_digest(answer, mac(place["secret"], "tool", *nonces)):
                return line
        except Exception as error:  # somebody else listens there
            problem = error
        line.close()
    raise problem


def mac(secret, side, *nonces):
    """What a side shows: only who knows the secret can make it."""
    return hmac.new(secret.encode(), "/".join((side, *nonces)).encode(), "sha256").hexdigest()


def _is_ready(opened, event, limit_s):
    """Whether a socket is ready within the limit, to be read or written."""
    ready = select.poll()  # select() takes no descriptor above 1023
    ready.register(opened, event)
    return bool(ready.poll(None if limit_s is None else 1000 * limit_s))
