"""Starts agents on hosts with the user's launcher, and takes their calls.

The launcher gets the few lines of :mod:`~tuner.hosts.remote.dial` as an argument; the code of the
agent goes over the connection. The rank of an agent says on which host it is.
"""

from __future__ import annotations

import base64
import io
import os
import re
import select
import socket
import sys
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from tuner.hosts.networks import own_addresses
from tuner.hosts.probe import CODE, shipped_probe
from tuner.hosts.process import request_of
from tuner.hosts.process.supervised_command import SupervisedCommand
from tuner.hosts.remote import dial
from tuner.hosts.remote.dial import HEAD, ID_BYTES, NONCE_BYTES, Channel, key_of, read_exactly
from tuner.model.errors import TunerError
from tuner.model.wording import one_line

#: All agents have called within this time, s: each host takes an ssh, at worst one after the other.
START_S = 30.0

#: A caller that does not say who it is within this time is ignored, s.
HELLO_S = 0.5

#: A caller takes the code of the agent, some 100 kB, within this time, s.
WELCOME_S = 10.0

#: The launcher ends once its agents have detached; it is ended if it takes longer, s.
RETURN_S = 1.0

_LINE = re.compile(rf"{dial.GREETING} (\d{{1,9}}) ([0-9a-f]{{{2 * ID_BYTES}}}) ([0-9a-f]{{64}})")

#: A line that tells what is wrong on which host: of ssh or Slurm, of Open MPI (two lines of its
#: notice on a program that it cannot start), of MPICH.
_NAMES_A_HOST = re.compile(
    r"(\S*/)?(ssh|srun)\b|\S+@\S+: |Executable: |Node: |\[proxy:[\d:]+@\S+\] .*error"
)

#: How the text that is given to each host ends, after :mod:`~tuner.hosts.remote.dial`: the code of
#: the agent can be imported once the connection has brought it.
_SERVE = """
channel = connect_to_head(*sys.argv[1:])
from tuner.hosts.remote.agent import serve
serve(channel, {detach})
"""

#: The command that starts a program once on each host: (hosts, program) -> argv.
OncePerHost = Callable[[Sequence[str], Sequence[str]], Sequence[str]]


@cache
def _package() -> bytes:
    """Return the code of an agent, a zip archive: ``hosts`` and ``model``."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        root = Path(import_module("tuner").__path__[0])
        for path in [root / "__init__.py", *root.glob("hosts/**/*.py"), *root.glob("model/*.py")]:
            file.write(path, Path("tuner", path.relative_to(root)))
        # An agent has no site packages, and reads GPUs by this one: a file without dependencies.
        if (nvml := find_spec("pynvml")) is not None and nvml.origin:
            file.write(nvml.origin, "pynvml.py")
    return archive.getvalue()


def probe_code() -> dict[str, str]:
    """Return the probe's code, and that of ``tuner.live``, as files of a host's private folder."""
    root, place = Path(import_module("tuner").__path__[0]), Path(CODE).parents[1]
    client = [root / "__init__.py", root / "live/__init__.py", *root.glob("live/client/*.py")]
    files = {f"{CODE}/{path.name}": path for path in shipped_probe().glob("*.py")}
    files |= {f"{place}/tuner/{path.relative_to(root)}": path for path in client}
    return {name: path.read_text() for name, path in files.items()}


def _program(port: int, addresses: Sequence[str], *, stays: bool) -> tuple[str, ...]:
    """Return what the launcher runs on each host: our interpreter itself, and the agent's start."""
    source = Path(dial.__file__).read_text() + _SERVE.format(detach=None if stays else "detach")
    text = base64.b64encode(zlib.compress(source.encode(), 9)).decode()
    loader = f"import base64,zlib;exec(zlib.decompress(base64.b64decode('{text}')))"
    return (os.path.realpath(sys.executable), "-I", "-S", "-c", loader, str(port), *addresses)


@contextmanager
def calls(
    hosts: Sequence[str],
    once_per_host: OncePerHost,
    env: Mapping[str, str],
    *,
    stays: bool = False,
    cancelled: Callable[[], bool] = lambda: False,
) -> Iterator[dict[str, Channel]]:
    """Start an agent on each host that the launcher knows by these names; yield their connections.

    On leaving, a launcher that has not ended by itself is ended; after an error the connections
    are, too. ``stays``: the agents end with their launcher, so it must not end before them.

    Raises:
        TunerError: Not all hosts have answered; with the launcher's own words.
        KeyboardInterrupt: Cancelled.
    """
    with (
        socket.create_server(("", 0), backlog=len(hosts)) as listener,
        tempfile.TemporaryFile() as printed,
    ):
        words = _program(listener.getsockname()[1], own_addresses(hosts), stays=stays)
        request = request_of(once_per_host(hosts, words), env, Path.cwd())
        output, output_end = os.pipe()
        try:
            running = SupervisedCommand(request, output=output_end, error=printed.fileno())
        except OSError as error:
            os.close(output)
            raise TunerError(f"{error.filename}: {error.strerror}") from error
        finally:
            os.close(output_end)
        channels: dict[int, Channel] = {}
        try:
            _gather(channels, listener, output, running, len(hosts), cancelled=cancelled)
            missing = [name for rank, name in enumerate(hosts) if rank not in channels]
            if missing and cancelled():
                raise KeyboardInterrupt
            if missing:
                printed.seek(0)
                raise _unreachable(missing, printed.read(1 << 16).decode(errors="replace"))
            yield {name: channels[rank] for rank, name in enumerate(hosts)}
            if not stays:
                running.wait(RETURN_S)
        except BaseException:
            for channel in channels.values():
                channel.close()
            raise
        finally:
            os.close(output)
            running.stop()


def _unreachable(missing: Sequence[str], printed: str) -> TunerError:
    """Return the error for hosts without an agent: which, and the words of ssh or of the launcher.

    A launcher that fails on one host starts no agent on others either: only named hosts count.
    """
    lines = [one_line(line.strip()) for line in printed.splitlines() if re.search(r"\w", line)]
    host_lines = [line for line in lines if _NAMES_A_HOST.match(line)]
    shown = (host_lines or lines or ["nothing was printed"])[:3]

    def is_named(host: str) -> bool:  # not only the begin or the end of another name
        name = re.compile(rf"(?<![\w.-]){re.escape(host)}(?![\w-]|\.\w)")
        return any(name.search(line) for line in host_lines)

    blamed = [name for name in missing if is_named(name)] or missing
    return TunerError(
        f"no answer from {', '.join(blamed[:8])}: {'; '.join(shown)}",
        "each must be reachable without a password, have the same interpreter"
        f" ({os.path.realpath(sys.executable)}), and reach this host in turn",
    )


def _gather(
    channels: dict[int, Channel],
    listener: socket.socket,
    output: int,
    running: SupervisedCommand,
    count: int,
    *,
    cancelled: Callable[[], bool],
) -> None:
    """Add the connections of the agents that call, by rank, until all have.

    Some are missing if the launcher fails, it takes too long, or the wait is cancelled.
    """
    text, sources = "", [output, listener.fileno()]
    callers: list[tuple[socket.socket, bytes]] = []
    deadline_s = time.monotonic() + START_S
    while len(channels) < count and time.monotonic() < deadline_s and not cancelled():
        ready, _, _ = select.select(sources, [], [], 0.1)
        if not ready and running.poll() is not None:
            break
        if output in ready:
            chunk = os.read(output, 1 << 16)
            text += chunk.decode(errors="replace")
            if not chunk:
                sources.remove(output)
        if listener.fileno() in ready:
            sock, _ = listener.accept()
            sock.settimeout(HELLO_S)
            with suppress(OSError):
                callers.append((sock, read_exactly(sock, ID_BYTES + NONCE_BYTES)))
        # An agent may call before its line has come through the launcher.
        agents = {ident: (int(rank), secret) for rank, ident, secret in _LINE.findall(text)}
        for sock, hello in tuple(callers):
            rank, secret = agents.get(hello[:ID_BYTES].hex(), (-1, ""))
            if secret:
                callers.remove((sock, hello))
                with suppress(OSError):
                    channels[rank] = _welcome(sock, secret, hello[ID_BYTES:])


def _welcome(sock: socket.socket, secret: str, nonce: bytes) -> Channel:
    """Return the connection of a caller, once it has shown that it knows the secret."""
    own_nonce = os.urandom(NONCE_BYTES)
    sock.settimeout(WELCOME_S)
    sock.sendall(own_nonce)
    channel = Channel(sock, key_of(secret, nonce, own_nonce), HEAD)
    channel.send(_package())
    channel.receive(dial.CODE_S)
    return channel
