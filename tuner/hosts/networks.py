"""The IPv4 networks of a host, and which of them all hosts of a job share."""

from __future__ import annotations

import fcntl
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass

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
    prefix: int  # bits of the address that all hosts of the network have

    @property
    def subnet(self) -> str:
        """The network itself: ``10.77.0.0/24``."""
        from ipaddress import ip_interface

        return str(ip_interface((self.address, self.prefix)).network)


def networks() -> tuple[Network, ...]:
    """Those of this host: the first address of each interface that is up, but of the loopback."""
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:

        def ask(what: int, interface: str) -> bytes:
            return fcntl.ioctl(sock, what, struct.pack("256s", interface.encode()[:15]))

        for _, name in socket.if_nameindex():
            try:
                (flags,) = struct.unpack_from("H", ask(_SIOCGIFFLAGS, name), 16)
                address, mask = (ask(what, name)[20:24] for what in (_SIOCGIFADDR, _SIOCGIFNETMASK))
            except OSError:  # it has no address, or is gone
                continue
            if flags & _IFF_UP and not flags & _IFF_LOOPBACK:
                prefix = int.from_bytes(mask, "big").bit_count()
                found.append(Network(name, socket.inet_ntoa(address), prefix))
    return tuple(found)


def shared(hosts: Sequence[Sequence[Network]]) -> dict[str, tuple[Network, ...]]:
    """The networks in which each host has an address of its own, with those of each host in order.

    Bridges have the same address on all hosts, or are known by their names.
    """
    found = {}
    for subnet in dict.fromkeys(each.subnet for each in hosts[0]):
        ends = [n for host in hosts for n in host if n.subnet == subnet]
        ends = [n for n in ends if not n.interface.startswith(BRIDGES)]
        if len(hosts) == len(ends) == len({n.address for n in ends}):
            found[subnet] = tuple(ends)
    return found


def common_interfaces(hosts: Sequence[Sequence[Network]]) -> tuple[str, ...]:
    """The interfaces of shared networks that have the same name on all hosts."""
    named = ({end.interface for end in ends} for ends in shared(hosts).values())
    return tuple(name for (name, *more) in named if not more)
