"""The protocol of a live job: one JSON object a line, over TCP, between each rank and ``tune``.

A file of the launch, for its owner only, tells the ranks where ``tune`` listens, and a secret. Each
side shows that it knows the secret, by an HMAC over both sides' nonces. Nothing is encrypted.
``tune`` loads this module too.
"""

import _thread
import hmac
import json
import os
import select
import socket

MOST = 64 * 1024  # bytes a line

_DIAL_S = 5.0  # tune answers sooner


class Line:
    """A connection; OSError or ValueError if the other side is gone or cannot be understood."""

    def __init__(self, connected):
        self.socket = connected
        self._rest, self._lines = b"", []
        self._sending = _thread.allocate_lock()

    def send(self, message):
        """Send one message, from any thread."""
        text = json.dumps(message, separators=(",", ":"), default=str).encode() + b"\n"
        with self._sending:
            # The program may have SIGPIPE end it.
            self.socket.sendall(text, socket.MSG_NOSIGNAL)

    def takes_more(self):
        """Return whether a message goes at once: a third of the socket's buffer is free."""
        return _is_ready(self.socket, select.POLLOUT, 0)

    def receive(self, limit_s=None):
        """Return the next message; None if none comes within the limit."""
        while not self._lines:
            if not _is_ready(self.socket, select.POLLIN, limit_s):
                return None
            self._lines += self.read()
        return json.loads(self._lines.pop(0).decode())

    def read(self):
        """Return the lines of a socket that is ready to be read; the last one may be on its way."""
        data = self.socket.recv(MOST)
        if not data:
            raise ConnectionError("it closed its connection")
        lines = (self._rest + data).split(b"\n")
        if max(map(len, lines)) >= MOST:
            raise ValueError(f"it sent a line of more than {MOST >> 10} KiB")
        self._rest = lines.pop()
        return lines

    def end(self):
        """Show both sides the end, though loader workers may have inherited the socket."""
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:  # the other side was faster
            pass

    def close(self):
        """Let go of the socket; only the thread that receives may."""
        self.end()
        self.socket.close()


def to_tool(place, hello):
    """Return a line to ``tune``, which has sent the hello and shown that it knows the secret.

    `place` is what the file of the launch holds: ``addresses``, ``port`` and ``secret``. An
    Exception says that no address is that of ``tune``.
    """
    problem = ConnectionError("no address")
    for address in place["addresses"]:
        line = Line(socket.socket())
        try:
            line.socket.settimeout(_DIAL_S)
            line.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            line.socket.connect((address, place["port"]))
            nonces = line.receive(_DIAL_S)["nonce"], os.urandom(16).hex()
            line.send(dict(hello, nonce=nonces[1], mac=mac(place["secret"], "rank", *nonces)))
            answer = line.receive(_DIAL_S)["mac"]
            if hmac.compare_digest(answer, mac(place["secret"], "tool", *nonces)):
                return line
        except Exception as error:  # somebody else listens there
            problem = error
        line.close()
    raise problem


def mac(secret, side, *nonces):
    """Return what a side shows, which only who knows the secret can make."""
    return hmac.new(secret.encode(), "/".join((side, *nonces)).encode(), "sha256").hexdigest()


def _is_ready(opened, event, limit_s):
    """Return whether a socket can be read or written within the limit."""
    ready = select.poll()  # select() takes no descriptor above 1023
    ready.register(opened, event)
    return bool(ready.poll(None if limit_s is None else 1000 * limit_s))
