"""``tuner.tune`` from plain arguments: what it returns, shows and refuses."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy
import pytest

import tuner
from tests.json_schema import check
from tests.light_trainer import make_folder
from tests.study_surface import SPEC
from tuner.model import Choice, IntRange
from tuner.study.events import Event, StudyEnded

COMMAND = [sys.executable, "train.py", "--out", "{out}", "-j", "{iterator_workers}"]
RATE = {"kind": "pattern", "pattern": "([0-9.]+) it", "unit": "it/s"}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The current folder, with the trainer in it."""
    monkeypatch.chdir(make_folder(tmp_path / "here"))
    monkeypatch.setenv("TUNE_LOCK_DIR", str(tmp_path))
    for name in ("TUNE_STORAGE", "TUNE_MPIRUN", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.system
def test_a_study_prints_nothing_and_gives_its_result(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def again(**more: Any) -> tuner.TuneResult:
        return tuner.tune(
            COMMAND,
            mpi_procs=2,
            knobs={"omp_threads": range(1, 3), "iterator_workers": "1..3", "malloc_arenas": [1, 2]},
            name="plain",
            trials=2,
            warm_ups=0,
            confirm="none",
            storage=Path("own.db"),
            **more,
        )

    result = again()
    assert capfd.readouterr() == ("", "")
    domains = {knob.name: knob.domain for knob in result.view.spec.knobs}
    assert domains == {
        "omp_threads": IntRange(1, 2),
        "iterator_workers": IntRange(1, 3),
        "malloc_arenas": Choice((1, 2)),
    }
    assert result.view.spec.layout.ranks == 2
    assert result.study.study_name == result.name == "plain"
    made = [trial for trial in result.study.trials if "launch" in trial.user_attrs]
    tried = [trial for trial in made if trial.user_attrs.get("purpose") != "simplify"]
    assert len({str(trial.params) for trial in tried}) == result.trials == 2
    assert all(trial.params.keys() == domains.keys() for trial in tried)
    assert "not confirmed" in result._repr_html_()
    check(json.loads(result.to_json()))  # what `tune --json` prints

    events: list[Event] = []
    assert again(progress=True, on_event=events.append) == result  # nothing is left to do
    assert isinstance(events[-1], StudyEnded)
    assert re.search("plain .* 100%", capfd.readouterr().err)
    notebook = SimpleNamespace(config={"IPKernelApp": {}})
    with monkeypatch.context() as patch, pytest.warns(UserWarning, match="pip install ipywidgets"):
        patch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: notebook))
        patch.setitem(sys.modules, "ipywidgets", None)
        assert again() == result

    with Path("train.py").open("a") as file:
        file.write("# an edit that does not bear on the times")
    with pytest.raises(tuner.TunerError, match=r"edited train\.py since the study") as caught:
        again()
    assert caught.value.hint.endswith("add same_program=True")
    assert again(same_program=True) == again() == result


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"trails": 3}, "trails: unknown key. Did you mean 'trials'?"),
        ({"mpi_procs": 0, "trials": "x"}, "mpi_procs: must be .*, is 0.\ntrials: must be a whole"),
        ({"knobs": {"omp_threads": numpy.array([1, 2])}}, "omp_threads.values: .*int64"),
        ({"knobs": {"omp_thread": range(1, 3)}}, "knobs.omp_thread: nothing carries it"),
        ({"mpi_procs": 8, "ppn": 4}, "^mpi_procs=8 with ppn=4 needs other hosts"),
        ({"global_batch": 3}, "there is global_batch=3, but no {batch_per_rank}"),
        ({"hosts": "h1:2", "hostfile": "h"}, "^hosts and hostfile both name hosts"),
        ({"name": "a b"}, "^name='a b' is not a name"),
        ({"launcher": "none", "hosts": "h1"}, '^launcher="none" starts .* and hosts names hosts'),
        ({"knobs": {"omp_threads": [0.5]}}, r"knobs.omp_threads.values: .* is \[0.5\]"),
    ],
)
def test_a_wrong_argument_is_named_with_its_value(given: dict[str, Any], said: str) -> None:
    with pytest.raises(tuner.TunerError, match=said.replace("()", r"\(\)")) as caught:
        tuner.tune(COMMAND, **given)
    assert caught.value.__notes__ == [caught.value.hint]


@pytest.mark.parametrize(
    ("command", "given", "said"),
    [
        ("", {}, "no command in tune()\nfor example: python train.py --out {out}"),
        ("{python} train.py", {}, 'run_in_out=True, and objective={"filename": "result/log"}, say'),
        ("{python} train.py", {}, "objective=\"wall\", or objective='pattern:REGEX'"),
        ("x {batch_per_rank} {out}", {}, "no global_batch\nthey go together: global_batch=256"),
        ("{python} {out} -x {foo}", {}, 'its values: knobs={"foo": "1..8"}. Write'),
        ("{python} {out} -x {foo}", {}, "batch_per_rank, omp_threads"),  # ranks only once
        ("mpirun ./x", {}, ": tune -n RANKS -- python train.py …\nArguments"),
        (COMMAND, {"objective": RATE}, 'Add objective={"maximize": True}; if'),
        (COMMAND, {"trials": "x"}, "is 'x'.\nhelp(tuner.tune) says"),
        (COMMAND, {"hosts": "h1:2", "mpi_procs": 8}, "more_ranks_than_slots=True runs"),
        (Path("nope.toml"), {}, "nope.toml cannot be read: No such file or directory\n\n"),
    ],
)
def test_an_error_speaks_of_arguments(command: Any, given: dict[str, Any], said: str) -> None:
    with pytest.raises(tuner.TunerError) as caught:
        tuner.tune(command, **given)
    assert said in f"{caught.value.message}\n{caught.value.hint}\n"


def test_a_spec_takes_no_options() -> None:
    with pytest.raises(tuner.TunerError, match="a StudySpec takes no trials"):
        tuner.tune(SPEC, trials=5)
