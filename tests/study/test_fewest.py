"""The fewest changes: the setting that is handed over changes what matters, and nothing else."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from tests.study_surface import CONFIRMED, played
from tuner.knobs.space import contains_part, points
from tuner.model import UNSET, Choice, Conclusion, Env, Flag, IntRange, Knob, Setting, StudyState
from tuner.results import claims
from tuner.results.exporters import exporter_for
from tuner.results.study_view import StudyView
from tuner.study.fewest import MOST_LAUNCHES
from tuner.study.findings import build
from tuner.study.history import History
from tuner.study.policy import SearchThenConfirm

Time = Callable[[Setting], float]

NSTLIST = Knob("nstlist", Choice((10, 20, 40, 60)), Flag("-nstlist"))
OMP = Knob("omp_threads", IntRange(1, 2), Env(("OMP_NUM_THREADS",)))
OPENCV = Knob("opencv_threads", IntRange(1, 2), Env(("OPENCV_FOR_THREADS_NUM",)))

SPEC = replace(CONFIRMED, command=("md", "{out}"), knobs=(OMP, OPENCV, NSTLIST), trials=50)


def one_matters(setting: Setting) -> float:
    return {20: 2.0, 40: 1.3, 60: 1.0}.get(int(setting.as_dict().get("nstlist", 10)), 3.0)


def two_matter(setting: Setting) -> float:
    return one_matters(setting) * (1.0 if setting.as_dict().get("omp_threads") == 1 else 1.5)


def noisy(time_s: Time, seed: int = 0) -> Time:
    rng = Random(seed)
    return lambda setting: time_s(setting) * math.exp(0.02 * rng.gauss(0, 1))


def view(history: History) -> StudyView:
    best = SearchThenConfirm().best(history)
    found = build(history, "", StudyState.FINISHED, "", best)
    return StudyView(history.spec, found, history.records, history.pooling)


def said(data: StudyView) -> dict[str, str]:
    return {c.knob: claims.contribution(c, data.spec.precision) for c in data.contributions}


@pytest.mark.parametrize(
    ("time_s", "kept"),
    [(one_matters, {"nstlist": 60}), (two_matter, {"nstlist": 60, "omp_threads": 1})],
)
def test_what_is_confirmed_and_exported_changes_only_what_matters(
    time_s: Time, kept: dict[str, int]
) -> None:
    history = played(SPEC, noisy(time_s))
    assert len(history.simplifying) <= MOST_LAUNCHES
    data = view(history)
    assert data.result.conclusion is Conclusion.FASTER
    assert data.result.export == data.best_setting == Setting.of(kept)
    assert {r.setting for r in history.confirming} == {Setting.of(kept), Setting()}
    assert json.loads(exporter_for("json")(data).text)["best"]["setting"] == kept


def test_each_knob_says_what_it_alone_contributes() -> None:
    history = played(replace(SPEC, confirm="none"), noisy(one_matters))
    by_knob = {each.knob: each for each in view(history).contributions}
    assert by_knob["nstlist"].value == 60
    assert by_knob["nstlist"].high is not None
    assert 2 < by_knob["nstlist"].low < 3 < by_knob["nstlist"].high < 4
    assert said(view(history))["omp_threads"].startswith("no effect seen (0.9")
    assert by_knob["omp_threads"].value is None, "left as it is"
    confirmed = said(view(played(SPEC, noisy(one_matters))))
    assert "times (2." in confirmed["nstlist"], "as the launches in turn prove"


def test_of_settings_that_are_equal_the_one_with_fewer_changes_is_best() -> None:
    """A value that is known to change nothing needs no launch of its own."""
    wait = Knob("wait", Choice((UNSET, "active")), Env(("OMP_WAIT_POLICY",)), neutral=UNSET)
    batch = Knob("batch", IntRange(1, 3), Flag("-b"), default=2)
    spec = replace(SPEC, knobs=(NSTLIST, wait, batch))

    def nearly_equal(setting: Setting) -> float:
        chosen = setting.as_dict()
        helps = 0.002 * (chosen.get("wait") == "active") + 0.002 * (chosen.get("batch") == 3)
        return one_matters(setting) * (1 - helps)

    history = played(spec, nearly_equal)
    assert history.simplifying == (), "it was measured already"
    data = view(history)
    assert data.best_setting == Setting.of({"nstlist": 60})
    # the user's own variable is what the baseline runs with: to remove it is a change
    own = replace(spec, environment=(("OMP_WAIT_POLICY", "passive"),))
    kept = view(played(own, lambda s: nearly_equal(s) * (1 if s.as_dict().get("wait") else 1.5)))
    assert kept.best_setting.as_dict()["wait"] in (UNSET, "active")


def test_what_the_user_fixed_and_what_the_command_needs_is_never_left_out() -> None:
    fixed = replace(SPEC, fixed=Setting.of({"omp_threads": 2}))
    held = view(played(fixed, noisy(one_matters)))
    assert held.best_setting == Setting.of({"nstlist": 60, "omp_threads": 2})
    single = replace(OMP, domain=IntRange(1, 1))
    asked = view(played(replace(SPEC, knobs=(single, OPENCV, NSTLIST)), noisy(one_matters)))
    assert asked.best_setting == Setting.of({"nstlist": 60, "omp_threads": 1})
    assert "omp_threads" not in {each.knob for each in asked.contributions}, "it is not tuned"
    script = replace(SPEC, command=("sh", "-c", "md -t {omp_threads} > {out}/log"))
    names = {name for name, _ in view(played(script, noisy(one_matters))).best_setting.items}
    assert names == {"nstlist", "omp_threads"}


def test_a_knob_that_depends_on_one_that_is_left_out_goes_with_it() -> None:
    bind = Knob("bind", Choice(("close", "spread", "off")), Env(("OMP_PROC_BIND",)))
    when = (("bind", ("close", "spread")),)
    places = Knob("places", Choice(("cores", "sockets")), Env(("OMP_PLACES",)), when=when)
    batch = Knob("batch", IntRange(1, 2), Flag("-b"), default=2, when=when)
    spec = replace(SPEC, knobs=(NSTLIST, bind, places, batch), seed=1)
    history = played(spec, noisy(one_matters))
    assert view(history).best_setting == Setting.of({"nstlist": 60})
    known = SearchThenConfirm().fewest(history)
    assert known is not None
    for setting in points(spec.knobs):
        for name in setting.as_dict():
            left = known.without(setting, {name})
            assert contains_part(spec.knobs, Setting(), left)
            assert known.without(left, {name}) == left
