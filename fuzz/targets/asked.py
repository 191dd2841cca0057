"""Study files: what does not read as one is the user's mistake, and nothing else."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from random import Random
from typing import Any

from fuzz.target import Target
from fuzz.texts import Texts
from fuzz.trees import Trees
from tuner.config import knob_selection, program, study_file
from tuner.config.applicability import Host
from tuner.config.options import OPTIONS
from tuner.config.spec import check_command
from tuner.config.study_file import Document
from tuner.hosts.features import HostFeatures
from tuner.knobs import core_budget, space
from tuner.launch import render
from tuner.launch.command import shipped_dir
from tuner.model import BASELINE, LauncherInfo, Layout, Machine, StudySpec
from tuner.model.errors import UsageError

MACHINE = Machine("node1", "Some CPU", 8, 4, 8, None, 1, 8 << 30)
LAUNCHER = LauncherInfo("openmpi", "/opt/mpi/bin/mpirun", "5.0.11")
FOUND = HostFeatures({"jemalloc": "/usr/lib/libjemalloc.so.2"}, huge_pages="madvise", glibc=(2, 36))

_STUDIES: list[dict[str, Any]] = [
    {
        "name": "mnist",
        "command": "python train.py --out {out} -j {iterator_workers}",
        "job": ["python", "train.py", "--out", "{out}", "-j", "{iterator_workers}"],
        "mpi_procs": 8,
        "trials": 50,
        "budget_s": "10m",
        "min_gain": "1%",
        "precision": "2%",
        "oversubscription": 4,
        "confirm": False,
        "trial_limit_s": 90,
        "warm_ups": 1,
        "seed": 0,
        "launcher": "torchrun",
        "mpirun_args": ["--mca", "pml", "ob1"],
        "objective": {"kind": "logreport", "key": "elapsed_time", "filename": "log"},
        "knobs": {"omp_threads": {"range": "1..8"}, "iterator_workers": {"fix": 2, "baseline": 4}},
        "left_out": {"opencv_threads": "not used"},
    },
    {
        "command": ["python", "a.py", "{out}", "--b={b}", "{{x}}"],
        "knobs": {
            "b": {"values": ["unset", 1, 2, 4], "baseline": 1},
            "c": {"values": ["x", "y"], "env": "C", "help": "c"},
            "d": {"range": "1..4", "flag": "--d"},
            "e": {"values": ["none", "core"], "launcher_option": "bind_to"},
            "communicator": {"fix": "naive"},
        },
    },
]
_WORDS = (
    *("command", "job", "knobs", "range", "values", "fix", "baseline", "env", "flag", "objective"),
    *("launcher_option", "help", "name", "mpi_procs", "trials", "budget_s", "min_gain", "left_out"),
    *("{out}", "{iterator_workers}", "{a}", "{{", "omp_threads", "opencv_threads", "communicator"),
    *("1..cores", "cores", "unset", "bind_to", "commnd", "rnge", "filename", "logreport"),
)


def _toml(tree: Any) -> bytes:
    """A tree as TOML; what TOML has not (``null``) is written as JSON does."""
    if not isinstance(tree, dict):
        return _value(tree).encode("utf-8", "surrogatepass")
    text = "\n".join(f"{_value(str(key))} = {_value(value)}" for key, value in tree.items())
    return text.encode("utf-8", "surrogatepass")


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_value(str(k))} = {_value(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, float):
        return repr(value)
    return json.dumps(value, ensure_ascii=isinstance(value, str) and len(value) % 2 == 0)


_TREES = Trees(_STUDIES, _WORDS, _toml)
_TEXTS = Texts(
    [path.read_bytes() for path in sorted(shipped_dir("studies").glob("*.toml"))]
    + [study_file.template("my_job").encode()],
    (
        b"[knobs.a]\n",
        b'"""',
        b"'''",
        b" = ",
        b"[[knobs]]\n",
        b"0x",
        b"0b1",
        b"1979-05-27",
        b".",
        b"{a = 1}",
        b"[",
        b"]",
        b"\\u0000",
        b"\\ud800",
        b"inf",
        b"nan",
        b"1e3",
        b"_",
        b"true",
    ),
)


def _make(rng: Random) -> bytes:
    return _TREES(rng) if rng.random() < 0.7 else _TEXTS(rng)


def study(data: bytes) -> None:
    """A study file, through all that is done before the first launch."""
    try:
        plan(study_file.parse(data, "tune.toml"), {}, None)
    except UsageError as error:
        assert error.message.strip(), "an error that says nothing"
        assert len(error.message) < 50_000, "an error that nobody reads"
        assert not set(error.message) & set("\0\x1b\r\x9b"), "an error that moves the cursor"
        error.message.encode()


def plan(file: Document, typed: dict[str, Any], command: tuple[str, ...] | None) -> StudySpec:
    """The study of a file and options, its space walked through as the search does.

    Raises:
        UsageError: Something is wrong with what was asked for.
    """
    asked = study_file.study_of(file)
    template = command or asked.command or ("python", "{out}")
    check_command(template, "here")
    chosen = knob_selection.select(asked, typed, template, is_typed=command is not None)
    figures = {option.field: asked.option(option.key) for option in OPTIONS if option.field}
    assert all(math.isfinite(each) for each in figures.values() if isinstance(each, float))
    knob_selection.check_job(asked.job, chosen, "here")
    layout = Layout(asked.option("mpi_procs") or 2)
    knobs, _ = knob_selection.applying(chosen, Host(MACHINE, layout, LAUNCHER, FOUND))
    spec = StudySpec(
        "s",
        template,
        LAUNCHER,
        layout,
        MACHINE,
        knobs,
        fixed=chosen.fixed,
        job=asked.job,
        **figures,
    )
    _walk(spec)
    return spec


def _walk(spec: StudySpec) -> None:
    assert space.size(spec.knobs) >= 1
    core_budget.summary(spec)
    core_budget.left_out(spec)
    for setting in (BASELINE, *space.guesses(spec)):
        assert setting == type(setting).from_json(setting.to_json())
        if not setting.is_baseline:
            assert space.contains(spec.knobs, spec.fixed, setting), setting
        with suppress(UsageError):  # a placeholder that cannot be left out
            words = render.rank_argv(
                spec, setting, out="/out", wrapper=("w",), template=spec.command
            )
            assert not any("\0" in word for word in words), "no program can be given a NUL"


def names(data: bytes) -> None:
    """Any text as the name of a study, and the template that is written for it."""
    text = data.decode("utf-8", "replace")
    name = program.as_name(text)
    with suppress(UsageError):
        assert program.check_name(text) == text
    if name and name[0].isalnum() and len(name) <= 100:
        assert program.check_name(name) == name
    if len(data) % 64 == 0:
        study_file.parse(study_file.template(text).encode(), "tune.toml")


_NAMES = Texts([b"mnist-n8", b"my job.py", b"a" * 101, b"...-_.", "é ü".encode()])

TARGETS = (
    Target("study_file", study, _make, share=0.2),
    Target("study_name", names, _NAMES, share=0.3),
)
