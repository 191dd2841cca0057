"""What `tune doctor` makes of what it saw on several hosts, and between them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tuner.hosts.networks import Link, Network
from tuner.results.doctor import Finding, State
from tuner.results.doctor.several import clocks, common_network, link_speeds, together

DOCKER = Network("docker0", "172.17.0.1", "172.17.0.0/16")


def eth(interface: str, subnet: int, number: int) -> Network:
    return Network(interface, f"10.0.{subnet}.{number}", f"10.0.{subnet}.0/24")


def test_what_hosts_agree_on_is_said_once_and_else_which_host_it_is() -> None:
    fine = Finding("NUMA", State.OK, "1 node", "Why.")
    bad = Finding("NUMA", State.WARNING, "2 nodes, node1 has no memory", "Why.", "numactl")
    assert together({"h1": [fine], "h2": [fine]}) == [fine]
    (found,) = together({"h1": [fine], "h2": [bad], "h3": [fine]})
    assert (found.state, found.saw) == (State.WARNING, "h2: 2 nodes, node1 has no memory")
    assert found.mend == "numactl"
    hosts = {f"h{number}": [bad] for number in range(100)}
    assert together(hosts) == [bad]
    (found,) = together({**hosts, "h7": [replace(bad, saw="4 nodes, node1 has no memory")]})
    assert found.saw.startswith("h7: 4 nodes, node1 has no memory; h0, h1, ")
    assert "91 more: 2 nodes" in found.saw


@pytest.mark.parametrize(
    ("name", "state"), [("Python", State.FAILURE), ("MPI library", State.FAILURE), ("disk", "ok")]
)
def test_another_version_is_a_failure_and_another_size_is_not(name: str, state: str) -> None:
    hosts = {f"h{n}": [Finding(name, State.OK, f"3.{n}", "Why.")] for n in (11, 12)}
    (found,) = together(hosts)
    assert (found.state, found.saw) == (state, "h11: 3.11; h12: 3.12")
    assert bool(found.mend) is (state == State.FAILURE)


def test_clocks_that_are_apart_are_named() -> None:
    assert clocks({"h1": 0.0, "h2": -0.9})[0] is State.OK
    state, saw, mend = clocks({"h1": 0.0, "h2": -3.25, "h3": 90.0})
    assert state is State.WARNING
    assert saw == "h2 is -3.2 s from this host; h3 is +90.0 s from this host"
    assert mend == "ssh h2 sudo chronyc makestep\nssh h3 sudo chronyc makestep"


def test_the_common_network_is_none_of_docker() -> None:
    one = [(DOCKER, eth("eth0", 0, number)) for number in (1, 2)]
    assert common_network(one) == (
        State.OK,
        "eth0 10.0.0.0/24; not shared: docker0",
        "tune --fix interface=eth0",
    )
    two = [(*host, eth("eth1", 1, number)) for number, host in enumerate(one, 1)]
    assert common_network(two)[2] == "tune --knob interface"
    apart = [(DOCKER, eth("eth0", number, 1)) for number in (1, 2)]
    assert common_network(apart)[:2] == (State.WARNING, "none; not shared: docker0, eth0")


def test_a_link_that_is_much_slower_than_the_others_is_named_with_figures() -> None:
    fast, slow = Link(50e-6, 1.2e9), Link(0.2, 2.5e6)
    on = "eth0 10.0.0.0/24"
    links = {(on, "h1", "h2"): fast, (on, "h2", "h1"): Link(50e-6, 0.6e9)}
    assert link_speeds(links)[0] is State.OK
    state, saw, mend = link_speeds({**links, (on, "h2", "h3"): slow})
    assert state is State.WARNING
    assert saw.startswith(
        f"h2 to h3 by {on}: 2.5 MB/s, 200.00 ms there and back; the fastest has 1,2"
    )
    assert mend == "ssh h2 ethtool eth0"
    other = "eth1 10.0.1.0/24"
    assert link_speeds({**links, (other, "h1", "h2"): slow})[0] is State.OK, "networks differ"
    state, saw, _ = link_speeds({(on, "h1", "h2"): Link(fault="No route to host")})
    assert (state, "No route to host" in saw) == (State.FAILURE, True)
    assert link_speeds({})[0] is State.NOT_SEEN
