"""What users type: study files, names, options."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tests.parsers.strategies import DEEP, HEX, LONG, holds, texts, trees
from tests.study_samples import SPEC, study
from tests.study_surface import MACHINE
from tuner.config import hosts, knob_selection, study_file
from tuner.config.applicability import TargetHost
from tuner.config.options import OPTIONS
from tuner.config.spec import check_command
from tuner.hosts.machine import HostFeatures
from tuner.knobs import space
from tuner.launch import render
from tuner.launch.command import shipped_dir
from tuner.model import BASELINE, JsonDict, LauncherInfo, Layout, StudySpec
from tuner.model.errors import TunerError, UsageError, shown
from tuner.results.compared_studies import compare, read
from tuner.results.exporters.json import dumps, export

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


def check_study(file: Any, typed: dict[str, Any], template: tuple[str, ...] | None) -> None:
    """A study through all that is done before the first launch."""
    try:
        filed = study_file.study_of(file)
        command_ = template or filed.command or ("python", "{out}")
        check_command(command_, "here")
        chosen = knob_selection.select(filed, typed, command_, is_typed=template is not None)
        values = {option.field: filed.option(option.key) for option in OPTIONS if option.field}
        assert all(math.isfinite(value) for value in values.values() if isinstance(value, float))
        knob_selection.check_job(filed.job, chosen, "here")
        layout = Layout(filed.option("mpi_procs") or 2)
        knobs, _ = knob_selection.applying(
            chosen, TargetHost(MACHINE, layout, _LAUNCHER, _FEATURES)
        )
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
def test_a_study_file(data: bytes) -> None:
    try:
        file = study_file.parse(data, "tune.toml")
    except UsageError as error:
        assert error.message.strip()
        return
    check_study(file, {}, None)


@holds(
    texts(
        b"k omp_threads=1..16\nk a=1,2,4\nf iterator_workers=2",
        b"k omp_threads=unset,1,2\nk communicator=naive,flat\nd a=3\nf a=-3",
        words="k f d .. cores opencv_threads 1..10000000000000 +1",
    ),
    b"k a=" + LONG,
    b"f a=" + LONG,
    b"k omp_threads=1.." + b"9" * 30,
    b"k a=1,1" + b"0" * 400,
    "k a=²\nf omp_threads=٣".encode(),
    b"k a=1\nk a=2",
    b"k \xffomp_threads=1..16",  # a byte that is no text, in a message
    b"k omp_threads=1.\xff.16",
)
def test_knob_options(data: bytes) -> None:
    """``--knob``, ``--fix`` and ``--baseline`` (``k``, ``f``, ``d``), a line each."""
    lines = data.replace(b"\0", b"").decode("utf-8", "surrogateescape").split("\n")
    given_ = {kind: tuple(x[2:] for x in lines if x.startswith(f"{kind} ")) for kind in "kfd"}
    typed = {"knobs": given_["k"], "fixes": given_["f"], "baselines": given_["d"]}
    template = ("python", "train.py", "--out", "{out}", "-j", "{iterator_workers}", "--a={a}")
    check_study({}, typed, template)


def test_what_an_error_shows_is_short_and_moves_no_cursor() -> None:
    assert shown(4) == "4" and shown("a'b") == '"a\'b"'
    assert shown(int("f" * 4000, 16)) == "a very long number"
    assert len(shown([[list(range(100))] * 100] * 100)) < 130
    error = TunerError("a\x1b[2Jb\r\x9bc\u202ed\0", "x\x7fy\tz\nw")
    assert error.message == str(error) == r"a\x1b[2Jb\r\x9bc\u202ed\x00"
    assert error.hint == "x\\x7fy\tz\nw"


_HOSTFILES = (
    b"# ours\nh1 slots=2 max_slots=4\nh2 slots=4 # fast\n",
    b"h1:2\nnode-2.example.org:4\n10.0.0.1:1\n",
    b"h1\nh1\nh2\n",
)


@holds(
    texts(
        *_HOSTFILES,
        b"n[08-10,2]x,login",
        b"n[8-9,8-9]",
        b"h1:4,h2:4",
        b"2(x3),1",
        words="slots cpu -x @",
    )
)
def test_where_ranks_run(data: bytes) -> None:
    text = data.decode(errors="replace")
    slurm = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": text}
    tasks = {**slurm, "SLURM_JOB_NODELIST": "n[1-4]", "SLURM_TASKS_PER_NODE": text}
    readers: tuple[Callable[[], tuple[hosts.Offer, ...]], ...] = (
        lambda: hosts.parse_hostfile(text, "a hostfile"),
        lambda: hosts.parse_hosts(text),
        lambda: hosts.from_slurm(slurm),
        lambda: hosts.from_slurm(tasks),
    )
    for reader in readers:
        try:
            offers = reader()
        except UsageError as error:
            assert error.message.strip() and error.hint and len(error.message) < 50_000
            continue
        if not offers:
            continue
        for ranks in (1, 7, None):
            with suppress(UsageError):
                layout = hosts.place(offers, source="here", ranks=ranks, oversubscribe=True)
                assert layout.ranks == sum(number for _, number in layout.slots)
                assert all(number > 0 for _, number in layout.slots)
                assert set(layout.hosts) <= {offer.name for offer in offers}
                assert not any(set(name) & set(" ,:\n") or name[0] == "-" for name in layout.hosts)


_EXPORT = json.loads(export(study({BASELINE: 8.316}, SPEC)).text)
#: Without what is not read, so that more of the changes are of what is.
_LAUNCH: JsonDict = {"setting": {}, "samples": [{"figure": 8.4}], "window": None, "counts_for": {}}
_LAUNCH |= {"purpose": "confirm", "observation": {"ranks": [{"packages": [["numpy", "2.0"]]}]}}
_RESULT = {key: _EXPORT["result"][key] for key in ("unit", "direction", "best")}
_READ = _EXPORT | {"result": _RESULT, "launches": [_LAUNCH]}


@holds(trees(_READ) | texts(json.dumps(_READ).encode()), DEEP, LONG)
def test_an_export_of_another_host(data: bytes) -> None:
    other = read("other.json", json.dumps(_EXPORT))
    try:
        typed = read("main.json", data.decode(errors="replace"))
        pair = compare(typed, other), compare(other, typed)
    except UsageError as error:
        assert error.message.strip() and error.hint and len(error.message) < 50_000
        return
    for comparison in pair:
        verdict = comparison.verdict(0.05)
        assert json.loads(dumps(comparison.json(0.05)))["verdict"] == verdict
        assert all(math.isfinite(row.gain.ratio) for row in comparison.rows)
