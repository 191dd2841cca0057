"""The agent of a host: answers for its :class:`~tuner.hosts.local_host.LocalHost`.

Whatever ends the connection (the end of ``tune``, ``kill -9`` of it, a dead link), the agent then
ends what launches have left on its host, gives the host back, and ends itself.

A request is ``{"launch": …, "method": …, "arguments": […]}`` in JSON, for the launch with this
marker or, if that is empty, for the host. An answer is ``{"value": …}``, or
``{"error": [class, message, hint]}`` for a :class:`TunerError`. Before an answer that takes long an
agent sends empty messages: a stopped one sends none, though its kernel keeps the connection.
"""

from __future__ import annotations

import contextlib
import json
import signal
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, get_type_hints

from tuner.hosts.launch_on_host import LaunchOnHost
from tuner.hosts.local_host import LocalHost
from tuner.model import codec
from tuner.model.errors import TunerError

if TYPE_CHECKING:
    from tuner.hosts.remote.dial import Channel

#: The methods that ``tune`` may call by name: of the host, and of one launch on it.
_METHODS: tuple[Callable[..., Any], ...] = (
    *(LocalHost.describe, LocalHost.hold, LocalHost.place, LocalHost.survey),
    *(LaunchOnHost.share, LaunchOnHost.changed, LaunchOnHost.watch, LaunchOnHost.record),
    *(LaunchOnHost.sample, LaunchOnHost.activities, LaunchOnHost.computes, LaunchOnHost.stacks),
    *(LaunchOnHost.view, LaunchOnHost.pause, LaunchOnHost.resume, LaunchOnHost.sweep),
)
METHODS = {method.__name__: method for method in _METHODS}

#: How often an agent that works on an answer sends an empty message, s.
SIGN_OF_LIFE_S = 1.0


def serve(channel: Channel, detach: Callable[[], None] | None = None) -> None:
    """Answer requests until the connection ends, then leave nothing behind.

    ``detach`` is called after the first answer: on the host of ``tune`` itself an agent that has
    not detached ends with the launcher.
    """
    host = LocalHost()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: channel.close())
    try:
        with contextlib.suppress(OSError):
            while True:
                request = json.loads(channel.receive())
                with signs_of_life(channel):
                    answer = _answer(host, request)
                channel.send(json.dumps(answer).encode())
                if detach is not None:
                    detach()
                    detach = None
    finally:
        with contextlib.suppress(TunerError):  # nobody is left to tell
            host.close()


@contextlib.contextmanager
def signs_of_life(channel: Channel) -> Iterator[None]:
    """Send empty messages until the block ends, so that the agent does not look stopped."""
    done = threading.Event()

    def send() -> None:
        with contextlib.suppress(OSError):  # the next message of the agent itself will fail too
            while not done.wait(SIGN_OF_LIFE_S):
                channel.send(b"")

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _answer(host: LocalHost, request: dict[str, Any]) -> dict[str, Any]:
    target = host.launch(request["launch"]) if request["launch"] else host
    method = METHODS[request["method"]]
    *types, _ = get_type_hints(method).values()  # the last one is that of the answer
    try:
        arguments = map(codec.from_json, types, request["arguments"])
        return {"value": codec.to_json(method(target, *arguments))}
    except TunerError as error:
        return {"error": [type(error).__name__, error.message, error.hint]}
    except OSError as error:  # of the host: its memory is full, say
        where = f"{error.filename}: " if error.filename else ""
        return {"error": [TunerError.__name__, f"{where}{error.strerror or error}", ""]}
