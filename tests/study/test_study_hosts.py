"""Which host takes the place of a lost one."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.study_surface import SPEC
from tuner.hosts.remote.remote_hosts import HostLostError
from tuner.knobs import knob
from tuner.model import IntRange, Layout
from tuner.model.errors import TunerError
from tuner.study.study_hosts import StudyHosts

LAYOUT = Layout(4, ("h1", "h2"), (2, 2))
TO_FOUR = replace(knob("ranks"), domain=IntRange(1, 4))


@dataclass
class Cloud:
    """Hosts of which h2 is lost, and only those ``up`` can be had."""

    up: tuple[str, ...]
    tried: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    found: str = ""

    def lost(self) -> list[Any]:
        return [] if self.found else [SimpleNamespace(name="h2", lost="no route")]

    def replace(self, lost: str, name: str) -> None:
        self.tried.append(name)
        if name not in self.up:
            raise TunerError(f"no answer from {name}")
        self.found = name


def there(cloud: Any, source: dict[str, Any]) -> StudyHosts:
    spec = replace(SPEC, layout=LAYOUT, **source)
    return StudyHosts(spec, LAYOUT, cloud, cloud.said.append, lambda: False)


@pytest.mark.parametrize(
    ("source", "up", "tried"),
    [
        ({"spares": ("h3", "h4")}, ("h4",), ["h2", "h3", "h4"]),
        ({"hosts_from": ("echo", "h1:2\nh3:2\nh2:2")}, ("h3",), ["h2", "h3"]),
        ({"hosts_from": ("echo", "h1:2\nh3:1\nh4:2")}, ("h2", "h3", "h4"), ["h4"]),
        ({"hosts_from": ("echo", "h1:4\nh3:2\nh4:4"), "knobs": (TO_FOUR,)}, ("h3", "h4"), ["h4"]),
    ],
    ids=["a spare", "one that is named", "the same is not named any more", "room for all numbers"],
)
def test_the_same_host_then_others_with_room_are_tried(
    source: dict[str, Any], up: tuple[str, ...], tried: list[str]
) -> None:
    cloud = Cloud(up)
    hosts = there(cloud, source)
    hosts.replace_lost()
    assert cloud.tried == tried
    assert hosts.layout == replace(LAYOUT, hosts=("h1", tried[-1]))
    assert len(cloud.said) == (tried[-1] != "h2")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ({"spares": ("h3",)}, "no route; no answer from h2; no answer from h3"),
        ({"hosts_from": ("false",)}, "no route; --hosts-from false: exit code 1"),
    ],
)
def test_without_another_host_the_error_says_what_was_tried(
    source: dict[str, tuple[str, ...]], said: str
) -> None:
    with pytest.raises(HostLostError, match=f"the host h2 is lost: {said}") as caught:
        there(Cloud(()), source).replace_lost()
    assert caught.value.hint
