"""Rank 0's connection to the tool: one JSON object a line, over a Unix socket."""

import contextlib
import json
import os
import select
import socket
import time

PROTOCOL = 2
MOST = 64 * 1024  # bytes a line

_LIMIT_S = 5.0  # a tool that does not read keeps the job no longer
_POLL_S = 0.1  # between two polls, as near as whole iterations allow
_PAUSE_S = 20.0  # at the program's own end; the other ranks wait longer for a poll
_MOST_STEPS = 1000  # between two polls: they must fit into a line


class LostError(Exception):
    """The tool is gone, or says what cannot be read."""


class Line:
    """The connection.

    Raises:
        OSError: Nobody listens there.
    """

    def __init__(self, path):
        folder, name = os.path.split(path)
        # A path to a socket may be longer than the 108 bytes of its address.
        place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._rest = b""
        self._lines = []
        try:
            self._socket.settimeout(_LIMIT_S)
            self._socket.connect(f"/proc/self/fd/{place}/{name}")
        except OSError:
            self._socket.close()
            raise
        finally:
            os.close(place)

    def send(self, message):
        """Send one message; :class:`LostError` without a reader."""
        try:
            self._socket.settimeout(_LIMIT_S)
            self._socket.sendall(_encoded(message))
        except OSError:
            raise LostError from None

    def takes_more(self):
        """Whether a message goes at once: a socket says so if 3/4 of its buffer are free."""
        ready = select.poll()  # select() takes no file above 1023
        try:
            ready.register(self._socket, select.POLLOUT)
            return bool(ready.poll(0))
        except (OSError, ValueError):  # it is closed
            raise LostError from None

    def wait(self, limit_s):
        """Until something is there to be received, or the tool is gone; at most so long."""
        if not self._lines:
            readable = select.poll()  # select() takes no descriptor above 1023
            readable.register(self._socket, select.POLLIN)
            readable.poll(limit_s * 1000)

    def receive(self):
        """The next message that is there by now, or None; :class:`LostError` at the end."""
        self._socket.settimeout(0)
        while True:
            try:
                data = self._socket.recv(MOST)
            except BlockingIOError:
                break
            except OSError:
                raise LostError from None
            lines = (self._rest + data).split(b"\n")
            self._rest = lines.pop()
            self._lines += lines
            if not data or len(self._rest) > MOST:
                raise LostError
        if not self._lines:
            return None
        try:
            message = json.loads(self._lines.pop(0).decode())
        except ValueError:
            raise LostError from None
        return message if isinstance(message, dict) else {}

    def close(self):
        """The tool sees the end, though loader workers may have inherited the socket."""
        try:  # noqa: SIM105
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:  # the other side was faster
            pass
        self._socket.close()


def _encoded(message):
    return json.dumps(message, separators=(",", ":"), default=str).encode() + b"\n"


class Report:
    """The tool, as rank 0 sees it.

    Args:
        line: The connection.
    """

    def __init__(self, line):
        self._line = line
        self._first, self._steps_s, self._marks = 0, [], []
        self._gap, self._polled_s = 1, None

    def hello(self, transport, hook, can, iteration):
        """The first message: the ranks have met before this iteration."""
        self._first, self._polled_s = iteration, time.monotonic()
        message = {"type": "hello", "protocol": PROTOCOL, "pid": os.getpid(), "can": can}
        message.update(hook=hook, iteration=iteration)
        message.update(ranks=transport.size, transport=transport.name)
        self._line.send(message)

    def refuse(self, why):
        """In place of a hello: the ranks accept no switches."""
        self._line.send({"type": "refused", "why": why})

    def add(self, elapsed_s, marked):
        """An iteration has ended."""
        if marked:
            self._marks.append(self._first + len(self._steps_s))
        self._steps_s.append(elapsed_s)

    def poll(self, iteration):
        """Tell the steps since the last poll, and take the next order.

        Returns:
            For all ranks: the iteration of the ``next`` poll, and the ``switch`` or None. None
            if the tool is gone.
        """
        switch = None
        try:
            self._tell_steps()
            message = self._line.receive()
            while message is not None and switch is None:
                if message.get("type") == "switch" and isinstance(message.get("values"), dict):
                    switch = {"number": message.get("number"), "values": message["values"]}
                else:  # of a later version
                    message = self._line.receive()
        except LostError:
            return None
        return {"next": iteration + self._next_gap(switch), "switch": switch}

    def _tell_steps(self):
        # Between two windows nobody reads, for seconds, and nobody misses them: do not wait there.
        if self._steps_s and self._line.takes_more():
            steps_s = [round(step_s, 7) for step_s in self._steps_s]
            self._line.send(
                {"type": "steps", "first": self._first, "s": steps_s, "marks": self._marks}
            )

    def _next_gap(self, switch):
        """Iterations until the next poll: at once after a switch, since nobody knows the pace."""
        now_s = time.monotonic()
        passed_s = now_s - self._polled_s
        number = max(1, len(self._steps_s))
        fitting = round(_POLL_S * number / passed_s) if passed_s > 0 else _MOST_STEPS
        self._gap = 1 if switch else max(1, min(2 * self._gap, fitting, _MOST_STEPS))
        self._first, self._steps_s, self._marks = self._first + len(self._steps_s), [], []
        self._polled_s = now_s
        return self._gap

    def switched(self, number, iteration, took_s, ranks):
        """All ranks have applied the order."""
        if any(rank is None for rank in ranks):
            raise LostError
        message = {"type": "switched", "number": number, "iteration": iteration}
        message.update(took_s=round(took_s, 6), ranks=ranks)
        for part in ("affinity", "pools"):  # of very many ranks the less important parts go
            if len(_encoded(message)) > MOST:
                message["ranks"] = [dict(rank, **{part: []}) for rank in message["ranks"]]
        self._line.send(message)
        self._polled_s = time.monotonic()

    def over(self):
        """The program is at its own end: the tool reads what it has written, then asks."""
        with contextlib.suppress(LostError):  # which the next poll finds too, and tells all ranks
            self._line.send({"type": "over", "iterations": self._made()})
            self._line.wait(_PAUSE_S)

    def end(self):
        """The program ends: tell the last steps, and how many there were in all."""
        with contextlib.suppress(LostError):
            self._tell_steps()
            self._line.send({"type": "end", "iterations": self._made()})
        self.close()

    def _made(self):
        """How many iterations the program has made."""
        return max(0, self._first + len(self._steps_s) - 1)

    def close(self):
        """The tool sees that there is no more."""
        self._line.close()
