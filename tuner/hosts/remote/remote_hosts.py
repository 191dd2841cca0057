"""The other hosts of a study: tune reaches, holds and sweeps them by agents, and replaces one."""

from __future__ import annotations

import errno
import json
import math
import os
import select
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, TypeVarTuple, get_type_hints

from tuner.hosts import lock
from tuner.hosts.local_host import HostDescription, LocalHost
from tuner.hosts.process.left_over import note_of
from tuner.hosts.remote import agent_start
from tuner.hosts.remote.dial import SILENCE_S, Channel
from tuner.hosts.supervisor.cleanup import GIVE_UP_S
from tuner.model import Machine, codec
from tuner.model.errors import BusyError, TunerError, UsageError

Ts = TypeVarTuple("Ts")
T = TypeVar("T")

#: An agent answers within this time, s: a sweep gives up before.
ANSWER_S = GIVE_UP_S + 10.0

#: An agent answers or gives a sign of life within this time, s, unless it was stopped. The kernel
#: notices a dead link before.
SILENT_S = 2.0 * SILENCE_S

#: An agent that was cut off notices it, sweeps, and gives its host back within this time, s.
BACK_S = 2.0 * SILENCE_S + 2.0

#: The hint for a host that is lost.
GOES_ON = "the same command goes on once it is back: what was measured is kept"

#: A connection ends with these errors if the host or its link is down, not only its agent.
_CUT_OFF = {errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH}

_ERRORS = {error_type.__name__: error_type for error_type in (TunerError, UsageError, BusyError)}

#: A method of :class:`LocalHost`, or of a launch on one (:class:`LaunchOnHost`).
Method = Callable[[Any, *Ts], T]


class HostLostError(TunerError):
    """A host does not answer any more."""


class RemoteHost:
    """Another host of the study, whose agent calls methods of a :class:`LocalHost` for us."""

    def __init__(self, name: str, channel: Channel) -> None:
        self.name = name
        self._channel = channel
        self.lost = ""  # why it does not answer any more
        self.is_cut_off = False  # the host is down, so no new agent can be started there

    def ask(self, launch: str, method: Method[*Ts, T], *arguments: *Ts) -> Callable[[], T]:
        """Have the agent call a method of its host, or of the launch with this marker.

        Return a function that waits for the answer; it must be called before the next request.
        """
        request = {"launch": launch, "method": method.__name__, "arguments": arguments}
        with self._lost_on_error():
            self._channel.send(codec.dumps(request).encode())
        return partial(self._answer, get_type_hints(method)["return"])

    def call(self, launch: str, method: Method[*Ts, T], *arguments: *Ts) -> T:
        """Do as :meth:`ask`, and return the answer."""
        return self.ask(launch, method, *arguments)()

    def _answer(self, kind: Any) -> Any:
        with self._lost_on_error():
            deadline_s = time.monotonic() + ANSWER_S
            while not (message := self._channel.receive(SILENT_S)):
                if time.monotonic() > deadline_s:
                    raise TimeoutError
            answer = json.loads(message)
        if "error" in answer:
            error, message, hint = answer["error"]
            text = message if error == BusyError.__name__ else f"{self.name}: {message}"
            raise _ERRORS.get(error, TunerError)(text, hint)
        return codec.from_json(kind, answer["value"])

    def close(self) -> None:
        """End the connection; the agent then does as :meth:`LocalHost.close`."""
        self._channel.close()

    def is_lost(self) -> bool:
        """Return whether the connection has ended, without waiting."""
        is_readable = not self.lost and select.select([self._channel.sock], [], [], 0)[0]
        if is_readable:  # an agent sends nothing by itself: the connection has ended, or broken
            code = self._channel.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            why = os.strerror(code) if code else "its agent has ended"
            self._lose(why, is_cut_off=code in _CUT_OFF)
        return bool(self.lost)

    @contextmanager
    def _lost_on_error(self) -> Iterator[None]:
        """Take the host for lost if the connection breaks, or is left with half a message."""
        if self.lost:
            raise self.error()
        try:
            yield
        except OSError as error:
            why = error.strerror or str(error)
            if isinstance(error, TimeoutError) and error.errno is None:  # our timeout, not TCP's
                why = "its agent does not answer (was it stopped?)"
            self._lose(why, is_cut_off=error.errno in _CUT_OFF)
            raise self.error() from error
        except BaseException:  # Ctrl-C
            self._lose("it was broken off")
            raise

    def _lose(self, why: str, *, is_cut_off: bool = False) -> None:
        self.lost, self.is_cut_off = why, is_cut_off
        self._channel.close()

    def error(self) -> HostLostError:
        """Return the error that says that the host is lost, and why."""
        return HostLostError(f"the host {self.name} is lost: {self.lost}", GOES_ON)


class Hosts:
    """The hosts that a layout names: each has an agent, unless this process runs on it.

    Arguments and errors are those of :func:`tuner.hosts.remote.agent_start.calls`.
    """

    def __init__(
        self,
        names: Sequence[str],
        once_per_host: agent_start.OncePerHost,
        env: Mapping[str, str],
        *,
        stays: bool = False,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        self._stays, self._cancelled = stays, cancelled
        self._start = partial(
            agent_start.calls,
            once_per_host=once_per_host,
            env=env,
            stays=stays,
            cancelled=cancelled,
        )
        self._launchers = ExitStack()
        self.local_host = LocalHost()
        self._own = self.local_host.describe("")
        self.local_name = ""  # the name of this host in the layout; empty: it is not in it
        self._files: dict[str, str] = {}
        self._hold: tuple[str, str, str, str] | None = None  # the arguments of `LocalHost.hold`
        self._note = Path()
        self.descriptions: dict[str, HostDescription] = {}
        self.remote: dict[str, RemoteHost] = {}
        try:
            self._reach(names)
        except BaseException:
            self.close()
            raise

    def _reach(self, names: Sequence[str]) -> None:
        """Start an agent on each of these hosts, and end that on this host again."""
        with ExitStack() as launcher:
            for name, channel in launcher.enter_context(self._start(names)).items():
                host = RemoteHost(name, channel)
                description = host.call("", LocalHost.describe, name)
                for old_name, old in self.descriptions.items():
                    if old.identity == description.identity:
                        raise UsageError(f"{old_name} and {name} are the same host", "name it once")
                if description.python != self._own.python:
                    raise UsageError(
                        f"{name} has Python {description.python}, this host {self._own.python}",
                        "the same interpreter must be at the same path on all hosts",
                    )
                self.descriptions[name] = description
                if description.identity == self._own.identity:
                    self.local_name = name
                    self.local_host.describe(name)
                    host.close()
                else:
                    self.remote[name] = host
            if self._stays:
                self._launchers.push(launcher.pop_all())

    def machines(self) -> list[Machine]:
        """Return what each host has, in the order of their names in the layout."""
        return [description.machine for description in self.descriptions.values()]

    @contextmanager
    def held(
        self,
        local_lock: AbstractContextManager[Path],
        study: str,
        *,
        database: str,
        marker: str,
        lock_folder: str = "",
        wait: bool = False,
        on_wait: Callable[[str], None] = lambda _: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Iterator[Path]:
        """Lock all hosts for a study, this one by ``local_lock``; yield what that yields.

        They are locked in the order of their own names, so that of two studies that wait one gets
        all. Arguments and errors are those of :meth:`LocalHost.hold` and :func:`lock.measuring`.
        """
        self._hold = (study, database, marker, lock_folder)
        others = ((self.descriptions[name].machine.hostname, name) for name in self.remote)
        with ExitStack() as stack:
            note = Path()
            for _, name in sorted([(self._own.machine.hostname, ""), *others]):
                if name:
                    take, most_s = partial(self._take, name), math.inf if wait else 0.0
                    lock.retry_if_busy(take, most_s=most_s, on_wait=on_wait, cancelled=cancelled)
                    continue
                note = stack.enter_context(local_lock)
                self._note = note_of(note, marker)
                stack.callback(self.local_host.close)
                if self.local_name:
                    self._take(self.local_name)
            yield note

    def _take(self, name: str) -> None:
        assert self._hold is not None
        if name == self.local_name:
            self.local_host.begin(self._hold[2], self._note)
            self.local_host.place(self._files)
        else:
            self.remote[name].call("", LocalHost.hold, *self._hold)
            self.remote[name].call("", LocalHost.place, self._files)

    def call_all(self, launch: str, method: Method[*Ts, T], *arguments: *Ts) -> dict[str, T]:
        """Call a method of all hosts of the layout, or of the launch with this marker there.

        Return the answer of each host, by its name; hosts that are lost are left out. If one host
        raises a ``TunerError``, so does this.
        """
        answers = self.ask_others(launch, method, *arguments)()
        if self.local_name:
            target = self.local_host.launch(launch) if launch else self.local_host
            answers[self.local_name] = method(target, *arguments)
        return answers

    def ask_others(
        self, launch: str, method: Method[*Ts, T], *arguments: *Ts
    ) -> Callable[[], dict[str, T]]:
        """Do as :meth:`call_all`, but on the remote hosts only; return what waits for answers."""
        pending: dict[str, Callable[[], T]] = {}
        for host in self.remote.values():
            with suppress(HostLostError):
                pending[host.name] = host.ask(launch, method, *arguments)

        def answers() -> dict[str, T]:
            values: dict[str, T] = {}
            errors: list[TunerError] = []
            for name, answer in pending.items():  # all are read, even after an error
                try:
                    values[name] = answer()
                except HostLostError:
                    continue
                except TunerError as error:
                    errors.append(error)
            if errors:
                raise errors[0]
            return values

        return answers

    def place(self, files: Mapping[str, str]) -> None:
        """Put files into the private folder of each host, now or as soon as it is held."""
        self._files |= files
        if self._hold is not None:
            self.call_all("", LocalHost.place, files)

    def lost(self) -> list[RemoteHost]:
        """Return the hosts whose connection has ended."""
        return [host for host in self.remote.values() if host.is_lost()]

    def replace(self, lost: str, name: str) -> None:
        """Take a host for the study in the place of one that is lost: another, or the same anew.

        What launches have left on it is ended. If it cannot be used (``TunerError``), or the wait
        is cancelled (``KeyboardInterrupt``), nothing has changed.
        """
        lost_host, description = self.remote.pop(lost), self.descriptions.pop(lost)
        try:
            self._reach([name])
            old, new = asdict(description.machine), asdict(self.descriptions[name].machine)
            old |= {"hostname": new["hostname"]}
            if abs(old["memory_bytes"] - new["memory_bytes"]) < 2**30:  # alike hosts differ by less
                old |= {"memory_bytes": new["memory_bytes"]}
            if differing := [key for key in old if old[key] != new[key]]:
                raise TunerError(f"{name} is not as {lost}: other {', '.join(differing)}")
            # An agent that was cut off ends by itself, and gives the host back.
            lock.retry_if_busy(partial(self._take, name), most_s=BACK_S, cancelled=self._cancelled)
        except BaseException:
            self.descriptions.pop(name, None)
            if (new_host := self.remote.pop(name, None)) is not None:
                new_host.close()
            if name == self.local_name:
                self.local_name = ""
            self.remote[lost], self.descriptions[lost] = lost_host, description
            raise

    def close(self) -> None:
        """Leave all hosts; their agents sweep and end."""
        for host in self.remote.values():
            host.close()
        self._launchers.close()
