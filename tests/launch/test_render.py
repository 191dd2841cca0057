"""Whole argv tuples, and placeholders of command templates: what is run is what is written here."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.host_files import plant
from tests.light_trainer import captured
from tests.study_surface import SPEC
from tuner.config.study_file import find_study_file, study_of
from tuner.knobs import knob
from tuner.launch import command, render
from tuner.launch.command import shipped_dir
from tuner.launch.launchers import ssh_wrapper, wrapper_argv
from tuner.model import (
    BASELINE,
    Choice,
    Flag,
    IntRange,
    Knob,
    Launch,
    LauncherInfo,
    Layout,
    Setting,
    StudySpec,
)
from tuner.model.errors import UsageError

OMP = knob("omp_threads")
WORKERS = knob("iterator_workers")
COMMUNICATOR = knob("communicator")
THREE = Setting.of([("omp_threads", 1), ("iterator_workers", 2), ("communicator", "naive")])


def spec_of(command: tuple[str, ...], *knobs: Knob) -> StudySpec:
    return replace(SPEC, command=command, layout=Layout(8), knobs=knobs, trial_limit_s=60.0)


def shipped() -> StudySpec:
    file, _ = find_study_file("chainer_mnist", cwd=Path("/"))
    study = study_of(file or {})
    return replace(spec_of(study.command, OMP, WORKERS, COMMUNICATOR), job=study.job)


def ranks(spec: StudySpec, setting: Setting) -> tuple[str, ...]:
    return render.rank_argv(spec, setting, out="O", wrapper=("W",), template=spec.command)


TRAINER = (sys.executable, "-m", "mpi4py", str(shipped_dir("workloads") / "chainer_mnist.py"))
LIBRARIES = ("OMP", "OPENBLAS", "MKL", "BLIS", "NUMEXPR")
ONE_THREAD = tuple(f"{library}_NUM_THREADS=1" for library in LIBRARIES)


def test_a_whole_launch_under_open_mpi(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    folder, here = Path("/data/trial 3"), Path("/here")
    environ = {"HOME": "/h", "PYTHONPATH": "/mine", "OMP_NUM_THREADS": "7"}
    launch = render.launch(shipped(), THREE, folder, environ=environ, cwd=here, marker="abc")
    assert launch.argv == (
        "/opt/mpi/bin/mpirun",
        *("-n", "8"),
        *wrapper_argv(),
        *ONE_THREAD,
        "--",
        *TRAINER,
        *("--benchmark", "--out", "/data/trial 3/out"),
        *("--loaderjob", "2", "--communicator", "naive"),
    )
    assert (launch.cwd, launch.folder, launch.limit_s) == (here, folder, 60.0)
    assert launch.out_dir == folder / "out"
    assert launch.env["TUNE_TRIAL"] == "abc"
    assert launch.env["TUNE_PROBE_DIR"] == "/data/trial 3/probe"
    assert launch.env["PYTHONPATH"].endswith("wrappers/probe:/mine")
    # The user's environment is untouched: the setting goes through the wrapper alone.
    assert (launch.env["HOME"], launch.env["OMP_NUM_THREADS"]) == ("/h", "7")
    job = render.rank_argv(shipped(), THREE, out="O", wrapper=("W",), template=shipped().job)
    assert job[: len(ONE_THREAD) + 2] == ("W", *ONE_THREAD, "--")
    assert job[-6:] == ("--out", "O", "--loaderjob", "2", "--communicator", "naive")


def test_a_whole_launch_on_several_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    info = LauncherInfo("openmpi", "/opt/mpi/bin/mpirun", "5.0.11", "/opt/mpi/lib/libmpi.so.40")
    spec = replace(
        spec_of(("prog", "{out}"), OMP),
        launcher=replace(info, ssh=("ssh", "-F", "config")),
        layout=Layout(3, ("h1", "h2"), (2, 1)),
    )

    def launched(**environ: str) -> Launch:
        folder = Path("/data/trial")
        return render.launch(spec, THREE, folder, environ=environ, cwd=Path("/"), marker="abc.7")

    launch = launched(HOME="/h")
    # ssh carries no variable there, and nothing of ours is installed there.
    assert launch.argv == (
        *("/opt/mpi/bin/mpirun", "--host", "h1:2,h2:1"),
        *("--prtemca", "plm_ssh_agent", " ".join(ssh_wrapper()[0])),
        *("-n", "3"),
        *("env", "MPI4PY_LIBMPI=/opt/mpi/lib/libmpi.so.40"),
        *(f"{name}={launch.env[name]}" for name in ("PYTHONPATH", "TUNE_PROBE_DIR")),
        "TUNE_LIVE_FILE=/dev/shm/tune-abc/7/live.json",
        *("TUNE_TRIAL=abc.7", *ONE_THREAD, "prog", "/data/trial/out"),
    )
    assert launch.env["PYTHONPATH"] == "/dev/shm/tune-abc/code/wrappers/probe"
    assert launch.env["TUNE_TRIAL"] == "abc.7"
    assert launch.env["TUNE_SSH"] == "ssh -F config"
    # Slurm starts what is on other nodes itself, with the whole environment.
    assert "TUNE_SSH" not in launched(SLURM_JOB_ID="7").env


def test_an_option_of_the_knob_is_appended_unless_it_has_a_placeholder() -> None:
    j, k = Knob("j", IntRange(1, 4), Flag("-j")), Knob("k", IntRange(1, 4), Flag("--kk="))
    setting = Setting.of({"j": 2, "k": 3})
    spec = spec_of(("prog", "x"), j, k)
    assert ranks(spec, setting) == ("W", "--", "prog", "x", "-j", "2", "--kk=3")
    assert ranks(spec, BASELINE) == ("W", "--", "prog", "x")
    assert render.arguments(spec, setting) == ("-j", "2", "--kk=3")
    spec = spec_of(("prog", "--threads={omp_threads}", "-n", "{j}"), OMP, j)
    setting = Setting.of({"omp_threads": 4, "j": 2})
    assert ranks(spec, setting) == ("W", "--", "prog", "--threads=4", "-n", "2")
    assert render.assignments(spec, setting) == ((), {})
    assert render.arguments(spec, setting) == ("--threads=4", "-n", "2")


def test_a_switch_has_its_option_or_none() -> None:
    amp = Knob("amp", Choice(("off", "on")), Flag("--amp", switch=True))
    on, off = Setting.of({"amp": "on"}), Setting.of({"amp": "off"})
    for template in (("prog",), ("prog", "--amp", "{amp}"), ("prog", "--amp={amp}")):
        spec = spec_of(template, amp)
        assert ranks(spec, on) == ("W", "--", "prog", "--amp")
        assert ranks(spec, off) == ranks(spec, BASELINE) == ("W", "--", "prog")
    with pytest.raises(UsageError, match="it is an option without a value"):
        ranks(spec_of(("prog", "x{amp}"), amp), on)


@pytest.mark.parametrize(
    "token", ["{", "}", "{}", "{a b}", '{"a":1}', "{1}", "{{{", "x}y", "{a!r}"]
)
def test_a_stray_brace_is_told_with_the_way_to_write_one(token: str) -> None:
    with pytest.raises(UsageError) as caught:
        command.names_in(token)
    assert repr(token) in caught.value.message and "{{" in caught.value.hint


def test_knobs_are_seen_among_doubled_and_other_braces() -> None:
    template = ('{{"a":{a}}}', "{{b}}", "{print} {", "{c} {out} {a}")
    assert command.knobs_in(template) == ("a", "print", "c")


VALUES = {"out": "o", "n": "2"}


@pytest.mark.parametrize(
    ("template", "filled"),
    [
        (("p", "-j", "{n}", "{out}"), ("p", "-j", "2", "o")),
        (("p", "-j", "{gone}", "x"), ("p", "x")),
        (("p", "--jobs={gone}", "-j{gone}", "x"), ("p", "x")),
        (("p", "--quiet", "--jobs={gone}"), ("p", "--quiet")),
        (("p", "{{x}}", "--text=two {gone}"), ("p", "{x}")),
        (("bash", "-c", './p "$@"', "p", "-j", "{gone}"), ("bash", "-c", './p "$@"', "p")),
        (("bash", "-c", "exec ./p {n} {out}"), ("bash", "-c", "exec ./p 2 o")),
    ],
)
def test_what_is_not_set_is_left_out(template: tuple[str, ...], filled: tuple[str, ...]) -> None:
    assert command.substitute(template, VALUES) == filled


@pytest.mark.parametrize(
    "template",
    [
        ("bash", "-c", "exec ./p {out} {gone}" + " x" * 100),
        ("p", "--flags", "-a -j{gone}"),
        ("p", "{gone}"),
        ("p", "--a=b", "{gone}"),
    ],
)
def test_a_placeholder_alone_or_in_a_script_needs_a_default(template: tuple[str, ...]) -> None:
    with pytest.raises(UsageError) as caught:
        command.substitute(template, VALUES)
    assert "{gone}" in caught.value.message and len(caught.value.message) < 160
    assert "--baseline gone=VALUE" in caught.value.hint
    assert len(command.substitute(template, {**VALUES, "gone": "1"})) == len(template)


#: Two GPUs on two sockets.
GPUS = {
    "proc/driver/nvidia/gpus/0000:1b:00.0/information": "GPU UUID: \t GPU-a1\n",
    "proc/driver/nvidia/gpus/0000:b1:00.0/information": "GPU UUID: \t GPU-b2\n",
    "sys/bus/pci/devices/0000:1b:00.0/local_cpulist": "0-15\n",
    "sys/bus/pci/devices/0000:b1:00.0/local_cpulist": "16-31\n",
}


@pytest.mark.parametrize(
    ("values", "environ", "words"),
    [
        ({"mem_bind": "unset", "gpu_bind": "unset"}, {}, ""),
        ({"mem_bind": "local"}, {}, "numactl --localalloc"),
        ({"mem_bind": "interleave", "gpu_bind": "near"}, {"OMPI_COMM_WORLD_LOCAL_RANK": "1"},
         "taskset -c 16-31 numactl --interleave=all"),
        ({"gpu_bind": "near"}, {"MPI_LOCALRANKID": "2"}, "taskset -c 0-15"),
        ({"gpu_bind": "near"}, {"SLURM_LOCALID": "0", "CUDA_VISIBLE_DEVICES": "1, 0"},
         "taskset -c 16-31"),
        ({"gpu_bind": "near"}, {"SLURM_LOCALID": "1", "CUDA_VISIBLE_DEVICES": "GPU-b2,GPU-a1"},
         "taskset -c 0-15"),
        ({"gpu_bind": "near"},
         {"SLURM_LOCALID": "0", "TORCHELASTIC_RUN_ID": "x", "LOCAL_RANK": "1", "gpu": "mine"},
         "taskset -c 16-31"),
    ],
)  # fmt: skip
def test_memory_and_cores_are_bound_by_words_before_the_program(
    tmp_path: Path, values: dict[str, str], environ: dict[str, str], words: str
) -> None:
    fake = '#!/bin/sh\nprintf "%s " {} "$1" {}\nshift {}\nexec "$@"\n'
    tools = {"numactl": fake.format("numactl", "", 1), "taskset": fake.format("taskset", '"$2"', 2)}
    plant(tmp_path, {**GPUS, **tools})
    for name in tools:
        (tmp_path / name).chmod(0o755)
    spec = spec_of(("/bin/sh", "-c", "echo $gpu"), knob("gpu_bind"), knob("mem_bind"))
    argv = render.rank_argv(
        spec, Setting.of(values), out="O", wrapper=wrapper_argv(), template=spec.command
    )
    for folder in ("/proc/", "/sys/"):
        argv = tuple(word.replace(folder, f"{tmp_path}{folder}") for word in argv)
    done = captured(argv, tmp_path, {"PATH": f"{tmp_path}:/usr/bin:/bin", **environ})
    assert done.stdout.split() == [*words.split(), *environ.get("gpu", "").split()]
