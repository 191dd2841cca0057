"""The IPv4 networks of a host, and which of them several hosts share."""

from __future__ import annotations

import fcntl
import socket
import struct
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_interface

#: How the names of bridges of containers and virtual machines begin: what is sent there stays on
#: the host.
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
    """Return the network of each interface of this host, by its first address; not the loopback."""
    host_networks = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode())
            try:
                flags, address, mask = (
                    fcntl.ioctl(sock, code, request)[16:24]  # the answer, behind the name
                    for code in (_SIOCGIFFLAGS, _SIOCGIFADDR, _SIOCGIFNETMASK)
                )
            except OSError:  # the interface has no address, or is gone
                continue
            if flags[0] & (_IFF_UP | _IFF_LOOPBACK) == _IFF_UP:
                ip, bits = (socket.inet_ntoa(sockaddr[4:]) for sockaddr in (address, mask))
                host_networks.append(Network(name, ip, str(ip_interface(f"{ip}/{bits}").network)))
    return tuple(host_networks)


def own_addresses(hosts: Sequence[str]) -> list[str]:
    """Return this host's addresses by which other hosts may reach it, the likeliest first."""
    addresses: dict[str, None] = {}
    for name in hosts:
        with (
            suppress(OSError),  # a name that only ssh knows
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock,
        ):
            sock.connect((name, 9))  # this sends nothing: the kernel only picks the route
            addresses[sock.getsockname()[0]] = None
    with suppress(OSError):
        addresses |= dict.fromkeys(socket.gethostbyname_ex(socket.gethostname())[2])
    # Other hosts cannot reach this one by its loopback address.
    return sorted(addresses, key=lambda address: address.startswith("127."))


def shared(hosts: Sequence[Sequence[Network]]) -> dict[str, tuple[Network, ...]]:
    """Return, by subnet, the interfaces of all hosts, if each host has its own address there.

    Bridges are left out: they have the same address on all hosts, or one of the usual names.
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
    names_by_subnet = ({end.interface for end in ends} for ends in shared(hosts).values())
    return tuple(name for (name, *more) in names_by_subnet if not more)
