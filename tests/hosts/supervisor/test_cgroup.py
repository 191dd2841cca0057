"""Control groups: where they are found, and that nothing depends on them."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tuner.hosts import procfs
from tuner.hosts.supervisor import cgroup, cleanup
from tuner.hosts.supervisor.cgroup import Cgroup


def plant(monkeypatch: pytest.MonkeyPatch, files: Mapping[str, str]) -> None:
    """A host of nothing but these files."""

    def find(path: str) -> bytes | None:
        return files[path].encode() if path in files else None

    monkeypatch.setattr(cgroup, "try_read", find)
    for module in (cgroup, procfs):
        monkeypatch.setattr(module, "read", lambda path: find(path) or b"")


@pytest.mark.parametrize(
    ("own", "mount", "place"),
    [
        ("4:memory:/a\n0::/\n", "unified", "/sys/fs/cgroup/unified/tune-1"),
        ("0::/user.slice/x\n", "user.slice/x", "/sys/fs/cgroup/user.slice/x/tune-1"),
        ("0::/elsewhere\n", "", "/sys/fs/cgroup/tune-1"),
        ("4:memory:/a\n", "a", ""),
    ],
)
def test_where_a_group_would_be(
    monkeypatch: pytest.MonkeyPatch, own: str, mount: str, place: str
) -> None:
    folder = f"/sys/fs/cgroup/{mount}".rstrip("/")
    plant(monkeypatch, {"/proc/self/cgroup": own, f"{folder}/cgroup.controllers": "cpu"})
    assert cgroup.place_for("tune-1") == place


def test_out_of_memory_is_counted_where_it_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    control = "/sys/fs/cgroup/memory/a/memory.oom_control"
    own = {"/proc/self/cgroup": "4:memory:/a\n0::/\n"}
    plant(monkeypatch, {**own, control: "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"})
    assert cgroup.oom_counter(Cgroup("/x")) == control
    assert cgroup.oom_kills(control) == 3
    plant(monkeypatch, {**own, "/x/memory.events": "low 0\noom 2\noom_kill 2\noom_group_kill 0\n"})
    assert cgroup.oom_counter(Cgroup("/x")) == "/x/memory.events"
    assert cgroup.oom_kills("/x/memory.events") == 2
    plant(monkeypatch, own)
    assert cgroup.oom_kills(cgroup.oom_counter(Cgroup("/x"))) is None, "nobody counts"


def test_without_a_group_all_goes_on() -> None:
    group = Cgroup("/proc/tune-1")
    group.make()
    group.join()
    group.kill()
    group.remove()
    assert (group.path, group.populated(), group.members()) == ("", False, set())


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
    remains = cleanup.Remains("none", None, cleanup.now(), group=group)
    assert {each.pid for each in remains.survivors()} == {each.pid for each in started}
    killed, left = remains.sweep(reap=lambda: None in [each.poll() for each in started])
    assert (killed, left) == (2, [])
    assert [each.wait() for each in started] == [-signal.SIGKILL] * 2
    assert not group.populated()
