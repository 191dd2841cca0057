"""Checks the hosts of a job: each like this one, then what they have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace

from tuner.hosts.local_host import LocalHost
from tuner.hosts.networks import Network, common_interfaces, shared
from tuner.launch.launchers.discovery import with_carrier
from tuner.launch.start_agents import reach
from tuner.model.errors import TunerError
from tuner.results.doctor.checks import CheckedItem, CheckResult, CheckState, diagnose
from tuner.results.doctor.host_view import HostView, view_of

#: The checks that must see the same on all hosts.
_SAME_ON_ALL = {"Python", "launcher", "MPI library"}

#: At most so many hosts are listed by name.
_MOST_LISTED = 8


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
    except TunerError as error:
        fault = CheckState.FAILURE, error.message, error.hint
        return [CheckedItem.of("hosts", _reached, fault), *diagnose(local)]
    views = {name: view_of(surveys[name], local) for name in names}
    views[reached.local_name or local.machine.hostname] = local
    return [
        CheckedItem.of("hosts", _reached, _reached(names)),
        *together({name: diagnose(view) for name, view in views.items()}),
        CheckedItem.of("common network", common_network, common_network(networks)),
    ]


def together(by_host: Mapping[str, Sequence[CheckedItem]]) -> list[CheckedItem]:
    """Return one item a check: the worst of all hosts, with those that have it unless all agree."""
    merged = []
    for of_hosts in zip(*by_host.values(), strict=True):
        first, items = of_hosts[0], dict(zip(by_host, of_hosts, strict=True))
        state = max((item.state for item in of_hosts), key=[*CheckState].index)
        worst = {host: item for host, item in items.items() if item.state is state}
        mend = "\n".join(dict.fromkeys(item.mend for item in worst.values() if item.mend))
        saw = first.saw
        if any(item.saw != saw for item in of_hosts):
            if first.name in _SAME_ON_ALL and state is not CheckState.FAILURE:
                mend = "install the same on all hosts, at the same paths"
                state, worst = CheckState.FAILURE, items
            saw = _listed([f"{host}: {item.saw}" for host, item in worst.items()])
        merged.append(replace(first, state=state, saw=saw, mend=mend))
    return merged


def _listed(texts: Sequence[str], separator: str = "; ") -> str:
    more = [f"{len(texts) - _MOST_LISTED} more"] if len(texts) > _MOST_LISTED else []
    return separator.join([*texts[:_MOST_LISTED], *more])


# --- between hosts (pure) -------------------------------------------------------------------


def _reached(hosts: Sequence[str]) -> CheckResult:
    """A study starts an agent on each host with the launcher of its ranks."""
    return CheckState.OK, f"{_listed(hosts, ', ')} answer", ""


def common_network(networks: Sequence[Sequence[Network]]) -> CheckResult:
    """A library may choose an interface that the other hosts do not reach, and hang."""
    common, names = shared(networks), common_interfaces(networks)
    others = {each.interface for host in networks for each in host if each.subnet not in common}
    saw = ", ".join(f"{ends[0].interface} {subnet}" for subnet, ends in common.items()) or "none"
    saw += f"; not shared: {', '.join(sorted(others))}" if others else ""
    if not common:
        return CheckState.WARNING, saw, "ip -brief address"
    if len(names) > 1:
        return CheckState.OK, f"{saw}; a study tunes the choice", "tune --knob interface"
    return CheckState.OK, saw, f"tune --fix interface={names[0]}" if others and names else ""
