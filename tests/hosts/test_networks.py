"""Which networks hosts share, by their addresses."""

from __future__ import annotations

from tuner.hosts.networks import Network, common_interfaces, networks, shared

H1 = (
    Network("docker0", "172.17.0.1", "172.17.0.0/16"),
    Network("eth0", "10.0.0.1", "10.0.0.0/24"),
    Network("ib0", "10.1.0.1", "10.1.0.0/24"),
    Network("br0", "192.168.9.1", "192.168.9.0/24"),
)
H2 = (
    Network("docker0", "172.17.0.2", "172.17.0.0/16"),
    Network("eth0", "10.0.0.2", "10.0.0.0/24"),
    Network("ib1", "10.1.0.2", "10.1.0.0/24"),
    Network("br0", "192.168.9.1", "192.168.9.0/24"),
)


def test_hosts_share_networks_in_which_each_has_an_address_of_its_own() -> None:
    assert shared([H1, H2]) == {"10.0.0.0/24": (H1[1], H2[1]), "10.1.0.0/24": (H1[2], H2[2])}
    assert common_interfaces([H1, H2]) == ("eth0",), "ib0 and ib1 have no common name"
    assert shared([H1, (Network("eth0", "10.0.1.2", "10.0.1.0/24"),)]) == {}
    assert not any(network.address.startswith("127.") for network in networks())
