"""What the kernel, other processes and our own files say, if somebody else wrote them."""

from __future__ import annotations

import io
import json
import math
import os
import re
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from tests.launch.test_secrets import FORMS, IT
from tests.parsers.strategies import DEEP, LONG, holds, texts, trees
from tests.store.test_store import FULL
from tuner.hosts import lock, machine, observe
from tuner.hosts.process import left_over
from tuner.hosts.process.left_over import name_of
from tuner.launch.secrets import Redactor, hide_shapes
from tuner.model import (
    Effect,
    Finding,
    Finished,
    Observation,
    RankView,
    Setting,
    Stopped,
    StudySpec,
    Verdict,
    codec,
)
from tuner.results.dashboard import access
from tuner.study import journal

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
        for each in _FILES:
            path = Path(name, each)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        visible = {"CUDA_VISIBLE_DEVICES": data.decode("utf-8", "replace").strip()}
        found = machine.this_machine(root=Path(name), environ=visible, affinity_cpus=4)
    assert 1 <= found.logical_cpus < 2**31 and 1 <= found.physical_cores < 2**31, found
    assert 1 <= found.cores < 2**31 and found.numa_nodes >= 1 and found.memory_bytes >= 0, found
    assert found.quota_cpus is None or 0 < found.quota_cpus < math.inf, found


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


_KINDS: tuple[tuple[Any, Any], ...] = (
    (Observation, Observation((RankView(0, 4, 2, (0, 1), 4, pools=(("a", 4),)),))),
    (tuple[Effect, ...], (Effect("omp_threads", 4, 2, Verdict.CAPPED, "x"),)),
    (Stopped, Stopped(4.0, 8.0, 7.0, None, 0.1, "drift")),
    (Finished, Finished(3.5, 20, 1.0)),
    (Finding, Finding(2.3, 2.2, 2.4, 6, "faster")),
    (StudySpec, None),
)


@holds(
    trees(*[codec.to_json(value) for _, value in _KINDS]),
    b'{"bound_s": 1' + b"0" * 400 + b"}",
    b'{"elapsed_s": ' + DEEP,
)
def test_a_value_in_the_database_is_itself_again_or_refused(data: bytes) -> None:
    for kind, _ in _KINDS:
        with suppress(ValueError, KeyError, TypeError):
            value = codec.loads(kind, data.decode("utf-8", "replace"))
            assert codec.loads(kind, codec.dumps(value)) == value


@holds(
    trees({"omp_threads": 4, "communicator": "naive"}, {}, {"a": "unset"}),
    *(b'{"a": ' + DEEP, b"[[1, 1]]", b'{"a": null}', b"3", b'{"a": 1.5}', DEEP),
)
def test_a_setting_in_the_database(data: bytes) -> None:
    with suppress(ValueError):
        found = Setting.from_json(data.decode("utf-8", "replace"))
        assert Setting.from_json(found.to_json()) == found, found
        hash(found)


_ENTRY = json.loads(journal.text(journal.Entry("mnist", "2026-01-02T03:00:00+00:00", FULL)))


@holds(
    trees(_ENTRY),
    *(
        json.dumps(_ENTRY | {"record": _ENTRY["record"] | {"number": odd}}).encode()
        for odd in (10**30, {"a": 1}, [1])
    ),
)
def test_the_record_in_the_folder_of_a_launch(data: bytes) -> None:
    with suppress(ValueError):
        entry = journal.parse(data)
        (found,) = journal.lacking([], [entry.record])
        codec.dumps(found)


@holds(
    trees({"marker": "abc", "since": 12345, "boot_id": "1-2", "folder": "/tmp/x"}),
    b'{"marker": "a", "since": true, "boot_id": "", "folder": ""}',
    b'{"marker": "\\ud800", "since": 1, "boot_id": "", "folder": "/tune-\\ud800"}',
)
def test_of_a_launch_under_way_nothing_is_ended_on_a_guess(data: bytes) -> None:
    found = left_over.parse(data)
    if found is not None:
        assert isinstance(found.marker, str) and found.marker and type(found.since) is int
        os.fsencode(found.folder)
        assert not found.folder or found.folder.endswith(name_of(found.marker)), found


@holds(
    texts(*[f"epoch 3\n{form.replace('{}', IT)}\n--lr=0.1".encode() for form in FORMS]),
    b"http:/" * 1200 + b"x:a@b",
)
def test_what_is_hidden_once_is_hidden(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    hidden = hide_shapes(text)
    assert hide_shapes(hidden) == hidden, "hidden twice is another text"
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
    asked = {name: text for name, text in zip(_FIELDS, given, strict=False) if text}
    statuses: list[str] = []

    def start(status: str, headers: list[tuple[str, str]], *_: object) -> Any:
        statuses.append(status)
        for name, value in headers:
            assert re.fullmatch(r"[\t\x20-\x7e\x80-\xff]*", value), f"{name} ends in the middle"
            assert name != "Location" or re.match(r"/(?![/\\])", value), "another host"

    def inside(_: Any, start_response: Any) -> list[bytes]:
        start_response("200 Inside", [])
        return []

    environ = {"REQUEST_METHOD": "GET", "wsgi.input": io.BytesIO(), **asked}
    assert all(isinstance(part, bytes) for part in access.guarded(inside, _TOKEN)(environ, start))
    (status,) = statuses
    if status.startswith(("200", "303")):
        shown = " ".join(text for name, text in asked.items() if name != "PATH_INFO")
        assert _TOKEN in unquote(shown), "let in without the token"
