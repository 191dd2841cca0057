"""The other hosts of a study: reached, held, seen to be empty, and lost."""

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
from typing import Any

from tuner.hosts import lock
from tuner.hosts.host import HostDescription, LocalHost, types_of
from tuner.hosts.process.left_over import study_note_path
from tuner.hosts.remote import start
from tuner.hosts.remote.dial import SILENCE_S, Channel
from tuner.hosts.supervisor.cleanup import GIVE_UP_S
from tuner.model import Machine, codec
from tuner.model.errors import BusyError, TunerError, UsageError

#: An agent answers sooner, s: a sweep gives up before.
ANSWER_S = GIVE_UP_S + 10.0

#: An agent answers or gives a sign of life sooner, s, unless it was stopped. A dead link is noticed
#: before, by the kernel.
SILENT_S = 2.0 * SILENCE_S

#: An agent that was cut off notices it, sweeps, and gives its host back sooner, s.
BACK_S = 2.0 * SILENCE_S + 2.0

#: The hint for a host that is lost.
GOES_ON = "the same command goes on once it is back: what was measured is kept"

#: The connection ends with these if the host or its link is down; else only its agent has ended.
_CUT_OFF = {errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH}

_ERRORS = {error_type.__name__: error_type for error_type in (TunerError, UsageError, BusyError)}


class HostLostError(TunerError):
    """A host that does not answer any more."""


class RemoteHost:
    """A host with an agent, which has a :class:`tuner.hosts.host.LocalHost`."""

    def __init__(self, name: str, channel: Channel) -> None:
        self.name = name
        self._channel = channel
        self.lost = ""  # why it does not answer any more
        self.is_cut_off = False  # not even a new agent is to be had there soon

    def call(self, method: str, *arguments: Any) -> Any:
        """Have the agent call a method of :class:`tuner.hosts.host.Host`; gives what it gives."""
        self.ask(method, *arguments)
        return self.answer(method)

    def close(self) -> None:
        """End the connection; the agent then does as :meth:`tuner.hosts.host.Host.close`."""
        self._channel.close()

    def is_lost(self) -> bool:
        """Whether the connection has ended; it is not waited for."""
        if not self.lost and select.select([self._channel.sock], [], [], 0)[0]:
            # An agent says nothing by itself: the connection has ended, or broken.
            broken = self._channel.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            why = os.strerror(broken) if broken else "its agent has ended"
            self._lose(why, is_cut_off=broken in _CUT_OFF)
        return bool(self.lost)

    def ask(self, method: str, *arguments: Any) -> None:
        """Ask for a call, whose :meth:`answer` must be taken next."""
        request = codec.dumps({"method": method, "arguments": arguments}).encode()
        with self._losing():
            self._channel.send(request)

    def answer(self, method: str) -> Any:
        """What the method gave that was asked for last."""
        with self._losing():
            deadline_s = time.monotonic() + ANSWER_S
            while not (message := self._channel.receive(SILENT_S)):
                if time.monotonic() > deadline_s:
                    raise TimeoutError
            answer = json.loads(message)
        if "error" in answer:
            kind, message, hint = answer["error"]
            said = message if kind == BusyError.__name__ else f"{self.name}: {message}"
            raise _ERRORS.get(kind, TunerError)(said, hint)
        return codec.from_json(types_of(method)["return"], answer["value"])

    @contextmanager
    def _losing(self) -> Iterator[None]:
        """The host is lost if the connection breaks, or is left with half a message."""
        if self.lost:
            raise self.error()
        try:
            yield
        except OSError as error:
            why = error.strerror or str(error)
            if isinstance(error, TimeoutError) and error.errno is None:  # of ours, not the kernel's
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
        """That the host is lost, and why."""
        return HostLostError(f"the host {self.name} is lost: {self.lost}", GOES_ON)


class Hosts:
    """The hosts that a layout names, each with an agent, but for the one that this runs on.

    Args:
        names: As the launcher knows them.
        once_per_host: The launcher's command that runs a program once on each.
        env: Its environment.
        stays: The agents end with their launcher, which must stay.
        cancelled: Asked while agents are waited for; if it turns true, ``KeyboardInterrupt``.
    """

    def __init__(
        self,
        names: Sequence[str],
        once_per_host: start.OncePerHost,
        env: Mapping[str, str],
        *,
        stays: bool = False,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        self._once_per_host, self._env, self._stays = once_per_host, env, stays
        self._cancelled = cancelled
        self._launchers = ExitStack()
        self.here = LocalHost()
        self._own = self.here.describe()
        self.name_here = ""  # this host's in the layout, if it has one
        self._files: dict[str, str] = {}
        self._hold: tuple[str, str, str, str] | None = None
        self._note = Path()
        self.descriptions: dict[str, HostDescription] = {}
        self.remote: dict[str, RemoteHost] = {}
        _check_addresses(names)
        try:
            self._reach(names)
            self._check()
        except BaseException:
            self.close()
            raise

    def _reach(self, names: Sequence[str]) -> None:
        """Start agents there; the agent of this host is sent away again."""
        calls = start.calls(
            names, self._once_per_host, self._env, stays=self._stays, cancelled=self._cancelled
        )
        with ExitStack() as launcher:
            for name, channel in launcher.enter_context(calls).items():
                host = RemoteHost(name, channel)
                self.descriptions[name] = description = host.call("describe")
                if description.identity == self._own.identity:
                    self.name_here = name
                    host.close()
                else:
                    self.remote[name] = host
            if self._stays:
                self._launchers.push(launcher.pop_all())

    def _check(self) -> None:
        """Raise UsageError for a host with two names, or with another Python than here."""
        names: dict[tuple[str, str, str], str] = {}
        for name, description in self.descriptions.items():
            if other := names.get(description.identity):
                raise UsageError(f"{other} and {name} are the same host", "name it once")
            names[description.identity] = name
            if description.python != self._own.python:
                raise UsageError(
                    f"{name} has Python {description.python}, this host {self._own.python}",
                    "the same interpreter must be at the same path on all hosts",
                )

    def machines(self) -> list[Machine]:
        """What each host has, in the order of their names in the layout."""
        return [description.machine for description in self.descriptions.values()]

    @contextmanager
    def held(
        self,
        here: AbstractContextManager[Path],
        study: str,
        *,
        database: str,
        marker: str,
        lock_folder: str = "",
        wait: bool = False,
        on_wait: Callable[[str], None] = lambda _: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Iterator[Path]:
        """Hold all hosts for a study, this one too; gives what ``here`` gives.

        They are taken in the order of their own names, so that of two studies that wait one has
        all. Arguments and errors are those of :meth:`Host.hold` and :func:`lock.measuring`.
        """
        self._hold = (study, database, marker, lock_folder)
        others = ((self.descriptions[name].hostname, name) for name in self.remote)
        order = [(self._own.hostname, ""), *others]
        with ExitStack() as stack:
            note = Path()
            for _, name in sorted(order):
                if not name:
                    note = stack.enter_context(here)
                    self._note = study_note_path(note.parent)
                    stack.callback(self.here.close)
                    if self.name_here:
                        self._take(self.name_here)
                    continue
                take, most_s = partial(self._take, name), math.inf if wait else 0.0
                lock.waited(take, most_s=most_s, on_wait=on_wait, cancelled=cancelled)
            yield note

    def _take(self, name: str) -> None:
        assert self._hold is not None
        if name == self.name_here:
            self.here.begin(self._hold[2], self._note)
            self.here.place(self._files)
        else:
            self.remote[name].call("hold", *self._hold)
            self.remote[name].call("place", self._files)

    def call(self, name: str, method: str, *arguments: Any) -> Any:
        """Call a method of :class:`tuner.hosts.host.Host` of one host, be it this one."""
        if name == self.name_here:
            return self.here.call(method, *arguments)
        return self.remote[name].call(method, *arguments)

    def call_all(
        self, method: str, arguments: Callable[[str], Sequence[Any]] = lambda _: ()
    ) -> dict[str, Any]:
        """Call a method of all hosts of the layout at once; those that are lost are left out.

        Args:
            method: One of :data:`tuner.hosts.host.METHODS`.
            arguments: Gives the arguments for the host of this name.

        Returns:
            What each gave, by its name.

        Raises:
            TunerError: That of one of them.
        """
        answers = self.others(method, arguments)
        if self.name_here:
            answers[self.name_here] = self.call(self.name_here, method, *arguments(self.name_here))
        return answers

    def others(
        self,
        method: str,
        arguments: Callable[[str], Sequence[Any]],
        meanwhile: Callable[[], None] = lambda: None,
    ) -> dict[str, Any]:
        """Call a method as :meth:`call_all` does, but of the remote hosts only.

        ``meanwhile`` is called between the requests and the answers.
        """
        pending_hosts: list[RemoteHost] = []
        for host in self.remote.values():
            with suppress(HostLostError):
                host.ask(method, *arguments(host.name))
                pending_hosts.append(host)
        answers: dict[str, Any] = {}
        errors: list[TunerError] = []
        try:
            meanwhile()
        finally:
            for host in pending_hosts:  # all answers are taken, whatever one of them is
                try:
                    answers[host.name] = host.answer(method)
                except HostLostError:
                    continue
                except TunerError as error:
                    errors.append(error)
        if errors:
            raise errors[0]
        return answers

    def place(self, files: Mapping[str, str]) -> None:
        """Put files into the private folder of each host, now or as soon as it is held."""
        self._files |= files
        if self._hold is not None:
            self.call_all("place", lambda _: (files,))

    def lost(self) -> list[RemoteHost]:
        """The hosts whose connection has ended."""
        return [host for host in self.remote.values() if host.is_lost()]

    def replace(self, lost: str, name: str) -> None:
        """Take a host for the study in the place of one that is lost: another, or the same anew.

        What launches have left on it is ended.

        Raises:
            TunerError: It cannot be had; nothing has changed.
            KeyboardInterrupt: Cancelled; nothing has changed.
        """
        gone, was = self.remote.pop(lost), self.descriptions.pop(lost)
        try:
            self._reach([name])
            self._check()
            one, other = (  # memory differs by a little anyway
                {
                    **asdict(machine),
                    "hostname": "",
                    "memory_bytes": round(machine.memory_bytes / 2**30),
                }
                for machine in (was.machine, self.descriptions[name].machine)
            )
            if differing := [key for key in one if one[key] != other[key]]:
                raise TunerError(f"{name} is not as {lost}: other {', '.join(differing)}")
            # An agent that was cut off ends by itself, and gives the host back.
            lock.waited(partial(self._take, name), most_s=BACK_S, cancelled=self._cancelled)
        except BaseException:
            self.descriptions.pop(name, None)
            if (reached := self.remote.pop(name, None)) is not None:
                reached.close()
            if name == self.name_here:
                self.name_here = ""
            self.remote[lost], self.descriptions[lost] = gone, was
            raise

    def close(self) -> None:
        """Leave all hosts; their agents sweep and end."""
        for host in self.remote.values():
            host.close()
        self._launchers.close()


def _check_addresses(names: Sequence[str]) -> None:
    """Raise UsageError for two names of one address; Open MPI would take them for one host."""
    names_by_address: dict[str, str] = {}
    for name in names:
        try:
            address = socket.gethostbyname(name)
        except OSError:  # a name that only ssh knows: the agents will tell
            continue
        if other := names_by_address.get(address):
            raise UsageError(f"{other} and {name} are the same host ({address})", "name it once")
        names_by_address[address] = name
