"""What users type: study files, names, options."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from typing import Any

from tests.parsers.strategies import DEEP, HEX, LONG, holds, texts, trees
from tests.study_surface import MACHINE
from tuner.config import knob_selection, study_file
from tuner.config.applicability import TargetHost
from tuner.config.options import OPTIONS
from tuner.config.spec import check_command
from tuner.hosts.machine import HostFeatures
from tuner.knobs import space
from tuner.launch import render
from tuner.launch.command import shipped_dir
from tuner.model import BASELINE, LauncherInfo, Layout, StudySpec
from tuner.model.errors import UsageError

_LAUNCHER = LauncherInfo("openmpi", "/opt/mpi/bin/mpirun", "5.0.11")
_FEATURES = HostFeatures({"jemalloc": "/usr/lib/libjemalloc.so.2"}, glibc=(2, 36))

_STUDIES: list[dict[str, Any]] = [
    {
        **{"name": "mnist", "command": "python train.py --out {out} -j {iterator_workers}"},
        **{"mpi_procs": 8, "budget_s": "10m", "min_gain": "1%", "confirm": False, "seed": 0},
        **{"launcher": "torchrun", "mpirun_args": ["--mca", "pml", "ob1"]},
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
        },
    },
]


def toml(tree: Any) -> bytes:
    """A tree as TOML; what TOML does not have (``null``) is written as JSON does."""

    def value(inner: Any) -> str:
        if isinstance(inner, dict):
            return "{" + ", ".join(f"{value(str(k))} = {value(v)}" for k, v in inner.items()) + "}"
        if isinstance(inner, list):
            return "[" + ", ".join(map(value, inner)) + "]"
        return repr(inner) if isinstance(inner, float) else json.dumps(inner)

    if not isinstance(tree, dict):
        return value(tree).encode()
    return "\n".join(f"{value(str(key))} = {value(item)}" for key, item in tree.items()).encode()


@holds(
    trees(*_STUDIES, dump=toml)
    | texts(*[path.read_bytes() for path in sorted(shipped_dir("studies").glob("*.toml"))]),
    b"trials = " + LONG,
    b"command = [" + HEX + b"]",
    b'command = "a {out}"\ntrials = ' + HEX,
    b"[knobs.omp_threads]\nvalues = [" + HEX + b"]",
    b"command = " + DEEP,
    b'command = "a {out}"\noversubscription = 1' + b"0" * 400,
    b"budget_s = 1979-05-27T07:32:00Z\n[knobs.omp_threads]\nfix = 07:32:00",
    b'[knobs.e]\nvalues = ["\\u0000", "\\u0000"]\nflag = "--e"',
    b'command = "a {out}"\n[objective]\nkind = "\\u0000"',
)
def test_a_study_file_through_all_that_is_done_before_the_first_launch(data: bytes) -> None:
    try:
        file = study_file.parse(data, "tune.toml")
    except UsageError as error:
        assert error.message.strip()
        return
    try:
        filed = study_file.study_of(file)
        command_ = filed.command or ("python", "{out}")
        check_command(command_, "here")
        chosen = knob_selection.select(filed, {}, command_, is_typed=False)
        values = {option.field: filed.option(option.key) for option in OPTIONS if option.field}
        assert all(math.isfinite(value) for value in values.values() if isinstance(value, float))
        knob_selection.check_job(filed.job, chosen, "here")
        ranks = filed.option("mpi_procs")
        layout = Layout(ranks if isinstance(ranks, int) else 2)  # a text lists several
        host = TargetHost(MACHINE, layout, _LAUNCHER, _FEATURES)
        knobs, _ = knob_selection.applying(chosen, host)
        spec = StudySpec(
            "s", command_, _LAUNCHER, layout, MACHINE, knobs, fixed=chosen.fixed, **values
        )
        assert space.size(spec.knobs) >= 1
        for setting in (BASELINE, *space.guesses(spec)):
            assert setting.is_baseline or space.contains(spec.knobs, spec.fixed, setting)
            with suppress(UsageError):  # a placeholder that cannot be left out
                words = render.rank_argv(
                    spec, setting, out="/out", wrapper=("w",), template=spec.command
                )
                assert not any("\0" in word for word in words), "no program can be given a NUL"
    except UsageError as error:
        assert error.message.strip() and len(error.message) < 50_000
        assert not set(error.message) & set("\0\x1b\r\x9b"), "an error that moves the cursor"
        error.message.encode()
