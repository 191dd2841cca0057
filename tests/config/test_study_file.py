"""Study files: what loads, and every mistake with its place."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from tuner.config.study_file import find_study_file, load, study_of, template
from tuner.model.errors import UsageError


def write(folder: Path, text: str, name: str = "study.toml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def study(path: Path) -> Any:
    """What the file says, every option at its default that it leaves out."""
    return study_of(load(path))


def mistakes(folder: Path, text: str) -> list[str]:
    """The lines of the one error that the text gives, without the heading."""
    with pytest.raises(UsageError) as caught:
        load(write(folder, text))
    assert str(folder) in caught.value.message
    return caught.value.message.splitlines()[1:]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (".".join(["a"] * 800) + " = 1", "too long or too deep"),
        ("# " + "x" * 1_000_000, "longer than 1 MB"),
        ("a = 1\ntrials = \n", r"line 2, column 10"),
        (b"\xff\xfe\x00", "UTF-8"),
    ],
)
def test_a_file_that_is_no_study_is_refused_whatever_its_size(
    tmp_path: Path, content: str | bytes, said: str
) -> None:
    path = tmp_path / "study.toml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UsageError, match=said):
        load(path)


def test_only_a_regular_file_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (Path("/dev/zero"), tmp_path / "pipe", tmp_path, tmp_path / "gone.toml"):
        with pytest.raises(UsageError, match=r"not a plain file|Is a directory|No such file"):
            load(path)


@pytest.mark.parametrize(
    ("text", "place", "word"),
    [
        ("mpi_proc = 8", "mpi_proc:", "'mpi_procs'"),
        ('[objective]\nfile = "x"', "objective.file:", "'filename'"),
        ('[knobs.omp_threads]\nranges = "1..2"', "knobs.omp_threads.ranges:", "'range'"),
        ('[knobs.a]\nswitch = "--a"\nwhen = {b = []}', "knobs.a.when:", "at least one value"),
        ("mpi_procs = 8.0", "mpi_procs:", "whole number"),
        ("mpi_procs = 0", "mpi_procs:", "at least 1"),
        ("seed = 4294967296", "seed:", "at most 4294967295"),
        ('live = "maybe"', "live:", "'auto', 'on' or 'off'"),
        ("name = 3", "name:", "a string"),
        ('command = ["a", 3]', "command:", "a string or a list"),
        ('command = "a \'b"', "command:", "quotation"),
        ("trial_limit_s = true", "trial_limit_s:", "above 0"),
        ("budget_s = inf", "budget_s:", "above 0"),
        ("min_gain = 0.01", "min_gain:", 'such as "2%", is 0.01'),
        ('min_gain = "100%"', "min_gain:", "between 0 % and 100 %"),
        ('precision = "nan%"', "precision:", "between 0 % and 100 %"),
        ("oversubscription = 0.5", "oversubscription:", "at least 1"),
        ("require = [4]", "require:", "a string or a list of strings"),
        ('confirm = "no"', "confirm:", "'exact', 'more' or 'none'"),
        ("oversubscribe = 4", "oversubscribe:", "'oversubscription'"),
        ('knobs = ["omp_threads"]', "knobs:", "a table"),
        ("[knobs.omp_threads]\nrange = 4", "knobs.omp_threads.range:", "a string"),
        ('[knobs.omp_threads]\nrange = "4..1"', "knobs.omp_threads.range:", "Write 1..4"),
        ('[knobs.omp_threads]\nrange = ""', "knobs.omp_threads.range:", "empty"),
        ('[knobs.omp_threads]\nrange = "0..4"', "knobs.omp_threads:", "counts from 1"),
        ("[knobs.omp_threads]\nvalues = [0, 1]", "knobs.omp_threads.values:", "counts from 1"),
        ("[knobs.omp_threads]\nvalues = []", "knobs.omp_threads.values:", "empty"),
        ("[knobs.omp_threads]\nvalues = [1, 1]", "knobs.omp_threads.values:", "twice"),
        ("[knobs.omp_threads]\nvalues = [1.5]", "knobs.omp_threads.values:", "whole number"),
        ("[knobs.omp_threads]\nvalues = 3", "knobs.omp_threads.values:", "list"),
        ("[knobs.omp_threads]\nfix = 0", "knobs.omp_threads:", "counts from 1"),
        ("[knobs.omp_threads]\nfix = true", "knobs.omp_threads.fix:", "whole number or a string"),
        ('[knobs.omp_threads]\nenv = "A B"', "knobs.omp_threads.env:", "'A B'"),
        ("[knobs.omp_threads]\nenv = []", "knobs.omp_threads.env:", "name"),
        (
            '[knobs.omp_threads]\nrange = "1..2"\nvalues = [1]',
            "knobs.omp_threads:",
            "range and values",
        ),
        ('[knobs.omp_threads]\nenv = "A"\nflag = "-x"', "knobs.omp_threads:", "env and flag"),
        ('[knobs.communicator]\nrange = "nave"', "knobs.communicator:", "'naive'"),
        ('[knobs.mine]\nenv = "M"', "knobs.mine:", "range, values or fix"),
        ('[knobs.out]\nrange = "1..2"', "knobs.out:", "name of a knob"),
        (
            'command = "p {out}"\n[knobs.omp_thread]\nrange = "1..2"',
            "knobs.omp_thread:",
            "'omp_threads'",
        ),
        ('[left_out]\nopencv = "x"', "left_out.opencv:", "'opencv_threads'"),
        ("[left_out]\nopencv_threads = 1", "left_out.opencv_threads:", "a string"),
        ('[knobs.omp_threads]\n[left_out]\nomp_threads = "x"', "left_out.omp_threads:", "keep one"),
        ('mpirun = "a\\u0000b"', "mpirun:", "a NUL character"),
        ('command = ["p", "a\\u0000b", "{out}"]', "command:", "a NUL character"),
        ('[knobs.a]\nenv = "A"\nvalues = ["", "\\u0000"]', "knobs.a.values:", "a NUL character"),
        ('[knobs.x]\nrange = "1..2"\nflag = "a\\u0000b"', "knobs.x.flag:", "a NUL character"),
    ],
)
def test_each_mistake_has_its_place_and_its_fix(
    tmp_path: Path, text: str, place: str, word: str
) -> None:
    (line,) = mistakes(tmp_path, text)
    assert line.startswith(place)
    assert word in line


@pytest.mark.parametrize(
    ("text", "places"),
    [
        (
            "comand = 1\ntrials = 0\n[knobs.x]\nrange = 4\nfoo = 1\n",  # of form
            ["comand", "knobs.x.foo", "knobs.x.range", "trials"],
        ),
        (
            '[objective]\nkind = "logrep"\n[knobs.omp_threads]\nfix = 0\n[knobs.mine]\n',
            ["knobs.mine", "knobs.omp_threads", "objective"],
        ),
    ],
)
def test_every_mistake_is_reported_at_once(tmp_path: Path, text: str, places: list[str]) -> None:
    assert sorted(line.partition(":")[0] for line in mistakes(tmp_path, text)) == places


# --- which file ----------------------------------------------------------------------------


def test_which_file_is_taken(tmp_path: Path) -> None:
    assert find_study_file(None, cwd=tmp_path, has_command=True) == (None, "command line")
    for given in ("chainer_mnist", "chainer_mnist.toml"):
        assert find_study_file(given, cwd=tmp_path)[1] == "chainer_mnist.toml (shipped)"
    with pytest.raises(UsageError) as caught:
        find_study_file("chainer_mnst", cwd=tmp_path)
    assert "'chainer_mnst'" in caught.value.message
    assert "'chainer_mnist'" in caught.value.hint
    write(tmp_path, 'name = "here"', "tune.toml")
    for has_command in (True, False):
        file, source = find_study_file(None, cwd=tmp_path, has_command=has_command)
        assert file is not None
        assert (file["name"], source) == ("here", "tune.toml")


# --- the template --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stem", "name"),
    [("tune", None), ("my_job", "my_job"), ('odd "name" \\ {out}', "odd_name_out"), ("é", None)],
)
def test_the_template_loads_as_it_is(tmp_path: Path, stem: str, name: str | None) -> None:
    file = study(write(tmp_path, template(stem)))
    assert file.name == name
    assert file.command is not None
    assert "{out}" in file.command
    assert set(file.knobs) == {"omp_threads", "iterator_workers"}


def test_the_templates_examples_load_too(tmp_path: Path) -> None:
    """Every example, taken in: none may be wrong."""
    text = re.sub(r"(?m)^#(?=[a-z\[])", "", template("tune"))
    file = study(write(tmp_path, text))
    assert file.name == "my_job"
    assert (file.trial_limit_s, file.budget_s) == (300, 600)
    assert (file.min_gain, file.precision) == (0.01, 0.02)
    assert (file.oversubscription, file.confirm) == (4, "none")
    assert file.job is not None
    own = {"omp_threads", "iterator_workers", "pool_size", "chunk", "amp", "binding"}
    assert set(file.knobs) == own
