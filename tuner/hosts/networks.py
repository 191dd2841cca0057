"""The IPv4 networks of a host: which of them hosts share, and how fast they reach each other."""

from __future__ import annotations

import fcntl
import socket
import struct
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_interface
from threading import Thread

#: The bridges of containers and virtual machines, by the begin of their names: what is sent there
#: stays on the host.
BRIDGES = ("docker", "br-", "virbr", "cni", "flannel", "cali", "lxc", "lxd", "podman", "veth")

# linux/sockios.h and linux/if.h
_SIOCGIFFLAGS, _SIOCGIFADDR, _SIOCGIFNETMASK = 0x8913, 0x8915, 0x891B
_IFF_UP, _IFF_LOOPBACK = 1, 8


@dataclass(frozen=True)
class Network:
    """The network of an interface."""

    interface: str
    address: str  # the host's own
    subnet: str  # such as 10.77.0.0/24


def networks() -> tuple[Network, ...]:
    """Return those of this host, by the first address of each interface but the loopback."""
    host_networks = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode())
            try:
                flags, address, mask = (
                    fcntl.ioctl(sock, what, request)[16:24]
                    for what in (_SIOCGIFFLAGS, _SIOCGIFADDR, _SIOCGIFNETMASK)
                )
            except OSError:  # it has no address, or is gone
                continue
            if flags[0] & (_IFF_UP | _IFF_LOOPBACK) == _IFF_UP:
                own, bits = (socket.inet_ntoa(sockaddr[4:]) for sockaddr in (address, mask))
                host_networks.append(Network(name, own, str(ip_interface(f"{own}/{bits}").network)))
    return tuple(host_networks)


def own_addresses(hosts: Sequence[str]) -> list[str]:
    """Return the addresses of this host that these may reach, the likeliest first."""
    addresses: dict[str, None] = {}
    for name in hosts:
        with (
            suppress(OSError),  # a name that only ssh knows
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock,
        ):
            sock.connect((name, 9))  # sends nothing: the kernel only picks the route
            addresses[sock.getsockname()[0]] = None
    with suppress(OSError):
        addresses |= dict.fromkeys(socket.gethostbyname_ex(socket.gethostname())[2])
    # A host that reaches itself by the loopback tells nothing of how others reach it.
    return sorted(addresses, key=lambda address: address.startswith("127."))


def shared(hosts: Sequence[Sequence[Network]]) -> dict[str, tuple[Network, ...]]:
    """Return the networks in which each host has an address of its own, with those of each host.

    Bridges have the same address on all hosts, or are known by their names.
    """
    ends_by_subnet = {}
    for subnet in dict.fromkeys(network.subnet for network in hosts[0]):
        ends = [n for host in hosts for n in host if n.subnet == subnet]
        ends = [n for n in ends if not n.interface.startswith(BRIDGES)]
        if len(hosts) == len(ends) == len({n.address for n in ends}):
            ends_by_subnet[subnet] = tuple(ends)
    return ends_by_subnet


def common_interfaces(hosts: Sequence[Sequence[Network]]) -> tuple[str, ...]:
    """Return the interfaces of shared networks that have the same name on all hosts."""
    named = ({end.interface for end in ends} for ends in shared(hosts).values())
    return tuple(name for (name, *more) in named if not more)


# --- links: one host answers, another sends it messages over TCP ----------------------------

MESSAGE_BYTES = 1_000_000
#: Messages are sent for so long, one at least; a connection that stands still ends sooner, s.
SEND_S, SILENCE_S = 0.3, 20.0


@dataclass(frozen=True)
class Link:
    """What was measured from one host to another; if there is a fault, nothing."""

    latency_s: float = 0.0  # of a byte, there and back
    bytes_per_s: float = 0.0
    fault: str = ""


def answer() -> int:
    """Answer one caller, in a thread; return the port."""
    listener = socket.create_server(("", 0))
    listener.settimeout(SILENCE_S)

    def serve() -> None:
        with (
            suppress(OSError),
            listener,
            listener.accept()[0] as sock,
            sock.makefile("rb") as messages,
        ):
            sock.settimeout(SILENCE_S)
            while len(header := messages.read(4)) == 4:
                (size,) = struct.unpack("!I", header)
                messages.read(min(size, MESSAGE_BYTES))
                sock.sendall(b"+")

    Thread(target=serve, daemon=True).start()
    return int(listener.getsockname()[1])


def measure(address: str, port: int) -> Link:
    """Measure the link to a host that answers."""
    try:
        with socket.create_connection((address, port), SILENCE_S) as sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

            def trip_s(size: int) -> float:
                start_s = time.perf_counter()
                sock.sendall(struct.pack("!I", size) + bytes(size))
                if not sock.recv(1):
                    raise ConnectionResetError("the connection was closed")
                return time.perf_counter() - start_s

            latencies_s = sorted(trip_s(1) for _ in range(21))
            trips_s = [trip_s(MESSAGE_BYTES)]
            while sum(trips_s) < SEND_S:
                trips_s.append(trip_s(MESSAGE_BYTES))
    except OSError as error:
        return Link(fault=error.strerror or str(error))
    trips_s = trips_s[1:] or trips_s  # TCP starts slowly
    return Link(latencies_s[10], MESSAGE_BYTES * len(trips_s) / sum(trips_s))
