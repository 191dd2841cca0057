"""What stands at the input of `tune`: a file, a pipe, or nothing."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.study_surface import SPEC
from tuner.cli import standard_input
from tuner.launch.launchers import wrapper_argv
from tuner.model.errors import UsageError
from tuner.store.identity import difference, identity


@contextmanager
def pipe(written: bytes, *, ends: bool) -> Iterator[int]:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as reader, os.fdopen(writing, "wb") as writer:
        writer.write(written)
        writer.flush()
        if ends:
            writer.close()
        yield reader.fileno()


def test_a_file_is_named_and_not_read(tmp_path: Path) -> None:
    file = tmp_path / "job.in"
    for content, expected in (("a\n", str(file)), ("", "")):
        file.write_text(content)
        with file.open() as opened:
            assert standard_input.read(opened.fileno()) == expected
            assert opened.read() == content


def test_a_file_that_changes_is_another_job(tmp_path: Path) -> None:
    file, identities = tmp_path / "job.in", []
    for content in ("a\n", "a\n", "b\n"):
        file.write_text(content)
        digest = standard_input.digest(str(file))
        identities.append(identity(replace(SPEC, input=str(file), input_digest=digest)))
    assert difference(*identities[:2]) == []
    (text,) = difference(*identities[1:])
    assert text.startswith(f"standard input: {file} (SHA-256 87428fc52280…) -> {file} (SHA-256")


def test_a_here_document_and_a_pipe_are_read_to_their_end() -> None:
    with tempfile.TemporaryFile() as file:  # as bash writes it: without a name
        file.write(b"a\nb\n")
        file.flush()
        file.seek(0)
        assert standard_input.read(file.fileno()) == b"a\nb\n"
    for content in (b"x" * 9999, b""):
        with pipe(content, ends=True) as descriptor:
            assert standard_input.read(descriptor) == content


def test_a_device_and_a_pipe_without_a_word_are_empty() -> None:
    with Path(os.devnull).open() as device:
        assert standard_input.read(device.fileno()) == ""
    with pipe(b"", ends=False) as descriptor:
        assert standard_input.read(descriptor, first_s=0.01) == ""


def test_a_pipe_that_stops_in_the_middle_is_an_error() -> None:
    with pipe(b"half", ends=False) as descriptor, pytest.raises(UsageError) as caught:
        standard_input.read(descriptor, pause_s=0.01)
    assert "a pipe that gave 4 bytes and then nothing" in caught.value.message
    assert "< FILE" in caught.value.hint


@pytest.mark.parametrize("variable", ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", "RANK"])
def test_rank_0_reads_the_file_and_no_other_rank_does(tmp_path: Path, variable: str) -> None:
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
                env={"PATH": os.environ["PATH"], variable: rank},
                stdin=launchers,
                capture_output=True,
                text=True,
                timeout=20,
                check=True,
            )
            assert done.stdout == expected
