"""One spec out of file, command line and machine."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.config.program import as_name, check_name
from tuner.config.spec import WantedLauncher, build_spec
from tuner.config.study_file import Document, load, parse
from tuner.hosts.machine import HostFeatures
from tuner.knobs import core_budget, space
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

MACHINE = Machine("host", "cpu", 4, 4, 4, None, 1, 2**30)
OPENMPI = LauncherInfo("openmpi", "/opt/bin/mpirun", "5.0.11")
OWN = ("{python}", "-c", "pass", "--out", "{out}")


def find(wanted: WantedLauncher, program_path: str, environ: Mapping[str, str]) -> LauncherInfo:
    return LauncherInfo(
        wanted.kind or OPENMPI.kind, wanted.mpirun or OPENMPI.mpirun, "5.0.11", None, wanted.args
    )


FOUND = HostFeatures({"jemalloc": "/usr/lib/libjemalloc.so.2"}, huge_pages="never", glibc=(2, 36))


def build(
    *command: str,
    file: Document | None = None,
    cwd: Path = Path("/"),
    machine: Machine = MACHINE,
    environ: Mapping[str, str] | None = None,
    **options: Any,
) -> StudySpec:
    return build_spec(
        file=file,
        source="test",
        command=command or None,
        options=options,
        environ=environ or {"PATH": "/usr/bin:/bin"},
        cwd=cwd,
        machine=machine,
        features=FOUND,
        find=find,
    )


def toml(folder: Path, text: str) -> Document:
    path = folder / "study.toml"
    path.write_text(text)
    return load(path)


def domains(spec: StudySpec) -> dict[str, object]:
    return {knob.name: knob.domain for knob in spec.knobs}


def refused(*command: str, **options: Any) -> UsageError:
    with pytest.raises(UsageError) as caught:
        build(*command, **options)
    assert caught.value.hint
    return caught.value


# --- a command of the user's own -----------------------------------------------------------


def test_a_bare_command_has_the_environment_knobs_and_the_defaults() -> None:
    spec = build(*OWN)
    assert domains(spec) == {
        "omp_threads": IntRange(1, 4),
        "opencv_threads": IntRange(1, 4),
        "bind_to": Choice((UNSET, "none")),
    }
    assert (spec.name, spec.layout.ranks, spec.trials, spec.warm_ups) == ("python-n2", 2, 50, 1)
    assert (spec.seed, spec.trial_limit_s, spec.fixed) == (0, None, BASELINE)
    assert (spec.budget_s, spec.until, spec.precision) == (None, 0.01, 0.02)
    assert spec.stall_limit_s == 120.0
    assert build(*OWN, stall_limit_s="none").stall_limit_s is None
    assert (spec.oversubscription, spec.confirm) == (4.0, "auto")
    assert spec.objective == ObjectiveSpec()
    assert dict(spec.left_out) == {
        "iterator_workers": "the command has no {iterator_workers}",
        "communicator": "the command has no {communicator}",
    }


@pytest.mark.parametrize(
    ("objective", "word"), [("wall", "a whole launch"), ("pattern:([0-9]+)", "pattern")]
)
def test_an_objective_that_no_running_job_can_measure_is_refused_only_if_it_must_be_live(
    objective: str, word: str
) -> None:
    error = refused(*OWN, live="on", objective=objective)
    assert "--live on" in error.message and word in error.message
    assert "docs/live.md" in error.hint
    assert build(*OWN, objective=objective).live == "auto"
    assert build(*OWN, live="on").live == "on"


def test_a_knob_without_values_has_those_of_the_table_that_apply_here() -> None:
    spec = build(*OWN, knobs=("bind_to", "allocator", "omp_wait_policy"))
    got = domains(spec)
    assert got["bind_to"] == Choice((UNSET, "none"))
    assert got["allocator"] == Choice(("glibc", "jemalloc"))
    assert got["omp_wait_policy"] == Choice((UNSET, "active", "passive"))


def test_all_knobs_are_those_that_apply_and_keep_the_numerics() -> None:
    spec = build(*OWN, "-b", "{batch_size}", all_knobs=True)
    got = set(domains(spec))
    assert {"omp_threads", "omp_proc_bind", "omp_places", "allocator", "ompi_allreduce"} <= got
    assert not got & {"map_by", "huge_pages", "nccl_algo", "mpich_allreduce", "prefetch"}
    assert "batch_size" not in got
    reasons = dict(spec.left_out)
    assert reasons["batch_size"] == "it changes the numerics: --knob batch_size asks for it"
    assert reasons["map_by"] == "with one socket and one NUMA node every order is the same"
    assert reasons["nccl_algo"] == "no GPU was found here"
    for setting in (*space.guesses(spec), *itertools.islice(space.points(spec.knobs), 100)):
        assert space.contains(spec.knobs, spec.fixed, setting)


def test_a_variable_of_the_environment_is_a_knob() -> None:
    (*_, knob) = build(*OWN, env_knobs=("MY_POOL=1,2,4",)).knobs
    assert knob == Knob("MY_POOL", Choice((1, 2, 4)), Env(("MY_POOL",)))
    assert "is not the name of a variable" in refused(*OWN, env_knobs=("A-B=1",)).message
    taken = refused(*OWN, env_knobs=("omp_threads=1",))
    assert "there is a knob of that name" in taken.message


def test_what_changes_the_numerics_is_held_unless_it_is_named() -> None:
    words = (*OWN, "{batch_size}")
    held = build(*words, baselines=("batch_size=32",))
    assert held.fixed == Setting.of({"batch_size": 32})
    asked = build(*words, baselines=("batch_size=32",), knobs=("batch_size",))
    assert domains(asked)["batch_size"] == Choice((16, 32, 64, 128, 256))


def test_a_knob_of_the_file_may_exist_in_some_settings_only(tmp_path: Path) -> None:
    text = """
[knobs.bind_to]
values = ["none", "core"]
[knobs.amp]
switch = "--amp"
when = {bind_to = ["core"]}
"""
    spec = build(*OWN, file=toml(tmp_path, text))
    assert space.size(spec.knobs) == 3
    (amp,) = (knob for knob in spec.knobs if knob.name == "amp")
    assert amp.domain == Choice(("off", "on"))
    assert amp.route == Flag("--amp", switch=True)


BIND_TO = '[knobs.bind_to]\nvalues = ["none", "core"]\n'
SWITCH = '[knobs.a]\nswitch = "--a"\nwhen = '
B_AND_T = '[knobs.b]\nenv = "B"\nvalues = [1, 2]\n[knobs.t]\nenv = "T"\nvalues = ["1", "2"]\n'


@pytest.mark.parametrize(
    ("text", "word", "hint"),
    [
        (BIND_TO + SWITCH + '{bind = ["core"]}', "there is no knob 'bind'", "bind_to"),
        (BIND_TO + SWITCH + '{a = ["x"]}', "it depends on itself", ""),
        (BIND_TO + SWITCH + '{bind_to = ["board"]}', "it exists only if bind_to is board", ""),
        (B_AND_T + SWITCH + "{b = '1'}", "", "1 is a number there: write when = {b = 1}."),
        (B_AND_T + SWITCH + "{t = 1}", "", "'1' is a text there: write when = {t = '1'}."),
        (B_AND_T + SWITCH + "{b = [3, 4]}", "", "leave it out, or add 3 or 4 to b's values"),
        (
            '[knobs.malloc_arenas]\n[knobs.allocator]\nvalues = ["jemalloc"]',
            "malloc_arenas: it exists only if allocator is glibc",
            "leave it out, or add glibc to allocator's values",
        ),
    ],
)
def test_a_condition_that_cannot_hold(tmp_path: Path, text: str, word: str, hint: str) -> None:
    error = refused(*OWN, file=toml(tmp_path, text))
    assert word in error.message
    assert hint in error.hint


def test_the_hint_for_another_allocator_can_be_followed(tmp_path: Path) -> None:
    values = '["glibc", "/opt/libmine.so"]'
    typed = refused(*OWN, knobs=("allocator=glibc,/opt/libmine.so",))
    filed = refused(*OWN, file=toml(tmp_path, f"[knobs.allocator]\nvalues = {values}"))
    for error in (typed, filed):
        assert '[knobs.preload] env = "LD_PRELOAD" values = ["unset", "/path' in error.hint
    text = '[knobs.preload]\nenv = "LD_PRELOAD"\nvalues = ["unset", "/opt/libmine.so"]'
    (knob,) = build(*OWN, file=toml(tmp_path, text)).knobs
    assert knob.route == Env(("LD_PRELOAD",))


def test_more_conditions_than_can_be_walked(tmp_path: Path) -> None:
    def text(number: int) -> str:
        return "".join(
            f'[knobs.p{n}]\nenv="P{n}"\nvalues=[0, 1]\n[knobs.d{n}]\nenv="D{n}"\nvalues=[0, 1]\n'
            f"when={{p{n}=1}}\n"
            for n in range(number)
        )

    assert space.size(build(*OWN, file=toml(tmp_path, text(12))).knobs) == 3**12
    error = refused(*OWN, file=toml(tmp_path, text(18)))
    assert "more than 4096 parts" in error.message
    assert "(p0, p1, p2, p3, p4, p5, …), as with --fix p0=VALUE" in error.hint
    fixes = tuple(f"p{n}=1" for n in range(6))
    assert build(*OWN, file=toml(tmp_path, text(18)), fixes=fixes).knobs


def test_one_rank_a_gpu_unless_the_number_is_given() -> None:
    gpus = replace(MACHINE, gpus=("H200",) * 4)
    assert build(*OWN, machine=gpus).layout.ranks == 4
    assert build(*OWN, machine=gpus, mpi_procs=8).layout.ranks == 8


def test_num_workers_is_the_same_knob_as_iterator_workers(tmp_path: Path) -> None:
    typed = build(
        *(*OWN, "data.num_workers={num_workers}"),
        knobs=("num_workers=0..2", "omp_threads"),
        baselines=("num_workers=1",),
    )
    own = build(
        *(*OWN, "data.num_workers={iterator_workers}"),
        knobs=("iterator_workers=0..2", "omp_threads"),
        baselines=("iterator_workers=1",),
    )
    assert typed == own and typed.command[-1] == "data.num_workers={iterator_workers}"
    text = 'command = "{python} -c pass {out} {num_workers}"\n[knobs.num_workers]\nrange = "0..2"\n'
    (tmp_path / "x.toml").write_text(text)
    filed = build(file=load(tmp_path / "x.toml"))
    assert filed.command[-1] == "{iterator_workers}"
    assert "iterator_workers" in {knob.name for knob in filed.knobs}


def test_the_space_can_be_typed() -> None:
    spec = build(
        *(*OWN, "-j={iterator_workers}", "-c={communicator}", "-b", "{batch}"),
        knobs=("omp_threads=1..16", "communicator=naive,flat", "batch=32,64"),
        fixes=("iterator_workers=2",),
        baselines=("batch=48",),
    )
    assert domains(spec) == {
        "omp_threads": IntRange(1, 16),
        "opencv_threads": IntRange(1, 4),
        "bind_to": Choice((UNSET, "none")),
        "iterator_workers": Choice((2,)),
        "communicator": Choice(("naive", "flat")),
        "batch": Choice((32, 64)),
    }
    assert spec.fixed == Setting.of({"iterator_workers": 2})
    assert space.size(spec.knobs) == 16 * 4 * 2 * 2 * 2
    own = Knob("batch", Choice((32, 64)), Flag(), default=48)
    assert own in spec.knobs
    fixed = build(*OWN, "-b", "{batch}", fixes=("batch=32",))
    assert fixed.knobs[-1] == Knob("batch", Choice((32,)), Flag(), default=32)


@pytest.mark.parametrize(
    ("options", "word", "hint"),
    [
        ({"mpi_procs": 0}, "--mpi-procs 0: must be at least 1", "--help"),
        ({"trial_limit_s": "0"}, "--trial-limit 0: must be a time above 0", ""),
        ({"max_time_s": "soon"}, "--max-time soon: must be a time above 0", ""),
        ({"max_time_s": "60", "objective": "pattern:(.)"}, "--max-time 60s: a", "--trial-limit"),
        ({"budget_s": "2 weeks"}, "--budget '2 weeks'", ""),
        ({"min_gain": "0%"}, "--min-gain 0%: must be between 0 % and 100 %", ""),
        ({"trials": 0, "seed": -1}, "--seed -1", ""),
        ({"name": "a b"}, "--name 'a b'", ""),
        ({"name": ""}, "--name: must not be empty", ""),
        ({"log": "/tmp/log"}, "log '/tmp/log'", ""),
        ({"objective": "magic"}, "magic", ""),
        ({"knobs": ("omp_threads", "omp_threads=1")}, "twice", ""),
        ({"knobs": (" ",)}, "--knob is empty", ""),
        ({"knobs": ("prefetch",)}, "prefetch: nothing carries it", "{prefetch}"),
        ({"knobs": ("nccl_algo",)}, "nccl_algo: no GPU was found here", "GPU"),
        ({"knobs": ("mpich_allreduce",)}, "only MPICH reads it, and this is Open MPI", ""),
        ({"knobs": ("allocator=tcmalloc",)}, "tcmalloc is not installed here", "apt-get"),
        ({"knobs": ("huge_pages",)}, "the kernel gives them to none", "madvise"),
        ({"knobs": ("map_by",)}, "map_by: it exists only if bind_to is", "to bind_to's values"),
        (
            {"knobs": ("bind_to=none,core",), "launcher": "torchrun"},
            "bind_to: bind_to=none: torchrun has no such option",
            "under an mpirun",
        ),
        ({"knobs": ("omp_places",)}, "omp_proc_bind is close or spread", "--knob omp_proc_bind"),
        (
            {"knobs": ("omp_places",), "fixes": ("omp_proc_bind=false",)},
            "omp_proc_bind is close or spread",
            "",
        ),
        (
            {"knobs": ("ompi_btl",), "mpirun_args": ("--mca", "btl", "self,tcp")},
            "choose it: self,tcp",
            "",
        ),
        ({"knobs": ("omp_threads=",)}, "empty", ""),
        ({"knobs": ("omp_threads=4..1",)}, "reversed", "1..4"),
        ({"knobs": ("omp_threads=many",)}, "cannot be 'many': it counts from 1", ""),
        ({"knobs": ("omp_thread=1..4",)}, "--knob omp_thread:", "'omp_threads'"),
        ({"knobs": ("omp_threads=1..2", "omp_threads=1..4")}, "twice", ""),
        ({"knobs": ("omp_threads=1..2",), "fixes": ("omp_threads=1",)}, "--knob and by --fix", ""),
        ({"knobs": ("iterator_workers=1..2",)}, "nothing carries it", "{iterator_workers}"),
        ({"fixes": ("omp_threads=0",)}, "cannot be 0", ""),
        ({"fixes": ("omp_threads=1,2",)}, "more than one value", "--knob omp_threads=1,2"),
        ({"fixes": ("omp=1",)}, "--fix omp:", "omp_threads"),
        ({"baselines": ("omp_threads=1",)}, "no {omp_threads}", ""),
        ({"baselines": ("omp=1",)}, "--baseline omp:", ""),
        ({"objective": "wall", "log": "x"}, "--log x: the objective wall reads no log", ""),
        ({"samples_per_run": 0.0}, "--samples-per-run 0.0: must be a number above 0", ""),
        ({"price_per_hour": math.inf}, "--price-per-hour inf: must be a number above 0", ""),
        ({"objective": "pattern:(.)", "samples_per_run": 3.0}, "is not a time, so --samples", ""),
    ],
)
def test_a_bad_option_names_value_place_and_next_step(
    options: dict[str, Any], word: str, hint: str
) -> None:
    error = refused(*OWN, **options)
    assert word in error.message
    assert hint in error.hint


# --- the core budget -----------------------------------------------------------------------

THREADS_AND_WORKERS = (*OWN, "-j", "{iterator_workers}")


@given(
    st.integers(1, 64),
    st.sampled_from(["omp_threads", "iterator_workers", "opencv_threads"]),
    st.integers(1, 16),
)
def test_a_typed_range_is_never_cut_by_the_core_budget(high: int, name: str, ranks: int) -> None:
    spec = build(*THREADS_AND_WORKERS, knobs=(f"{name}=1..{high}",), mpi_procs=ranks)
    assert domains(spec)[name] == IntRange(1, high)
    assert spec.oversubscription is None
    assert (core_budget.most_demand(spec), core_budget.beyond(spec)) == (None, 0)
    assert core_budget.left_out(spec) == ""


@pytest.mark.parametrize(
    ("text", "options", "budget"),
    [
        ("", {}, 4.0),
        ("", {"fixes": ("communicator=naive",)}, 4.0),
        ("[knobs.omp_threads]\n", {}, 4.0),
        ('[knobs.omp_threads]\nrange = "1..64"\n', {}, None),
        ('oversubscription = 2\n[knobs.omp_threads]\nrange = "1..64"\n', {}, 2.0),
        ("oversubscription = 2", {"oversubscription": 8.0}, 8.0),
    ],
)
def test_without_a_range_of_ones_own_the_budget_is_four_times_the_cores(
    tmp_path: Path, text: str, options: dict[str, Any], budget: float | None
) -> None:
    file = toml(tmp_path, text)
    spec = build(*THREADS_AND_WORKERS, "-c={communicator}", "-b{batch}", file=file,
                 **{"knobs": ("batch=1..64",), **options})  # fmt: skip
    assert spec.oversubscription == budget


# --- what settings must meet -----------------------------------------------------------------

GRID = (*OWN, "{px}", "{py}")
GRID_KNOBS: dict[str, Any] = {
    "knobs": ("px=1,2,4", "py=1..4"),
    "baselines": ("px=4", "py=1"),
    "mpi_procs": 4,
}


def test_what_is_required_is_in_the_file_or_typed_in_its_place(tmp_path: Path) -> None:
    file = toml(tmp_path, 'require = ["px * py == ranks", "px >= 2"]')
    assert build(*GRID, file=file, **GRID_KNOBS).require == ("px * py == ranks", "px >= 2")
    spec = build(*GRID, file=file, **GRID_KNOBS, require=("px + py <= 5",))
    assert spec.require == ("px + py <= 5",)
    one = toml(tmp_path, 'require = "px * py == ranks"')
    assert build(*GRID, file=one, **GRID_KNOBS).require == ("px * py == ranks",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("px * pz == ranks", "there is no knob 'pz' in this study: px * >>>pz<<< == ranks"),
        ("px * py == 3", "the baseline (px=4 py=1) does not meet"),
        ("px * py == 99", "no setting meets --require 'px * py == 99': px is 1, 2, 4; py is 1, 2"),
        ("communicator == 'flat'", "communicator is not tuned here: the command has no"),
    ],
)
def test_what_cannot_be_required_is_refused_before_any_launch(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        build(*GRID, **GRID_KNOBS, require=(text,))
    assert message in caught.value.message
    assert caught.value.hint


# --- the command ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "options", "word", "hint"),
    [
        ((*OWN, "{communicator}"), {"knobs": ("communicator=nave",)}, "", "'naive'"),
        (("",), {}, "no command after --", ""),
        ((), {}, "no command in test", ""),
        (("sh", "a\0b", "{out}"), {}, "NUL", ""),
        ((*OWN, "{iterator_worker}"), {}, "{iterator_worker}", "'iterator_workers'"),
        (("no-such-program-here", "{out}"), {}, "'no-such-program-here' is not on PATH", ""),
        (("train.py", "{out}"), {}, "not on PATH", "python train.py"),
        (("./train.py", "{out}"), {}, "not executable", "python ./train.py"),
        (("./gone", "{out}"), {}, "does not exist", "{cwd}"),
        (("/nowhere/x", "{out}"), {}, "does not exist", ""),
        ((".", "{out}"), {}, "PATH", ""),
        (("./sub", "{out}"), {}, "is a folder", ""),
        (("{prog}", "{out}"), {"knobs": ("prog=a,b",)}, "begins with '{prog}'", ""),
        (("{python}", "gone.py", "{out}"), {}, "'gone.py'", "{cwd}"),
        (("{python}", "-X", "dev", "gone.py", "{out}"), {}, "'gone.py'", "{cwd}"),
        (("{python}", "-m", "mpi4py", "gone.py", "{out}"), {}, "'gone.py'", "{cwd}"),
        (("{python}", "/nowhere/gone.py", "{out}"), {}, "'/nowhere/gone.py'", ""),
        (("{python}", "{workloads}/chainer_mnst.py", "{out}"), {}, "'chainer_mnst.py'",
         "'chainer_mnist.py'"),
        (("mpirun", "-n", "4", "x", "{out}"), {}, "begins with mpirun", "tune -n RANKS -- python"),
        (("/opt/bin/torchrun", "x.py"), {}, "begins with torchrun", "--launcher torchrun --"),
        (("{python}", "-m", "torch.distributed.run", "x"), {}, "torchrun", "--launcher torchrun"),
    ],
)  # fmt: skip
def test_a_command_that_cannot_run_names_what_is_wrong_and_the_next_step(
    tmp_path: Path, command: tuple[str, ...], options: dict[str, Any], word: str, hint: str
) -> None:
    (tmp_path / "train.py").write_text("")
    (tmp_path / "sub").mkdir()
    error = refused(*command, cwd=tmp_path, **options)
    assert word in error.message
    assert hint.replace("{cwd}", str(tmp_path)) in error.hint


@pytest.mark.parametrize(
    "words", [("train.py",), ("-m", "other", "gone.py"), ("-c", "pass", "gone.py"), ("runner",)]
)
def test_what_is_there_or_cannot_be_known_passes(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "train.py").write_text("")
    build("{python}", *words, "--out", "{out}", cwd=tmp_path)


def test_another_path_is_another_program(tmp_path: Path) -> None:
    """The same word on another PATH must not go on with this study, nor be exported."""
    program = tmp_path / "{bin}" / "train"
    program.parent.mkdir()
    program.write_text("")
    program.chmod(0o755)
    spec = build("train", "{out}", environ={"PATH": str(program.parent)})
    assert spec.command == (str(program).replace("{", "{{").replace("}", "}}"), "{out}")
    assert spec.name == "train-n2"


def test_a_command_of_ones_own_belongs_to_its_folder(tmp_path: Path) -> None:
    """Whether or not its words name something there: `python -m mytrain` may import from it."""
    assert build(*OWN, cwd=tmp_path).folder == str(tmp_path)


def test_the_interpreter_is_kept_where_the_command_has_it() -> None:
    assert build(*OWN).interpreter == sys.executable
    assert build("sh", "-c", "true", "{out}").interpreter == ""
    file = parse(b"command = 'sh {out}'\njob = '{python} x {out}'", "x")
    assert build(file=file).interpreter == sys.executable


def test_the_path_of_the_program_finds_mpirun(tmp_path: Path) -> None:
    seen: list[str] = []

    def spy(wanted: WantedLauncher, program_path: str, environ: Mapping[str, str]) -> LauncherInfo:
        seen.append(program_path)
        return OPENMPI

    link = tmp_path / "python"
    link.symlink_to(sys.executable)
    build_spec(
        command=("python", "{out}"),
        environ={"PATH": str(tmp_path)},
        cwd=tmp_path,
        machine=MACHINE,
        find=spy,
    )
    assert seen == [str(link)]


@pytest.mark.parametrize(
    ("trainer", "module", "extra"),
    [
        ("chainer_mnist.py", "chainer", "chainer"),
        ("chainer_imagenet.py", "cv2", "chainer"),
        ("mpi_stencil.py", "mpi4py", "mpi"),
    ],
)
def test_the_shipped_trainer_says_how_to_install_what_it_needs(
    trainer: str, module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without(name: str) -> object:
        return None if name == module else object()

    monkeypatch.setattr("tuner.config.program.find_spec", without)
    error = refused("{python}", f"{{workloads}}/{trainer}", "{out}")
    assert f"needs {module}, which is not installed" in error.message
    assert f"pip install --build-constraint constraints-build.txt '.[{extra}]'" in error.hint


# --- with a study file ---------------------------------------------------------------------

FILE = """
name = "mine"
command = "{python} -c pass {out} -j {iterator_workers} 'a b'"
job = ["{python}", "-c", "long", "{out}", "-j", "{iterator_workers}"]
mpi_procs = 3
trials = 7
warm_ups = 2
seed = 5
trial_limit_s = 60
budget_s = "10m"
min_gain = "3%"
precision = "0.5 %"
oversubscription = 2
confirm = false
live = "off"
mpirun = "/a/mpirun"
mpirun_args = ["-x"]
[objective]
key = "t"
filename = "log.yaml"
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


def test_the_file_says_it_all(tmp_path: Path) -> None:
    spec = build(file=toml(tmp_path, FILE))
    assert (spec.name, spec.layout.ranks) == ("mine-n3", 3)
    assert (spec.trials, spec.warm_ups, spec.seed) == (7, 2, 5)
    assert (spec.trial_limit_s, spec.budget_s) == (60.0, 600.0)
    assert (spec.until, spec.precision) == (0.03, 0.005)
    assert (spec.oversubscription, spec.confirm, spec.live) == (2.0, "none", "off")
    assert spec.launcher == replace(OPENMPI, mpirun="/a/mpirun", extra_args=("-x",))
    assert spec.objective == ObjectiveSpec("logreport", "t", "log.yaml")
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


@pytest.mark.parametrize(
    ("values", "option", "word", "hint"),
    [
        ('["none", "weird"]', "bind_to", "bind: bind_to=weird: openmpi knows none, core", ""),
        ('["none", "cor"]', "bind_to", "bind_to=cor", "'core'"),
        ("[1, 2]", "bind_to", "bind_to=1", ""),
        ('["none"]', "bogus", "bind: launcher_option 'bogus'", "bind_to"),
        ('["none"]', "bindto", "bind: launcher_option 'bindto'", "'bind_to'"),
    ],
)
def test_options_of_the_launcher_are_checked_before_anything_runs(
    tmp_path: Path, values: str, option: str, word: str, hint: str
) -> None:
    text = f'[knobs.bind]\nvalues = {values}\nlauncher_option = "{option}"'
    error = refused(*OWN, file=toml(tmp_path, text))
    assert word in error.message
    assert hint in error.hint


def test_a_binding_of_the_users_own_is_not_tuned_as_well(tmp_path: Path) -> None:
    text = '[knobs.bind]\nvalues = ["none", "core"]\nlauncher_option = "bind_to"'
    error = refused(*OWN, file=toml(tmp_path, text), mpirun_args=("--bind-to", "core"))
    assert "say it too" in error.message


def test_the_command_line_wins(tmp_path: Path) -> None:
    options: dict[str, Any] = {
        **{"mpi_procs": 8, "trials": 9, "warm_ups": 0, "seed": 0, "trial_limit_s": 5.0},
        **{"budget_s": 7.0, "min_gain": "2%", "precision": "4%", "oversubscription": 3.0},
        **{"confirm": True, "live": "auto", "mpirun": "/b/mpirun", "mpirun_args": ("-y",)},
        **{"name": "other", "log": "log", "fixes": ("arenas=4",)},
        "knobs": ("omp_threads=1,2", "opencv_threads=1..2"),
    }
    spec = build(file=toml(tmp_path, FILE), **options)
    assert (spec.name, spec.layout.ranks, spec.trials, spec.warm_ups) == ("other", 8, 9, 0)
    assert (spec.seed, spec.trial_limit_s, spec.objective.filename) == (0, 5.0, "log")
    assert (spec.budget_s, spec.until, spec.precision) == (7.0, 0.02, 0.04)
    assert (spec.oversubscription, spec.confirm, spec.live) == (3.0, "auto", "auto")
    assert (spec.launcher.mpirun, spec.launcher.extra_args) == ("/b/mpirun", ("-y",))
    assert domains(spec)["omp_threads"] == Choice((1, 2))
    assert domains(spec)["opencv_threads"] == IntRange(1, 2)
    assert spec.fixed == Setting.of({"arenas": 4})
    assert "opencv_threads" not in dict(spec.left_out)


def test_a_typed_command_replaces_command_job_and_name(tmp_path: Path) -> None:
    spec = build("{python}", "-c", "pass", "{out}", file=toml(tmp_path, FILE))
    assert spec.job == ()
    assert spec.name == "python-n3"
    assert dict(spec.left_out)["iterator_workers"] == "the command has no {iterator_workers}"
    assert set(domains(spec)) == {"omp_threads", "arenas", "bind"}


def test_a_fix_of_the_file_yields_to_a_typed_range(tmp_path: Path) -> None:
    file = toml(tmp_path, "[knobs.omp_threads]\nfix = 2\n")
    assert build(*OWN, file=file).fixed == Setting.of({"omp_threads": 2})
    spec = build(*OWN, file=file, knobs=("omp_threads=1..2",))
    assert spec.fixed == BASELINE
    assert domains(spec)["omp_threads"] == IntRange(1, 2)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (FILE.replace('"long", "{out}", "-j", "{iterator_workers}"', '"long"'),
         "job has no {iterator_workers}"),
        (FILE.replace('"long"', '"{foo}"'), "{foo}"),
        ('command = ["{python}", "-c", "pass", "{out}"]\n'
         '[left_out]\nomp_threads = "x"\nopencv_threads = "y"\nbind_to = "z"\n',
         "nothing to tune"),
    ],
)  # fmt: skip
def test_a_file_whose_parts_do_not_go_together(tmp_path: Path, text: str, word: str) -> None:
    assert word in refused(file=toml(tmp_path, text)).message


def test_the_files_own_communicators_widen_the_known_ones(tmp_path: Path) -> None:
    text = '[knobs.communicator]\nvalues = ["hierarchical"]\nbaseline = "naive"\n'
    words, file = (*OWN, "{communicator}"), toml(tmp_path, text)
    assert domains(build(*words, file=file))["communicator"] == Choice(("hierarchical",))
    spec = build(*words, file=file, knobs=("communicator=hierarchical,naive",))
    assert domains(spec)["communicator"] == Choice(("hierarchical", "naive"))


# --- how the figure is read -----------------------------------------------------------------


def test_only_a_log_needs_its_folder_in_the_command() -> None:
    bare = ("{python}", "-c", "pass")
    error = refused(*bare)
    assert "has no {out}" in error.message
    assert "--out {out}" in error.hint and "--run-in-out" in error.hint
    assert build(*bare, objective="wall").objective.kind == "wall"
    assert build(*bare, objective="pattern:t=(.)").objective.pattern == "t=(.)"


def test_a_program_that_runs_in_its_output_folder_finds_its_files(tmp_path: Path) -> None:
    for name in ("train.py", "data/x", "train"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    words = ("train.py", "--data=data/x", "--model", "some/model", "train", "./train", "-j", "{j}")
    spec = build(sys.executable, *words, cwd=tmp_path, run_in_out=True, knobs=("j=1,2",))
    *_, env, chdir, _, script, data, option, model, task, path, _, _ = spec.command
    assert (Path(env).name, chdir) == ("env", "--chdir={out}")
    assert script == f"{tmp_path}/train.py" and data == f"--data={tmp_path}/data/x"
    assert (option, model, task) == ("--model", "some/model", "train"), "it may be no path"
    assert path == f"{tmp_path}/train"
    assert spec.name == "train-n2"


def test_words_that_are_paths_are_anchored_in_the_current_folder(tmp_path: Path) -> None:
    (tmp_path / "run.sh").touch()
    (tmp_path / "input").touch()
    words = ("run.sh", "input", "./data/{k}.bin", "--to=../{k}/x", "some/{k}")
    spec = build("bash", *words, cwd=tmp_path, run_in_out=True, knobs=("k=1,2",))
    _, _, program, *rest = spec.command
    assert Path(program).name == "bash"
    anchored = [f"{tmp_path}/run.sh", "input", f"{tmp_path}/data/{{k}}.bin"]
    assert rest == [*anchored, f"--to={tmp_path}/../{{k}}/x", "some/{k}"]
    program = "/a/" + 300 * "b"
    spec = build("awk", program, program, cwd=tmp_path, run_in_out=True)
    assert spec.command[-2:] == (program, program), "too long for a file's name"


def test_a_module_of_the_current_folder_cannot_run_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    for file in ("module.py", "package/__main__.py", "package/part.py"):
        (tmp_path / file).touch()
        name = file.removesuffix(".py").removesuffix("/__main__").replace("/", ".")
        words = (sys.executable, "-u", "-m", "mpi4py", "-m", name)
        error = refused(*words, cwd=tmp_path, run_in_out=True)
        assert f"--run-in-out: the module {name!r}" in error.message and file in error.hint
        build(*words, cwd=tmp_path, objective="wall")
    spec = build(sys.executable, "-m", "timeit", cwd=tmp_path, run_in_out=True)
    assert spec.command[-2:] == ("-m", "timeit"), "it is found wherever the program runs"
    spec = build(sys.executable, "-c", "0", "-m", "module", cwd=tmp_path, run_in_out=True)
    assert spec.command[-1] == "module"


def test_a_typed_objective_takes_the_place_of_the_files(tmp_path: Path) -> None:
    file = toml(
        tmp_path, '[objective]\nkind = "pattern"\npattern = "(a)"\nunit = "ms"\nloss_key = "l"\n'
    )
    filed = ObjectiveSpec(kind="pattern", pattern="(a)", unit="ms", loss_key="l")
    assert build(*OWN, file=file).objective == filed
    assert build(*OWN, file=file, objective="pattern").objective == filed
    other = build(*OWN, file=file, objective="pattern:(b)", maximize=True).objective
    assert other == ObjectiveSpec(kind="pattern", pattern="(b)", maximize=True, loss_key="l")
    assert build(*OWN, file=file, unit="s").objective == replace(filed, unit="s")
    assert build(*OWN, file=file, objective="wall").objective == ObjectiveSpec("wall", loss_key="l")


# --- the name of a study -------------------------------------------------------------------


def test_what_is_no_name_is_refused_with_its_place() -> None:
    for name in ("a", "mnist-n8", "3.x_y", "a" * 100):
        assert check_name(name) == name
    for name in ("", ".x", "-x", "_x", "a b", "a/b", "a\n", "é", "a" * 101):
        with pytest.raises(UsageError) as caught:
            check_name(name, "--name")
        assert f"--name {name!r}" in caught.value.message
        assert caught.value.hint


@given(st.text(max_size=80))
def test_any_text_becomes_a_name_or_nothing(text: str) -> None:
    name = as_name(text)
    assert name == "" or check_name(name) == name
    assert as_name(name) == name


# --- two knobs, one variable ------------------------------------------------------------------


def test_a_usual_knob_gives_way_to_one_of_the_users_that_sets_its_variable() -> None:
    spec = build(*OWN, env_knobs=("OMP_NUM_THREADS=1,2",))
    assert "omp_threads" not in domains(spec)
    assert dict(spec.left_out)["omp_threads"] == "the knob OMP_NUM_THREADS sets OMP_NUM_THREADS"


@pytest.mark.parametrize(
    ("options", "both"),
    [
        (
            {"env_knobs": ("MKL_NUM_THREADS=1,2",), "knobs": ("omp_threads=1..4",)},
            "omp_threads and MKL_NUM_THREADS both set MKL_NUM_THREADS",
        ),
        (
            {"env_knobs": ("OMP_NUM_THREADS=1,2",), "fixes": ("omp_threads=1",)},
            "omp_threads and OMP_NUM_THREADS both set OMP_NUM_THREADS",
        ),
    ],
)
def test_two_knobs_that_set_one_variable_are_refused(options: dict[str, Any], both: str) -> None:
    error = refused(*OWN, **options)
    assert both in error.message
    assert "keep one of them: omp_threads sets OMP_NUM_THREADS, " in error.hint


def test_knobs_of_one_variable_that_no_setting_has_together_are_two_knobs(tmp_path: Path) -> None:
    text = """
    [knobs.allocator]
    [knobs.few]
    env = "ARENAS"
    values = [1, 2]
    when = {allocator = "glibc"}
    [knobs.many]
    env = "ARENAS"
    values = [8, 9]
    when = {allocator = "jemalloc"}
    """
    spec = build(*OWN, file=toml(tmp_path, text))
    assert {"few", "many"} <= domains(spec).keys()


# --- Slurm ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tasks", "options", "ranks", "oversubscribed"),
    [("4", {}, 4, False), ("8", {}, 8, True), ("4", {"mpi_procs": 2}, 2, False),
     ("1", {"mpi_procs": 2}, 2, True), ("", {}, 2, False)],
)  # fmt: skip
def test_one_node_of_slurm_has_a_rank_a_task(
    tasks: str, options: dict[str, Any], ranks: int, oversubscribed: bool
) -> None:
    slurm = {"SLURM_JOB_ID": "1", "SLURM_JOB_NODELIST": "host", "SLURM_TASKS_PER_NODE": tasks}
    layout = build(*OWN, environ={"PATH": "/usr/bin:/bin", **slurm}, **options).layout
    assert (layout.ranks, layout.oversubscribed) == (ranks, oversubscribed)
