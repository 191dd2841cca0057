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

MOST_LINE_BYTES = 64 * 1024

_DIAL_S = 5.0  # the time that tune has for each answer


class Line:
    """A connection; OSError or ValueError if the other side is gone or cannot be understood."""

    def __init__(self, connection):
        self.socket = connection
        self._partial_line, self._lines = b"", []
        self._sending = _thread.allocate_lock()

    def send(self, message):
        """Send one message, from any thread."""
        text = json.dumps(message, separators=(",", ":"), default=str).encode() + b"\n"
        with self._sending:
            # Without SIGPIPE, which may end the program.
            self.socket.sendall(text, socket.MSG_NOSIGNAL)

    def takes_more(self):
        """Return whether a message goes at once: a third of the socket's buffer is free."""
        return _is_ready(self.socket, select.POLLOUT, limit_s=0)

    def receive(self, limit_s=None):
        """Return the next message; None if none comes within the limit."""
        while not self._lines:
            if not _is_ready(self.socket, select.POLLIN, limit_s):
                return None
            self._lines += self.read()
        return json.loads(self._lines.pop(0).decode())

    def read(self):
        """Return the whole lines that a socket has, which is ready to be read."""
        data = self.socket.recv(MOST_LINE_BYTES)
        if not data:
            raise ConnectionError("it closed its connection")
        lines = (self._partial_line + data).split(b"\n")
        if max(map(len, lines)) >= MOST_LINE_BYTES:
            raise ValueError(f"it sent a line of more than {MOST_LINE_BYTES >> 10} KiB")
        self._partial_line = lines.pop()
        return lines

    def end(self):
        """Show both sides the end, though loader workers may have inherited the socket."""
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:  # the other side has ended it
            pass

    def close(self):
        """Close the socket; only the thread that receives may."""
        self.end()
        self.socket.close()


def to_tool(place, hello):
    """Return a line to ``tune``, once both sides have shown that they know the secret.

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
            nonces = line.receive(_DIAL_S)["nonce"], os.urandom(16).hex()  # the tool's, and ours
            line.send(dict(hello, nonce=nonces[1], mac=mac(place["secret"], "rank", *nonces)))
            answer = line.receive(_DIAL_S)["mac"]
            if hmac.compare_digest(answer, mac(place["secret"], "tool", *nonces)):
                return line
        except Exception as error:  # nobody listens at the address, or another program does
            problem = error
        line.close()
    raise problem


def mac(secret, side, *nonces):
    """Return the proof that a side knows the secret, for these nonces."""
    return hmac.new(secret.encode(), "/".join((side, *nonces)).encode(), "sha256").hexdigest()


def _is_ready(connection, event, limit_s):
    """Return whether a socket can be read or written within the limit; None: wait for ever."""
    poll = select.poll()  # select() takes no descriptor above 1023
    poll.register(connection, event)
    return bool(poll.poll(None if limit_s is None else 1000 * limit_s))  # ms
