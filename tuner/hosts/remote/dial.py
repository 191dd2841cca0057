"""How an agent comes up on a host, and the connection between it and the head.

The launcher gives this file to ``python -c`` on each host, so it imports the standard library
alone. The head is the host that ``tune`` runs on.

1. The agent makes a secret and prints a line with it, which reaches the head through the launcher
   (over ssh or the batch system). So the secret stands in no argument, variable or file.
2. It dials one of the head's addresses. Both sides send a nonce; the key of the connection is
   an HMAC of both under the secret.
3. Every message carries an HMAC under that key, over its direction and number. Without the secret
   nobody makes, changes, repeats or leaves out a message unseen. Nothing is encrypted.
4. The head's first message is the code of the agent. The agent answers, detaches from its
   launcher, which then ends, and serves until the connection does.

A dead link ends the connection on both sides: the kernel asks for a sign of life each second.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import socket
import struct
import sys

#: How the line of an agent begins; its rank, its id and its secret follow.
GREETING = "TUNE-AGENT"
#: The variables in which launchers give the rank of an agent.
RANKS = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")

#: A connection without a sign of life for this long is dead, s.
SILENCE_S = 3
#: An address of the head that does not answer within this time is left, s.
DIAL_S = 2.0
#: The head sends the code within this time, s.
CODE_S = 30.0

ID_BYTES, NONCE_BYTES, MAC_BYTES = 8, 32, 32
#: No message is longer, bytes.
MOST_BYTES = 1 << 28

HEAD, AGENT = b"head", b"agent"


class Channel:
    """One end of a connection; its errors are ``OSError``, and after one it is of no use."""

    def __init__(self, sock: socket.socket, key: bytes, me: bytes) -> None:
        self.sock = sock
        self._key = key
        self._me, self._other = me, AGENT if me == HEAD else HEAD
        self._sent = self._received = 0
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in (
            (socket.TCP_KEEPIDLE, 1),
            (socket.TCP_KEEPINTVL, 1),
            (socket.TCP_KEEPCNT, SILENCE_S),
            (socket.TCP_USER_TIMEOUT, 1000 * SILENCE_S),
            (socket.TCP_NODELAY, 1),
        ):
            sock.setsockopt(socket.IPPROTO_TCP, option, value)

    def send(self, data: bytes) -> None:
        """Send a message."""
        mac = self._mac(self._me, self._sent, data)
        self._sent += 1
        self.sock.sendall(struct.pack("!I", len(data)) + mac + data)

    def receive(self, timeout_s: float | None = None) -> bytes:
        """Return the next message; a ``TimeoutError`` if none comes in time."""
        self.sock.settimeout(timeout_s)
        (size,) = struct.unpack("!I", read_exactly(self.sock, 4))
        if size > MOST_BYTES:
            raise ConnectionError("a message that is too long")
        mac = read_exactly(self.sock, MAC_BYTES)
        data = read_exactly(self.sock, size)
        if not hmac.compare_digest(mac, self._mac(self._other, self._received, data)):
            raise ConnectionError("a message of somebody without the secret")
        self._received += 1
        return data

    def _mac(self, sender: bytes, number: int, data: bytes) -> bytes:
        return hmac.digest(self._key, sender + struct.pack("!Q", number) + data, "sha256")

    def close(self) -> None:
        """End the connection, also while another thread or this one waits for a message."""
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()


def key_of(secret: str, of_agent: bytes, of_head: bytes) -> bytes:
    """Return the key that both ends of a connection make of the secret and their nonces."""
    return hmac.digest(secret.encode(), of_agent + of_head, "sha256")


def read_exactly(sock: socket.socket, size: int) -> bytes:
    """Read this many bytes of a socket; ``ConnectionResetError`` if it ends before."""
    data = bytearray()
    while len(data) < size:
        chunk = sock.recv(min(size - len(data), 1 << 20))
        if not chunk:
            raise ConnectionResetError("the connection was closed")
        data += chunk
    return bytes(data)


def detach() -> None:
    """Detach this process from the launcher, which then takes it for ended."""
    if os.fork():
        os._exit(0)
    os.setsid()
    if os.fork():
        os._exit(0)
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    for fd in range(3):
        os.dup2(null, fd)


def connect_to_head(port: str, *addresses: str) -> Channel:
    """Say who this agent is, dial the head, and make the code that it sends importable."""
    rank = next((os.environ[name] for name in RANKS if name in os.environ), "-")
    ident, secret, nonce = os.urandom(ID_BYTES), os.urandom(32).hex(), os.urandom(NONCE_BYTES)
    os.write(1, f"{GREETING} {rank} {ident.hex()} {secret}\n".encode())
    # Whoever started us by ssh comes from an address that we reach.
    places = [*addresses, *os.environ.get("SSH_CONNECTION", "").split()[:1]]
    problem: OSError | None = None
    for address in places:
        try:
            sock = socket.create_connection((address, int(port)), DIAL_S)
            sock.settimeout(CODE_S)  # the head welcomes one after the other
            sock.sendall(ident + nonce)
            channel = Channel(sock, key_of(secret, nonce, read_exactly(sock, NONCE_BYTES)), AGENT)
            code = channel.receive(CODE_S)
            break
        except OSError as error:
            problem = error
    else:
        tried = ", ".join(places) or "nothing"
        sys.exit(f"{socket.gethostname()} cannot reach port {port} of {tried}: {problem}")
    channel.send(b"here")
    # A zip archive in memory: there may be no disk that we may write to.
    archive = os.memfd_create("tune")
    os.write(archive, code)
    sys.path.insert(0, f"/proc/self/fd/{archive}")
    return channel
