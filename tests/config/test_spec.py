"""One spec out of file, command line and machine."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tuner.config import program
from tuner.config.spec import build_spec
from tuner.config.study_file import Document, parse
from tuner.hosts.machine import HostFeatures
from tuner.knobs import space
from tuner.model import (
    BASELINE,
    UNSET,
    Choice,
    Env,
    Flag,
    IntRange,
    Knob,
    LauncherInfo,
    LauncherOption,
    Machine,
    ObjectiveSpec,
    Setting,
    StudySpec,
)
from tuner.model.errors import UsageError

TESTS = Path(__file__).parents[1]
MACHINE = Machine("host", "cpu", 4, 4, 4, None, 1, 2**30)
OPENMPI = LauncherInfo("openmpi", "/opt/bin/mpirun", "5.0.11")
OWN = ("{python}", "-c", "pass", "--out", "{out}")
FEATURES = HostFeatures(
    {"jemalloc": "/usr/lib/libjemalloc.so.2"}, huge_pages="never", glibc=(2, 36)
)
DEFAULTS = {
    "omp_threads": IntRange(1, 4),
    "opencv_threads": IntRange(1, 4),
    "bind_to": Choice((UNSET, "none")),
}


def find(mpirun: str | None, args: tuple[str, ...], *, kind: str | None, **_: Any) -> LauncherInfo:
    return LauncherInfo(kind or OPENMPI.kind, mpirun or OPENMPI.mpirun, "5.0.11", None, args)


def build(
    *command: str,
    file: Document | str | None = None,
    cwd: Path = Path("/"),
    machine: Machine = MACHINE,
    environ: Mapping[str, str] | None = None,
    **options: Any,
) -> StudySpec:
    """The spec of a command; a file is a document, or its text."""
    return build_spec(
        file=parse(file.encode(), "test") if isinstance(file, str) else file,
        source="test",
        command=command or None,
        options=options,
        environ=environ or {"PATH": "/usr/bin:/bin"},
        cwd=cwd,
        machine=machine,
        features=FEATURES,
        find=find,
    )


def domains(spec: StudySpec) -> dict[str, object]:
    return {knob.name: knob.domain for knob in spec.knobs}


def refused(*command: str, **options: Any) -> UsageError:
    with pytest.raises(UsageError) as caught:
        build(*command, **options)
    assert caught.value.hint
    return caught.value


# --- which knobs there are -------------------------------------------------------------------


def test_a_bare_command_has_the_environment_knobs_and_the_defaults() -> None:
    spec = build(*OWN)
    assert domains(spec) == DEFAULTS
    assert (spec.name, spec.layout.ranks, spec.trials, spec.warm_ups) == ("python-n2", 2, 50, 1)
    assert (spec.seed, spec.trial_limit_s, spec.fixed) == (0, None, BASELINE)
    assert (spec.budget_s, spec.until, spec.precision) == (None, 0.01, 0.02)
    assert (spec.stall_limit_s, spec.oversubscription, spec.confirm) == (120.0, 4.0, "auto")
    assert spec.objective == ObjectiveSpec()
    assert dict(spec.left_out) == {
        "iterator_workers": "the command has no {iterator_workers}",
        "communicator": "the command has no {communicator}",
    }
    assert build(*OWN, stall_limit_s="none").stall_limit_s is None
    gpus = replace(MACHINE, gpus=("H200",) * 4)
    assert build(*OWN, machine=gpus).layout.ranks == 4, "one rank a GPU"
    assert build(*OWN, machine=gpus, mpi_procs=8).layout.ranks == 8


def test_all_knobs_are_those_that_apply_and_keep_the_numerics() -> None:
    spec = build(*OWN, "-b", "{batch_size}", all_knobs=True)
    got = set(domains(spec))
    assert {"omp_threads", "omp_proc_bind", "omp_places", "allocator", "ompi_allreduce"} <= got
    assert not got & {"map_by", "huge_pages", "nccl_algo", "mpich_allreduce", "prefetch"}
    assert "batch_size" not in got
    reasons = dict(spec.left_out)
    assert reasons["batch_size"] == "it changes the numerics: --knob batch_size asks for it"
    assert reasons["nccl_algo"] == "no GPU was found here"
    for setting in (*space.guesses(spec), *itertools.islice(space.points(spec.knobs), 100)):
        assert space.contains(spec.knobs, spec.fixed, setting)


B_AND_T = '[knobs.b]\nenv = "B"\nvalues = [1, 2]\n[knobs.t]\nenv = "T"\nvalues = ["1", "2"]\n'
BATCH = (*OWN, "-b", "{batch_size}")


@pytest.mark.parametrize(
    ("words", "options", "more"),
    [
        # A knob without values has those of the table that apply here.
        (OWN, {"knobs": ("bind_to", "allocator")}, {"allocator": Choice(("glibc", "jemalloc"))}),
        (OWN, {"env_knobs": ("MY_POOL=1,2,4",)}, {"MY_POOL": Choice((1, 2, 4))}),
        (BATCH, {"baselines": ("batch_size=32",)}, {"batch_size": Choice((32,))}),
        (BATCH, {"baselines": ("batch_size=32",), "knobs": ("batch_size",)},
         {"batch_size": Choice((16, 32, 64, 128, 256))}),
        ((*OWN, "-j={iterator_workers}"), {"fixes": ("iterator_workers=2",)},
         {"iterator_workers": Choice((2,))}),
        (OWN, {"knobs": ("omp_threads=1..16",)}, {"omp_threads": IntRange(1, 16)}),
        (OWN, {"knobs": ("omp_threads=1..cores",)}, {"omp_threads": IntRange(1, 4)}),
        (OWN, {"knobs": ("omp_threads=unset,1",)}, {"omp_threads": Choice((UNSET, 1))}),
        ((*OWN, "-b{b}"), {"knobs": ("b=32,64",)}, {"b": Choice((32, 64))}),
        ((*OWN, "-b{b}"), {"knobs": ("b=4",)}, {"b": Choice((4,))}),
        ((*OWN, "-b{b}"), {"knobs": ("b=-2..2",)}, {"b": IntRange(-2, 2)}),
        ((*OWN, "-b{b}"), {"knobs": ("b=naive , flat",)}, {"b": Choice(("naive", "flat"))}),
    ],
)  # fmt: skip
def test_knobs_that_are_typed(
    words: tuple[str, ...], options: dict[str, Any], more: dict[str, object]
) -> None:
    assert domains(build(*words, **options)) == DEFAULTS | more


def test_a_fixed_value_is_the_baselines_too() -> None:
    spec = build(*OWN, "-b", "{batch}", fixes=("batch=32",))
    assert spec.knobs[-1] == Knob("batch", Choice((32,)), Flag(), default=32)
    assert spec.fixed == Setting.of({"batch": 32})
    held = build(*BATCH, baselines=("batch_size=32",))
    assert held.fixed == Setting.of({"batch_size": 32}), "it changes the numerics"


def test_a_value_that_the_file_lists_may_be_typed() -> None:
    file = '[knobs.communicator]\nvalues = ["naive", "own"]'
    typed: list[dict[str, Any]] = [{key: ("communicator=own",)} for key in ("fixes", "setting")]
    for options in typed:
        spec = build(*OWN, "-c{communicator}", file=file, **options)
        assert spec.fixed == Setting.of({"communicator": "own"})


def test_a_usual_knob_gives_way_to_one_of_the_users_that_sets_its_variable() -> None:
    spec = build(*OWN, env_knobs=("OMP_NUM_THREADS=1,2",))
    assert "omp_threads" not in domains(spec)
    assert dict(spec.left_out)["omp_threads"] == "the knob OMP_NUM_THREADS sets OMP_NUM_THREADS"


def test_knobs_of_one_variable_that_no_setting_has_together_are_two_knobs() -> None:
    knob = '[knobs.{}]\nenv = "ARENAS"\nvalues = [1, 2]\nwhen = {{bind_to = ["{}"]}}\n'
    spec = build(*OWN, file=BIND_TO + knob.format("few", "none") + knob.format("many", "core"))
    assert {"few", "many"} <= domains(spec).keys()
    error = refused(*OWN, file=BIND_TO + knob.format("few", "none") + knob.format("many", "none"))
    assert "the knobs few and many both set ARENAS" in error.message


# --- what is refused -------------------------------------------------------------------------

BIND_TO = '[knobs.bind_to]\nvalues = ["none", "core"]\n'
SWITCH = '[knobs.a]\nswitch = "--a"\nwhen = '


def own_binding(values: str, option: str) -> str:
    return f'[knobs.bind]\nvalues = {values}\nlauncher_option = "{option}"'


@pytest.mark.parametrize(
    ("options", "word", "hint"),
    [
        ({"mpi_procs": 0}, "--mpi-procs 0: must be at least 1", "--help"),
        ({"max_time_s": "soon"}, "--max-time soon: must be a time above 0", ""),
        ({"max_time_s": "60", "objective": "pattern:(.)"}, "--max-time 60s: a", "--trial-limit"),
        ({"trials": 0, "seed": -1}, "--seed -1", ""),
        ({"log": "/tmp/log"}, "log '/tmp/log'", ""),
        ({"objective": "wall", "live": "on"}, "--live on (test): ", "docs/live.md"),
        ({"objective": "pattern:(.)", "samples_per_run": 3.0}, "is not a time, so --samples", ""),
        ({"file": {"mpi_procs": 8.0}}, "mpi_procs: must be a whole number, or several", ""),
        # knobs that are typed
        ({"env_knobs": ("MKL_NUM_THREADS=1,2",), "knobs": ("omp_threads=1..4",)},
         "omp_threads and MKL_NUM_THREADS both set MKL_NUM_THREADS", "keep one"),
        ({"knobs": ("prefetch",)}, "prefetch: nothing carries it", "{prefetch}"),
        ({"knobs": ("omp_thread=1..4",)}, "--knob omp_thread:", "'omp_threads'"),
        ({"fixes": ("omp_threads=1,2",)}, "1,2: is more than one value", "--knob omp_threads=1,2"),
        ({"baselines": ("omp_threads=1",)}, "no {omp_threads}", ""),
        ({"baselines": ("a=1", "a=2")}, "--baseline a is given twice", ""),
        ({"require": ("omp_threads == 9",)}, "no setting meets --require 'omp_threads == 9'", ""),
        ({"require": ("omp_threads == 1",), "file": "[knobs.omp_threads]\nbaseline = 2"},
         "the baseline (omp_threads=2) does not meet", "--baseline NAME=VALUE"),
        # what does not apply here
        ({"knobs": ("nccl_algo",)}, "nccl_algo: no GPU was found here", "GPU"),
        ({"knobs": ("allocator=tcmalloc",)}, "tcmalloc is not installed here", "apt-get"),
        ({"knobs": ("bind_to=none,core",), "launcher": "torchrun"},
         "bind_to: bind_to=none: torchrun has no such option", "under an mpirun"),
        ({"knobs": ("omp_places",)}, "omp_proc_bind is 'close' or 'spread'", "--knob omp_proc"),
        ({"knobs": ("cores_per_rank=0,1",)}, "cores_per_rank cannot be 0", ""),
        ({"knobs": ("ompi_btl",), "mpirun_args": ["--mca", "btl", "self,tcp"]}, "choose it", ""),
        # a study file
        ({"file": BIND_TO + SWITCH + '{bind = ["core"]}'}, "there is no knob 'bind'", "bind_to"),
        ({"file": B_AND_T + SWITCH + "{b = '1'}"}, "only if b is '1'", "add '1' to the values"),
        ({"file": SWITCH + "{b = 1}\n[knobs.b]\nenv = 'B'\nvalues = [1, 2]\nwhen = {a = 'on'}"},
         "knobs.a.when: it and b depend on each other in a circle", "without a condition"),
        ({"file": own_binding('["none"]', "bindto")}, "launcher_option 'bindto'", "'bind_to'"),
        ({"file": own_binding('["none", "core"]', "bind_to"), "mpirun_args": ["--bind-to", "core"]},
         "say it too", ""),
        # the command
        ({"command": ()}, "no command in test", ""),
        ({"command": (*OWN, "{iterator_worker}")}, "{iterator_worker}", "'iterator_workers'"),
        ({"command": ("no-such-program", "{out}")}, "'no-such-program' is not on PATH", ""),
        ({"command": ("config/test_spec.py", "{out}"), "cwd": TESTS},
         "not executable", "write python config/test_spec.py"),
        ({"command": ("{workloads}", "{out}")}, "begins with '{workloads}'", ""),
        ({"command": ("{python}", "{workloads}/chainer_mnst.py", "{out}")},
         "no workload", "'chainer_mnist.py'"),
        ({"command": ("{python}", "-c", "pass")}, "has no {out}", "--run-in-out"),
        ({"command": (sys.executable, "-m", "config.test_spec"), "cwd": TESTS, "run_in_out": True},
         "the module 'config.test_spec' lies in the current folder", "config/test_spec.py"),
    ],
)  # fmt: skip
def test_each_error_says_what_to_do(options: dict[str, Any], word: str, hint: str) -> None:
    more = dict(options)
    error = refused(*more.pop("command", OWN), **more)
    assert word in error.message
    assert hint in error.hint


# --- the command ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words", [("train.py",), ("-m", "other", "gone.py"), ("-c", "pass", "gone.py"), ("runner",)]
)
def test_what_is_there_or_cannot_be_known_passes(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "train.py").write_text("")
    spec = build("{python}", *words, "--out", "{out}", cwd=tmp_path)
    assert spec.folder == str(tmp_path), "`python -m mytrain` may import from it"
    assert spec.interpreter == sys.executable


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("train.py", (sys.executable, "-u", "train.py", "--data", "x")),
        ("train.py", (sys.executable, "-m", "mpi4py", "train.py")),
        ("my/train.py", (sys.executable, "-m", "my.train")),
        ("my/train/__main__.py", (sys.executable, "-m", "my.train")),
        ("job.sh", ("sh", "-e", "job.sh", "x")),
        ("after/train.py", (sys.executable, "{version}/train.py")),
        ("solver", ("./solver", "x")),
    ],
)
def test_the_file_that_a_command_runs_is_known_by_its_content(
    tmp_path: Path, file: str, words: tuple[str, ...]
) -> None:
    path, programs = tmp_path / file, []
    path.parent.mkdir(parents=True, exist_ok=True)
    for content in ("a", "a", "b", "b" * (program.MOST_BYTES + 1)):
        path.write_text(content)
        path.chmod(0o755)
        (tmp_path / "x").write_text(content * 2)
        spec = build(*words, "{version}", "{out}", cwd=tmp_path, knobs=("version=before,after",))
        programs.append(spec.programs)
    same, again, other, large = programs
    assert same == again != other and len(same) == len(other) == 1 and not large


@pytest.mark.parametrize("words", [("sh", "-c", "true " * 200), ("{python}", "{workloads}/x.py")])
def test_what_is_no_file_is_no_program_that_can_be_edited(words: tuple[str, ...]) -> None:
    assert not program.fingerprints(words, Path("/"))


def test_another_path_is_another_program(tmp_path: Path) -> None:
    """The same word on another PATH must not go on with this study, nor be exported."""
    program = tmp_path / "{bin}" / "train"
    program.parent.mkdir()
    program.write_text("")
    program.chmod(0o755)
    link = program.with_name("other")
    link.symlink_to(program)
    spec = build("other", "{out}", environ={"PATH": str(program.parent)})
    assert spec.command == (str(link).replace("{", "{{").replace("}", "}}"), "{out}")
    assert (spec.name, spec.interpreter) == ("other-n2", "")


def test_a_shipped_trainer_says_how_to_install_its_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    there = {"numpy", "mpi4py"}
    monkeypatch.setattr("tuner.config.program.find_spec", lambda name: name in there or None)
    error = refused("{python}", "{workloads}/chainer_mnist.py", "{out}")
    assert "needs chainer, not installed here" in error.message
    assert "pip install --build-constraint old.txt 'runtime-tuner[chainer]'" in error.hint


def test_a_program_that_runs_in_its_output_folder_finds_its_files(tmp_path: Path) -> None:
    for name in ("train.py", "data/x", "train"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    long = "/a/" + 300 * "b"  # too long for a file's name
    words = ["train.py", "--data=data/x", "some/model", "train", "./train", "../{j}/x", long]
    spec = build(sys.executable, *words, cwd=tmp_path, run_in_out=True, knobs=("j=1,2",))
    env, chdir, _, *rest = spec.command
    assert (Path(env).name, chdir) == ("env", "--chdir={out}")
    paths = [f"{tmp_path}/train.py", f"--data={tmp_path}/data/x", "some/model", "train"]
    assert rest == [*paths, f"{tmp_path}/train", f"{tmp_path}/../{{j}}/x", long]
    assert spec.name == "train-n2"


# --- with a study file ---------------------------------------------------------------------

FILE = """
name = "mine"
command = "{python} -c pass {out} -j {iterator_workers} 'a b'"
job = ["{python}", "-c", "long", "{out}", "-j", "{iterator_workers}"]
mpi_procs = 3
trials = 7
seed = 5
trial_limit_s = 60
budget_s = "10m"
min_gain = "3%"
oversubscription = 2
confirm = "none"
live = "off"
mpirun = "/a/mpirun"
mpirun_args = ["-x"]
[objective]
key = "t"
filename = "log.json"
[knobs.omp_threads]
range = "1..32"
[knobs.iterator_workers]
baseline = 4
[knobs.arenas]
values = [1, 2]
env = ["MALLOC_ARENA_MAX"]
help = "heaps"
[knobs.bind]
values = ["none", "core"]
launcher_option = "bind_to"
[left_out]
opencv_threads = "no OpenCV"
"""


def test_the_file_says_it_all() -> None:
    spec = build(file=FILE)
    assert (spec.name, spec.layout.ranks, spec.trials, spec.seed) == ("mine-n3", 3, 7, 5)
    assert (spec.trial_limit_s, spec.budget_s, spec.until) == (60.0, 600.0, 0.03)
    assert (spec.oversubscription, spec.confirm, spec.live) == (2.0, "none", "off")
    assert spec.launcher == replace(OPENMPI, mpirun="/a/mpirun", extra_args=("-x",))
    assert spec.objective == ObjectiveSpec("logreport", "t", "log.json")
    assert (spec.command[-1], spec.job[2]) == ("a b", "long")
    assert domains(spec) == {
        "omp_threads": IntRange(1, 32),  # the user's own range is never cut
        "iterator_workers": IntRange(1, 4),
        "arenas": Choice((1, 2)),
        "bind": Choice(("none", "core")),
    }
    knobs = {knob.name: knob for knob in spec.knobs}
    assert knobs["arenas"].route == Env(("MALLOC_ARENA_MAX",))
    assert knobs["bind"].route == LauncherOption("bind_to")
    assert knobs["iterator_workers"].default == 4
    assert dict(spec.left_out) == {
        "opencv_threads": "no OpenCV",
        "communicator": "the command has no {communicator}",
    }


def test_the_command_line_wins() -> None:
    options: dict[str, Any] = {
        **{"mpi_procs": 8, "trials": 9, "warm_ups": 0, "seed": 0, "trial_limit_s": 5.0},
        **{"min_gain": "2%", "confirm": "auto", "mpirun": "/b/mpirun", "mpirun_args": "-y 'a b'"},
        **{"name": "other", "log": "log", "fixes": ("arenas=4",)},
        "knobs": ("omp_threads=1,2", "opencv_threads=1..2"),
    }
    spec = build(file=FILE, **options)
    assert (spec.name, spec.layout.ranks, spec.trials, spec.warm_ups) == ("other", 8, 9, 0)
    assert (spec.seed, spec.trial_limit_s, spec.objective.filename) == (0, 5.0, "log")
    assert (spec.until, spec.confirm) == (0.02, "auto")
    assert (spec.launcher.mpirun, spec.launcher.extra_args) == ("/b/mpirun", ("-y", "a b"))
    assert domains(spec)["omp_threads"] == Choice((1, 2))
    assert domains(spec)["opencv_threads"] == IntRange(1, 2)
    assert spec.fixed == Setting.of({"arenas": 4})
    assert "opencv_threads" not in dict(spec.left_out)
    file = "[knobs.omp_threads]\nfix = 2\n"
    assert build(*OWN, file=file).fixed == Setting.of({"omp_threads": 2})
    ranged = build(*OWN, file=file, knobs=("omp_threads=1..2",))
    assert (ranged.fixed, domains(ranged)["omp_threads"]) == (BASELINE, IntRange(1, 2))


def test_a_typed_objective_takes_the_place_of_the_files() -> None:
    file = '[objective]\nkind = "pattern"\npattern = "(a)"\nunit = "ms"\nloss_key = "l"\n'
    filed = ObjectiveSpec(kind="pattern", pattern="(a)", unit="ms", loss_key="l")
    assert build(*OWN, file=file).objective == filed
    assert build(*OWN, file=file, objective="pattern").objective == filed
    other = build(*OWN, file=file, objective="pattern:(b)", maximize=True).objective
    assert other == ObjectiveSpec(kind="pattern", pattern="(b)", maximize=True, loss_key="l")
    assert build(*OWN, file=file, unit="s").objective == replace(filed, unit="s")
    wall = build("{python}", "-c", "pass", file=file, objective="wall").objective
    assert wall == ObjectiveSpec("wall", loss_key="l")
