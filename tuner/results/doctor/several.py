"""The hosts of a job: each is looked at as this one is; then what they share, and their links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import pairwise

from tuner.hosts.local_host import LocalHost
from tuner.hosts.networks import Link, Network, common_interfaces, shared
from tuner.hosts.remote.remote_hosts import Hosts
from tuner.launch.launchers import with_carrier
from tuner.launch.start_agents import reach
from tuner.model.errors import TunerError
from tuner.results.doctor.checks import CheckedItem, CheckResult, CheckState, diagnose
from tuner.results.doctor.host_view import HostView, view_of

#: A link with at most this share of the fastest one's rate is named.
SLOW = 1 / 3

#: The checks that must see the same on all hosts.
_SAME = {"Python", "launcher", "MPI library"}

#: So many hosts or links are listed.
_LISTED = 8

#: What was measured, by network, source and target.
Links = Mapping[tuple[str, str, str], Link]


def diagnose_hosts(
    names: Sequence[str], local: HostView, ssh: tuple[str, ...], environ: Mapping[str, str]
) -> list[CheckedItem]:
    """Check the local host and those that the launcher knows by these names."""
    if local.launcher is None:
        fault = CheckState.NOT_SEEN, "there is no launcher to start agents with", ""
        return [CheckedItem.of("hosts", _reached, fault), *diagnose(local)]
    launcher = replace(local.launcher, ssh=ssh)
    try:
        if launcher.kind == "torchrun":
            launcher = with_carrier(launcher, environ)
        with closing(reach(launcher, names, environ)) as reached:
            surveys = reached.call_all("", LocalHost.survey, local.programs, {})
            for lost in reached.lost():
                raise lost.error()
            networks = [reached.descriptions[name].networks for name in names]
            links = _measured(reached, names, networks)
    except TunerError as error:
        fault = CheckState.FAILURE, error.message, error.hint
        return [CheckedItem.of("hosts", _reached, fault), *diagnose(local)]
    views = {name: view_of(surveys[name], local) for name in names}
    views[reached.local_name or local.machine.hostname] = local
    return [
        CheckedItem.of("hosts", _reached, _reached(names)),
        *together({name: diagnose(view) for name, view in views.items()}),
        CheckedItem.of("common network", common_network, common_network(networks)),
        CheckedItem.of("links", link_speeds, link_speeds(links)),
    ]


def _measured(hosts: Hosts, names: Sequence[str], networks: Sequence[Sequence[Network]]) -> Links:
    """Measure each host's link to the next one in a ring, on each network, one after the other."""
    links = {}
    for subnet, ends in shared(networks).items():
        ring = [*zip(names, ends, strict=True)]
        for (source, _), (target, end) in pairwise([*ring, ring[0]] if len(ring) > 1 else []):
            port = hosts.call(target, LocalHost.answer)
            link = hosts.call(source, LocalHost.measure, end.address, port)
            links[f"{end.interface} {subnet}", source, target] = link
    return links


def together(by_host: Mapping[str, Sequence[CheckedItem]]) -> list[CheckedItem]:
    """Return one item a check: the worst of all hosts, with those that have it unless all agree."""
    merged = []
    for of_check in zip(*by_host.values(), strict=True):
        first, items = of_check[0], dict(zip(by_host, of_check, strict=True))
        state = max((item.state for item in of_check), key=[*CheckState].index)
        worst = {host: item for host, item in items.items() if item.state is state}
        mend = "\n".join(dict.fromkeys(item.mend for item in worst.values() if item.mend))
        saw = first.saw
        if any(item.saw != saw for item in of_check):
            if first.name in _SAME and state is not CheckState.FAILURE:
                mend = "install the same on all hosts, at the same paths"
                state, worst = CheckState.FAILURE, items
            saw = _listed([f"{host}: {item.saw}" for host, item in worst.items()])
        merged.append(replace(first, state=state, saw=saw, mend=mend))
    return merged


def _listed(texts: Sequence[str], by: str = "; ") -> str:
    more = [f"{len(texts) - _LISTED} more"] if len(texts) > _LISTED else []
    return by.join([*texts[:_LISTED], *more])


# --- between hosts (pure) -------------------------------------------------------------------


def _reached(hosts: Sequence[str]) -> CheckResult:
    """A study starts an agent on each host with the launcher of its ranks."""
    return CheckState.OK, f"{_listed(hosts, ', ')} answer", ""


def common_network(networks: Sequence[Sequence[Network]]) -> CheckResult:
    """A library may choose an interface that the other hosts do not reach, and hang."""
    common, named = shared(networks), common_interfaces(networks)
    others = {each.interface for host in networks for each in host if each.subnet not in common}
    saw = ", ".join(f"{ends[0].interface} {subnet}" for subnet, ends in common.items()) or "none"
    saw += f"; not shared: {', '.join(sorted(others))}" if others else ""
    if not common:
        return CheckState.WARNING, saw, "ip -brief address"
    if len(named) > 1:
        return CheckState.OK, f"{saw}; a study tunes the choice", "tune --knob interface"
    return CheckState.OK, saw, f"tune --fix interface={named[0]}" if others and named else ""


def link_speeds(links: Links) -> CheckResult:
    """All ranks wait for the slowest link."""
    if not links:
        return CheckState.NOT_SEEN, "no two hosts on a network", ""
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
    if not slow:
        return CheckState.OK, _listed(texts), ""
    is_cut = any(link.fault for link in links.values())
    state = CheckState.FAILURE if is_cut else CheckState.WARNING
    return state, _listed([*slow]), "\n".join(dict.fromkeys(slow.values()))
