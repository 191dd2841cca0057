"""The hosts of a job: each is looked at as this one is; then what they share, and their links."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import pairwise

from tuner.hosts.local_host import LocalHost
from tuner.hosts.networks import Link, Network, common_interfaces, shared
from tuner.hosts.remote.remote_hosts import Hosts
from tuner.launch.hosts import reach
from tuner.launch.launchers import with_carrier
from tuner.model.errors import TunerError
from tuner.results.doctor.checks import Finding, Seen, State, diagnose, finding
from tuner.results.doctor.host_view import HostView, view_of

#: What is named: a clock that is further from this host's, s; a link with at most this share of
#: the fastest one's rate.
APART_S, SLOW = 1.0, 1 / 3

#: The checks that must see the same on all hosts.
_SAME = {"Python", "launcher", "MPI library"}

#: So many hosts or links are listed.
_LISTED = 8

#: What was measured, by network, source and target.
Links = Mapping[tuple[str, str, str], Link]


def diagnose_hosts(
    names: Sequence[str], here: HostView, ssh: tuple[str, ...], environ: Mapping[str, str]
) -> list[Finding]:
    """The findings of this host and of those that the launcher knows by these names."""
    if here.launcher is None:
        fault = State.NOT_SEEN, "there is no launcher to start agents with", ""
        return [finding("hosts", _reached, fault), *diagnose(here)]
    launcher = replace(here.launcher, ssh=ssh)
    try:
        if launcher.kind == "torchrun":
            launcher = with_carrier(launcher, environ)
        with closing(reach(launcher, names, environ)) as reached:
            asked_s = time.time()
            surveys = reached.call_all("", LocalHost.survey, here.programs, {})
            for lost in reached.lost():
                raise lost.error()
            networks = [reached.descriptions[name].networks for name in names]
            links = _measured(reached, names, networks)
    except TunerError as error:
        fault = State.FAILURE, error.message, error.hint
        return [finding("hosts", _reached, fault), *diagnose(here)]
    views = {name: view_of(surveys[name], here, asked_s) for name in names}
    views[reached.local_name or here.machine.hostname] = here
    ahead_s = {name: view.ahead_s for name, view in views.items()}
    return [
        finding("hosts", _reached, _reached(names)),
        *together({name: diagnose(view) for name, view in views.items()}),
        finding("clocks", clocks, clocks(ahead_s)),
        finding("common network", common_network, common_network(networks)),
        finding("links", link_speeds, link_speeds(links)),
    ]


def _measured(hosts: Hosts, names: Sequence[str], networks: Sequence[Sequence[Network]]) -> Links:
    """Each host's link to the next one in a ring, on each network, one after the other."""
    links = {}
    for subnet, ends in shared(networks).items():
        ring = [*zip(names, ends, strict=True)]
        for (source, _), (target, end) in pairwise([*ring, ring[0]] if len(ring) > 1 else []):
            port = hosts.call(target, LocalHost.answer)
            link = hosts.call(source, LocalHost.measure, end.address, port)
            links[f"{end.interface} {subnet}", source, target] = link
    return links


def together(by_host: Mapping[str, Sequence[Finding]]) -> list[Finding]:
    """One finding a check: the worst of all hosts, with those that have it unless all agree."""
    merged = []
    for of_check in zip(*by_host.values(), strict=True):
        state = max((each.state for each in of_check), key=[*State].index)
        worst = {h: each for h, each in zip(by_host, of_check, strict=True) if each.state is state}
        saw, mend = of_check[0].saw, [each.mend for each in worst.values() if each.mend]
        if len({each.saw for each in of_check}) > 1:
            if of_check[0].name in _SAME and state is not State.FAILURE:
                state, worst = State.FAILURE, dict(zip(by_host, of_check, strict=True))
                mend = ["install the same on all hosts, at the same paths"]
            saying: dict[str, list[str]] = {}
            for host, host_finding in worst.items():
                saying.setdefault(host_finding.saw, []).append(host)
            rarest = sorted(saying.items(), key=lambda item: len(item[1]))
            saw = _listed([f"{_listed(hosts, ', ')}: {text}" for text, hosts in rarest])
        merged.append(
            replace(of_check[0], state=state, saw=saw, mend="\n".join(dict.fromkeys(mend)))
        )
    return merged


def _listed(texts: Sequence[str], by: str = "; ") -> str:
    more = [f"{len(texts) - _LISTED} more"] if len(texts) > _LISTED else []
    return by.join([*texts[:_LISTED], *more])


# --- between hosts (pure) -------------------------------------------------------------------


def _reached(hosts: Sequence[str]) -> Seen:
    """A study starts an agent on each host with the launcher of its ranks."""
    return State.OK, f"{_listed(hosts, ', ')} answer", ""


def clocks(ahead_s: Mapping[str, float]) -> Seen:
    """Times in the logs and files of several hosts are compared."""
    wrong = [host for host, by_s in ahead_s.items() if abs(by_s) > APART_S]
    if not wrong:
        return State.OK, f"at most {max(map(abs, ahead_s.values())):.2f} s from this host's", ""
    saw = _listed([f"{host} is {ahead_s[host]:+.1f} s from this host" for host in wrong])
    return State.WARNING, saw, "\n".join(f"ssh {host} sudo chronyc makestep" for host in wrong)


def common_network(networks: Sequence[Sequence[Network]]) -> Seen:
    """A library may choose an interface that the other hosts do not reach, and hang."""
    common, named = shared(networks), common_interfaces(networks)
    others = {
        network.interface for host in networks for network in host if network.subnet not in common
    }
    saw = ", ".join(f"{ends[0].interface} {subnet}" for subnet, ends in common.items()) or "none"
    saw += f"; not shared: {', '.join(sorted(others))}" if others else ""
    if not common:
        return State.WARNING, saw, "ip -brief address"
    if len(named) > 1:
        return State.OK, f"{saw}; a study tunes the choice", "tune --knob interface"
    return State.OK, saw, f"tune --fix interface={named[0]}" if others and named else ""


def link_speeds(links: Links) -> Seen:
    """All ranks wait for the slowest link."""
    fastest: dict[str, float] = {}
    for (network, *_), link in links.items():
        fastest[network] = max(fastest.get(network, 0.0), link.bytes_per_s)
    texts, slow = [], dict[str, str]()
    for (network, source, target), link in links.items():
        rate, best = (f"{speed / 1e6:,.1f} MB/s" for speed in (link.bytes_per_s, fastest[network]))
        said = link.fault or f"{rate}, {1e3 * link.latency_s:.2f} ms there and back"
        texts.append(f"{source} to {target} by {network}: {said}")
        if link.bytes_per_s <= SLOW * fastest[network]:
            look = "sudo iptables -nL" if link.fault else f"ethtool {network.split()[0]}"
            slow[f"{texts[-1]}; the fastest has {best}"] = f"ssh {source} {look}"
    if slow:
        state = State.FAILURE if any(link.fault for link in links.values()) else State.WARNING
        return state, _listed([*slow]), "\n".join(dict.fromkeys(slow.values()))
    return (
        (State.OK, _listed(texts), "")
        if links
        else (State.NOT_SEEN, "no two hosts on a network", "")
    )
