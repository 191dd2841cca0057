"""What stands at the input of `tune`: a file, a pipe, or nothing."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from tests.study_surface import SPEC
from tuner.cli import standard_input
from tuner.launch.launchers import wrapper_argv
from tuner.model.errors import UsageError
from tuner.store.identity import difference, identity


@contextmanager
def at_input(descriptor: int) -> Iterator[None]:
    """Put a file or a pipe at the standard input of this process."""
    before = os.dup(0)
    os.dup2(descriptor, 0)
    try:
        yield
    finally:
        os.dup2(before, 0)
        os.close(before)


def test_a_file_is_named_and_another_content_is_another_job(tmp_path: Path) -> None:
    path, identities = tmp_path / "job.in", []
    for content in ("a\n", "a\n", "b\n"):
        path.write_text(content)
        with path.open() as file, at_input(file.fileno()):
            assert standard_input.file_at_input() == path
        digest = standard_input.digest(path)
        identities.append(identity(replace(SPEC, input=str(path), input_digest=digest)))
    assert difference(*identities[:2]) == []
    (text,) = difference(*identities[1:])
    assert text.startswith(f"standard input: {path} (SHA-256 87428fc52280…) -> {path} (SHA-256")


@pytest.mark.parametrize(("written", "ends"), [(b"", True), (b"", False), (b"x", True)])
def test_a_pipe_is_empty_or_an_error(written: bytes, ends: bool) -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as reader, os.fdopen(writing, "wb") as writer:
        writer.write(written)
        writer.flush()
        if ends:
            writer.close()
        with (
            at_input(reader.fileno()),
            pytest.raises(UsageError, match="a pipe") if written else nullcontext(),
        ):
            assert standard_input.file_at_input() is None


@pytest.mark.parametrize("written", [b"", b"x"])
def test_a_slow_writer_is_waited_for_at_a_socket_too(written: bytes) -> None:
    reader, writer = socket.socketpair()

    def write() -> None:
        writer.sendall(written)
        writer.close()

    with reader, writer, at_input(reader.fileno()):
        threading.Timer(0.1, write).start()
        with pytest.raises(UsageError, match="a pipe") if written else nullcontext():
            assert standard_input.file_at_input() is None


def test_a_device_and_an_empty_file_are_empty_and_a_file_without_a_name_is_an_error() -> None:
    with Path(os.devnull).open() as device, at_input(device.fileno()):
        assert standard_input.file_at_input() is None
    with tempfile.TemporaryFile() as file, at_input(file.fileno()):  # as some shells write <<
        assert standard_input.file_at_input() is None
        file.write(b"a")
        file.flush()
        with pytest.raises(UsageError, match="a pipe or a here-document") as caught:
            standard_input.file_at_input()
        assert "< FILE" in caught.value.hint


def test_rank_0_reads_the_file_and_no_other_rank_does(tmp_path: Path) -> None:
    file = tmp_path / "job in"
    file.write_text("content")
    reading, writing = os.pipe()  # the launcher's input, which never ends
    with closing(os.fdopen(writing, "wb")), os.fdopen(reading, "rb") as launchers:
        for words, rank, expected in (
            (("-i", str(file)), "0", "content"),
            (("-i", str(file)), "1", ""),
            ((), "0", ""),
        ):
            done = subprocess.run(
                [*wrapper_argv(), *words, "A=1", "--", "cat"],
                env={"PATH": os.environ["PATH"], "PMI_RANK": rank},
                stdin=launchers,
                capture_output=True,
                text=True,
                timeout=20,
                check=True,
            )
            assert done.stdout == expected
