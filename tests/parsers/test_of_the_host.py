"""What the kernel, other processes and our own files say, if somebody else wrote them."""

from __future__ import annotations

import io
import math
import os
import re
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from tests.launch.test_secrets import FORMS, IT
from tests.parsers.strategies import DEEP, LONG, holds, texts, trees
from tuner.hosts import lock, machine, observe
from tuner.hosts.process import left_over
from tuner.hosts.process.left_over import name_of
from tuner.launch.secrets import Redactor, hide
from tuner.results.dashboard import access

_FILES = (
    *("sys/devices/system/cpu/online", "sys/devices/system/cpu/cpu0/topology/core_cpus_list"),
    *("sys/devices/system/node/online", "proc/meminfo", "proc/cpuinfo", "proc/self/cgroup"),
    *("sys/fs/cgroup/cpu.max", "sys/fs/cgroup/user.slice/cpu.max", "sys/fs/cgroup/memory.max"),
    *("proc/driver/nvidia/gpus/0000:00:1e.0/information", "proc/self/mountinfo"),
)


@holds(
    texts(
        b"0-3,8\n",
        b"model name : CPU\nMemTotal: 1024 kB\n",
        b"0::/user.slice\n",
        b"max 100000\n",
        b"Model: A100\nDevice Minor: 0\nGPU UUID: GPU-abc\n",
    ),
    b"0-" + b"3" * 900,
    b"9-0",
)
def test_every_file_of_a_machine_has_odd_content(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as name:
        for file in _FILES:
            path = Path(name, file)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        visible = {"CUDA_VISIBLE_DEVICES": data.decode("utf-8", "replace").strip()}
        host = machine.this_machine(root=Path(name), environ=visible, affinity_cpus=4)
    assert 1 <= host.logical_cpus < 2**31 and 1 <= host.physical_cores < 2**31, host
    assert 1 <= host.cores < 2**31 and host.numa_nodes >= 1 and host.memory_bytes >= 0, host
    assert host.quota_cpus is None or 0 < host.quota_cpus < math.inf, host


@holds(
    texts(b'{"pid": 4711, "study": "mnist-n8", "database": "/x/studies/tune.db"}'),
    b'{"pid": 4711, "study": "\\u001b[2J", "database": "x"}',
    b'{"pid": 4711, "study": "' + b"x" * 5000 + b'", "database": "x"}',
    b'{"pid": ' + DEEP,
    b'{"pid": Infinity, "study": "a", "database": "x"}',
    b'{"pid": true, "study": "a", "database": "x"}',
)
def test_the_note_of_who_holds_the_host(data: bytes) -> None:
    owner = lock.parse_owner(data)
    assert type(owner.pid) is int and 0 <= owner.pid < 2**31, owner
    assert str(owner).isprintable() and len(str(owner)) < 300, owner


@holds(
    texts(b"PATH=/bin\0OMPI_COMM_WORLD_RANK=3\0OMPI_COMM_WORLD_SIZE=8\0", b"PMI_RANK=0\0"),
    b"PMIX_RANK=" + LONG,
    "PMI_RANK=²".encode(),
)
def test_the_environment_of_a_rank(data: bytes) -> None:
    assert all(number is None or number >= 0 for number in observe.rank_and_size(data))


@holds(
    trees({"marker": "abc", "since": 12345, "boot_id": "1-2", "folder": "/tmp/x"}),
    b'{"marker": "a", "since": true, "boot_id": "", "folder": ""}',
    b'{"marker": "\\ud800", "since": 1, "boot_id": "", "folder": "/tune-\\ud800"}',
)
def test_of_a_launch_under_way_nothing_is_ended_on_a_guess(data: bytes) -> None:
    launch = left_over.parse(data)
    if launch is not None:
        assert isinstance(launch.marker, str) and launch.marker and type(launch.since) is int
        os.fsencode(launch.folder)
        assert not launch.folder or launch.folder.endswith(name_of(launch.marker)), launch


@holds(
    texts(*[f"epoch 3\n{form.replace('{}', IT)}\n--lr=0.1".encode() for form in FORMS]),
)
def test_what_is_hidden_once_is_hidden(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    hidden = hide(text)
    if max(map(len, text.split()), default=0) < 256:  # of longer words a part may be left
        assert hide(hidden) == hidden, "hidden twice is another text"
    redactor = Redactor(frozenset({"known-secret"}))
    once = redactor.words(words := text.split())
    assert len(once) == len(words) and redactor.words(once) == once


_TOKEN = "0123456789abcdefTOKEN"
_FIELDS = ("PATH_INFO", "QUERY_STRING", "HTTP_COOKIE", "HTTP_AUTHORIZATION")


@holds(
    texts(
        b"/dashboard/\ntoken=0123456789abcdefTOKEN\n\n",
        b"/\n\ntune_dashboard_8080=0123456789abcdefTOKEN; a=b\n",
        b"/api/studies\n\n\nBearer 0123456789abcdefTOKEN",
        b"//evil.example/x\ntoken=0123456789abcdefTOKEN&a=1\n\n",
        words="token= %0d%0a // evil.example tune_dashboard_80= Basic token null",
    )
)
def test_a_request_of_a_stranger_is_answered_or_refused(data: bytes) -> None:
    # as the server hands it over: latin-1, a field that is empty is not there
    given = (field.replace(b"\r", b"").decode("latin-1") for field in data.split(b"\n"))
    fields = {name: text for name, text in zip(_FIELDS, given, strict=False) if text}
    statuses: list[str] = []

    def start(status: str, headers: list[tuple[str, str]], *_: object) -> Any:
        statuses.append(status)
        for name, value in headers:
            assert re.fullmatch(r"[\t\x20-\x7e\x80-\xff]*", value), f"{name} ends in the middle"
            assert name != "Location" or re.match(r"/(?![/\\])", value), "another host"

    def inside(_: Any, start_response: Any) -> list[bytes]:
        start_response("200 Inside", [])
        return []

    environ = {"REQUEST_METHOD": "GET", "wsgi.input": io.BytesIO(), **fields}
    assert all(isinstance(part, bytes) for part in access.guarded(inside, _TOKEN)(environ, start))
    (status,) = statuses
    if status.startswith(("200", "303")):
        shown = " ".join(text for name, text in fields.items() if name != "PATH_INFO")
        assert _TOKEN in unquote(shown), "let in without the token"
