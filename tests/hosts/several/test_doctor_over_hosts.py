"""``tune doctor`` over two hosts: one with a slow link, one with another Python."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.hosts.several.bench import Bench
from tests.marked import eventually

pytestmark = [pytest.mark.system, pytest.mark.slow]

#: An interpreter that says it is an older one, if it is asked what it is.
OLD = """\
#!/bin/sh
shift
code=$1
shift
exec {python} -c "import platform; platform.python_version = lambda: '3.8.20'
$code" "$@"
"""


def doctor(bench: Bench, hosts: str, *words: str) -> tuple[int, dict[str, Any]]:
    """The exit code, and what is found, by the names of the checks."""
    tune = str(Path(sys.executable).parent / "tune")
    done = bench.run("h1", tune, "doctor", "--json", "--hosts", hosts, *words, check=False)
    eventually(lambda: not any(bench.processes(host) for host in bench.names))
    return done.returncode, {each["name"]: each for each in json.loads(done.stdout)["checks"]}


def test_a_slow_link_and_another_python_are_found(bench: Bench) -> None:
    for host in bench.names:  # /tmp is each host's own
        text = OLD if host == "h3" else '#!/bin/sh\nexec {python} "$@"\n'
        write = 'mkdir -p /tmp/v && printf %s "$1" > /tmp/v/python3 && chmod +x /tmp/v/python3'
        bench.run(host, "sh", "-c", write, "sh", text.format(python=sys.executable))
    (bench.folder / "train.py").touch()
    with bench.slowed("h2", "eth0", 20):
        command = ("/tmp/v/python3", str(bench.folder / "train.py"))
        code, found = doctor(bench, "h2,h3", "--", *command)
    assert code == 3
    assert (found["hosts"]["state"], found["hosts"]["saw"]) == ("ok", "h2, h3 answer")
    assert found["Python"]["state"] == "failure"
    assert "h3: 3.8.20, /tmp/v/python3" in found["Python"]["saw"]
    assert found["links"]["state"] == "warning"
    assert found["links"]["saw"].startswith("h2 to h3 by eth0 10.77.0.0/24: ")
    assert "h3 to h2" not in found["links"]["saw"]
    assert (found["clocks"]["state"], found["common network"]["state"]) == ("ok", "ok")


def test_a_host_that_cannot_be_reached_is_a_failed_check(bench: Bench) -> None:
    code, found = doctor(bench, "h1,nohost")
    assert (code, found["hosts"]["state"]) == (3, "failure")
    assert "no answer from nohost: ssh: Could not resolve" in found["hosts"]["saw"]
    assert found["launcher"]["state"] == "ok", "this host is checked all the same"


def test_the_host_that_lacks_the_interpreter_is_named_alone(bench: Bench) -> None:
    folder = str(Path(sys.executable).resolve().parent)
    bench.run("h3", "mount", "-t", "tmpfs", "tmpfs", folder)
    try:
        code, found = doctor(bench, "h2,h3")
    finally:
        bench.run("h3", "umount", folder)
    assert (code, found["hosts"]["state"]) == (3, "failure")
    assert found["hosts"]["saw"].startswith("no answer from h3: Executable: ")
