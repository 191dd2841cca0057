"""Control groups: where they are found, and that nothing depends on them."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tuner.hosts import supervisor
from tuner.hosts.supervisor import cgroup
from tuner.hosts.supervisor.cgroup import Cgroup

HYBRID = """\
31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw
35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
"""
UNIFIED = "41 31 0:38 {root} /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n"


def files(monkeypatch: pytest.MonkeyPatch, texts: Mapping[str, str]) -> None:
    found = {name: text.encode() for name, text in texts.items()}
    monkeypatch.setattr(cgroup, "content", found.get)
    monkeypatch.setattr(cgroup, "read", lambda path: found.get(path, b""))


@pytest.mark.parametrize(
    ("mounts", "own", "place"),
    [
        (HYBRID, "4:memory:/a\n0::/\n", "/sys/fs/cgroup/unified/tune-1"),
        (UNIFIED.format(root="/"), "0::/user.slice/x\n", "/sys/fs/cgroup/user.slice/x/tune-1"),
        (UNIFIED.format(root="/docker/1"), "0::/docker/1/a\n", "/sys/fs/cgroup/a/tune-1"),
        (UNIFIED.format(root="/docker/1"), "0::/elsewhere\n", ""),
        (UNIFIED.format(root="/"), "0::/../..\n", ""),
        (UNIFIED.format(root="/"), "4:memory:/a\n", ""),
        ("", "0::/\n", ""),
        ("", "", ""),
    ],
)
def test_where_a_group_would_be(
    monkeypatch: pytest.MonkeyPatch, mounts: str, own: str, place: str
) -> None:
    files(monkeypatch, {"/proc/self/mountinfo": mounts, "/proc/self/cgroup": own})
    assert cgroup.place_for("tune-1") == place


def test_out_of_memory_is_counted_where_it_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    control = "/sys/fs/cgroup/memory/a/memory.oom_control"
    texts = {"/proc/self/mountinfo": HYBRID, "/proc/self/cgroup": "4:memory:/a\n0::/\n"}
    files(monkeypatch, {**texts, control: "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"})
    assert cgroup.oom_counters(Cgroup("/x")) == [control]
    assert cgroup.oom_kills([control]) == 3
    assert not cgroup.is_of(Cgroup("/x"), [control]), "others are counted with it"
    assert not cgroup.is_of(Cgroup(""), ["/memory.events"])
    files(
        monkeypatch, {**texts, "/x/memory.events": "low 0\noom 2\noom_kill 2\noom_group_kill 0\n"}
    )
    assert cgroup.oom_kills(found := cgroup.oom_counters(Cgroup("/x"))) == 2
    assert cgroup.is_of(Cgroup("/x"), found)
    files(monkeypatch, texts)
    assert cgroup.oom_kills(cgroup.oom_counters(Cgroup("/x"))) is None, "nobody counts"


@pytest.mark.parametrize("path", ["", "/no/such/place", "/proc/tune-1"])
def test_without_a_group_all_goes_on(path: str) -> None:
    group = Cgroup(path)
    group.make()
    assert group.path == ""
    group.join()
    group.kill()
    group.remove()
    assert not group.populated()
    assert group.members() == set()


@pytest.fixture
def group() -> Iterator[Cgroup]:
    made = Cgroup(cgroup.place_for(f"tune-test-{os.getpid()}"))
    made.make()
    if not made.path:
        pytest.skip("no control group can be made here")
    yield made
    made.kill()
    made.remove()
    assert not Path(made.path).exists()


def test_what_is_in_the_group_is_ended_without_marker_or_parent(group: Cgroup) -> None:
    below = Cgroup(f"{group.path}/of the program")
    below.make()
    started = [
        subprocess.Popen(["sleep", "600"], env={}, preexec_fn=each.join)  # noqa: PLW1509
        for each in (group, below)
    ]
    assert group.members() == {each.pid for each in started}
    assert group.populated()
    assert {each.pid for each in supervisor.survivors("none", None, 0, group=group)} == {
        each.pid for each in started
    }
    killed, left = supervisor.sweep(
        "none",
        None,
        supervisor.now(),
        group=group,
        reap=lambda: None in [each.poll() for each in started],
    )
    assert (killed, left) == (2, [])
    assert [each.wait() for each in started] == [-signal.SIGKILL] * 2
    assert not group.populated()
