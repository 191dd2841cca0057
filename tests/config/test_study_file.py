"""Study files: what loads, and every mistake with its place."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tuner.config.study_file import find_study_file, load, parse, study_of, template
from tuner.model.errors import UsageError

KNOB = "[knobs.omp_threads]\n"


def mistakes(text: str) -> list[str]:
    """The lines of the one error that the text gives, without the heading."""
    with pytest.raises(UsageError) as caught:
        parse(text.encode(), "study.toml")
    assert "study.toml" in caught.value.message
    return caught.value.message.splitlines()[1:]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a = " + "[" * 5000, "too long or too deep"),
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
        (KNOB + 'ranges = "1..2"', "knobs.omp_threads.ranges:", "'range'"),
        ('[knobs.a]\nswitch = "--a"\nwhen = {b = []}', "knobs.a.when:", "at least one value"),
        ("mpi_procs = 0", "mpi_procs:", "at least 1"),
        ('live = "maybe"', "live:", "'auto', 'on' or 'off'"),
        ('command = "a \'b"', "command:", "quotation"),
        ("budget_s = inf", "budget_s:", "above 0"),
        ("min_gain = 0.01", "min_gain:", 'such as "2%", is 0.01'),
        ('confirm = "no"', "confirm:", "'exact', 'more' or 'none'"),
        ('knobs = ["omp_threads"]', "knobs:", "a table"),
        (KNOB + 'range = "4..1"', "knobs.omp_threads:", "is reversed. Write 1..4"),
        (KNOB + 'range = " "', "knobs.omp_threads:", "'' is empty. Write a range"),
        (KNOB + 'range = "1..x"', "knobs.omp_threads:", "not whole numbers"),
        (KNOB + 'range = "1,,2"', "knobs.omp_threads:", "has an empty value"),
        (KNOB + 'range = "1,1"', "knobs.omp_threads:", "1 is there twice"),
        (KNOB + 'range = "1-16"', "knobs.omp_threads:", "is not a range. Write 1..16"),
        (KNOB + 'range = "1..1000000"', "knobs.omp_threads:", "more than 10000 values"),
        (KNOB + 'range = "0..4"', "knobs.omp_threads:", "cannot be 0: it counts from 1"),
        (KNOB + 'values = ["many"]', "knobs.omp_threads:", "cannot be 'many'"),
        ("[knobs.iterator_workers]\nfix = -1", "knobs.iterator_workers:", "it counts from 0"),
        ('[knobs.communicator]\nrange = "1..2"', "knobs.communicator:", "cannot be 1"),
        (KNOB + "values = [1.5]", "knobs.omp_threads.values:", "whole number"),
        (KNOB + "fix = true", "knobs.omp_threads.fix:", "whole number or a string"),
        (KNOB + 'range = "1..2"\nvalues = [1]', "knobs.omp_threads:", "range and values"),
        (KNOB + 'env = "A"\nflag = "-x"', "knobs.omp_threads:", "env and flag"),
        ('[knobs.communicator]\nrange = "nave"', "knobs.communicator:", "'naive'"),
        ('[knobs.mine]\nenv = "M"', "knobs.mine:", "range, values or fix"),
        ('[knobs.out]\nrange = "1..2"', "knobs.out:", "name of a knob"),
        ('[left_out]\nopencv = "x"', "left_out.opencv:", "'opencv_threads'"),
        ('[knobs.omp_threads]\n[left_out]\nomp_threads = "x"', "left_out.omp_threads:", "keep one"),
        ('command = ["p", "a\\u0000b", "{out}"]', "a text holds a NUL character", ""),
    ],
)
def test_each_mistake_has_its_place_and_its_fix(text: str, place: str, word: str) -> None:
    (line,) = mistakes(text)
    assert line.startswith(place)
    assert word in line


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("comand = 1\ntrials = 0\n[knobs.x]\nfoo = 1\n", ["comand", "knobs.x.foo", "trials"]),
        ('[objective]\nkind = "logrep"\n[knobs.mine]\n', ["knobs.mine", "objective"]),
    ],
)
def test_every_mistake_is_reported_at_once(text: str, places: list[str]) -> None:
    assert sorted(line.partition(":")[0] for line in mistakes(text)) == places


def test_a_pattern_may_name_a_nul_character() -> None:
    text = "[objective]\nkind = 'pattern'\npattern = '[^\\x00-\\x1f]+: ([0-9.]+)'"
    assert parse(text.encode(), "study.toml")["objective"]["pattern"].startswith("[^")


def test_which_file_is_taken(tmp_path: Path) -> None:
    assert find_study_file(None, cwd=tmp_path, has_command=True) == (None, "command line")
    assert find_study_file(None, cwd=tmp_path)[1] == "chainer_mnist.toml (shipped)"
    (tmp_path / "hpl").mkdir()  # the launches of an earlier run
    for given in ("hpl", "hpl.toml", "hpl/", "./hpl"):
        assert find_study_file(given, cwd=tmp_path)[1] == "hpl.toml (shipped)"
    with pytest.raises(UsageError, match="'chainer_mnst'") as caught:
        find_study_file("chainer_mnst", cwd=tmp_path)
    assert "'chainer_mnist'" in caught.value.hint
    (tmp_path / "tune.toml").write_text('name = "here"')
    for has_command in (True, False):
        file, source = find_study_file(None, cwd=tmp_path, has_command=has_command)
        assert file is not None
        assert (file["name"], source) == ("here", "tune.toml")


@pytest.mark.parametrize(
    ("stem", "name"),
    [("tune", None), ("my_job", "my_job"), ('odd "name" \\ {out}', "odd_name_out"), ("é", None)],
)
def test_the_template_loads_as_it_is(stem: str, name: str | None) -> None:
    study = study_of(parse(template(stem).encode(), stem))
    assert study.option("name") == name
    assert "{out}" in study.command
    assert set(study.knobs) == {"omp_threads", "iterator_workers"}


def test_the_templates_examples_load_too() -> None:
    """Every example, taken in: none may be wrong."""
    text = re.sub(r"(?m)^#(?=[a-z\[])", "", template("tune"))
    study = study_of(parse(text.encode(), "tune"))
    assert (study.option("name"), study.option("trial_limit_s")) == ("my_job", 300)
    own = {"omp_threads", "iterator_workers", "pool_size", "chunk", "amp", "binding"}
    assert set(study.knobs) == own
