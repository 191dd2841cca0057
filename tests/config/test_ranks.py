"""The number of MPI ranks as a knob: which are tried, what the baseline has, what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.config.test_spec import MACHINE, OWN, build, refused
from tuner.knobs import core_budget, requirements, space
from tuner.launch import render
from tuner.model import BASELINE, Choice, IntRange, Setting

SOLVER = ("./solver", "input")
WALL = {"objective": "wall"}
EIGHT = replace(MACHINE, logical_cpus=8, physical_cores=8, affinity_cpus=8)


@pytest.fixture(autouse=True)
def _solver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "solver").write_text("#!/bin/sh\n")
    (tmp_path / "solver").chmod(0o755)
    monkeypatch.chdir(tmp_path)


def ranks_spec(*command: str, **options: Any) -> Any:
    return build(*(command or SOLVER), cwd=Path.cwd(), **{**WALL, **options})


@pytest.mark.parametrize(
    ("options", "domain", "baseline"),
    [
        ({"mpi_procs": "1..8"}, IntRange(1, 8), 8),
        ({"mpi_procs": "1..cores"}, Choice((1, 2, 4, 8)), 8),
        ({"mpi_procs": "1,2,4"}, Choice((1, 2, 4)), 4),
        ({"mpi_procs": "16,32"}, Choice((16, 32)), 16),
        ({"knobs": ("ranks",)}, Choice((1, 2, 4, 8)), 8),
        ({"knobs": ("ranks",), "mpi_procs": 6}, Choice((1, 2, 4, 6, 8)), 6),
        ({"knobs": ("ranks=1,2,4",), "mpi_procs": 8}, Choice((1, 2, 4)), 8),
        ({"file": "mpi_procs = [1, 2]"}, Choice((1, 2)), 2),
        ({"mpi_procs": "1..8", "baselines": ("ranks=4",)}, IntRange(1, 8), 4),
        ({"ppn": "1,2", "hosts": "h1:4,h2:4", "mpi_procs": 4}, Choice((1, 2)), 2),
        ({"knobs": ("ranks",), "hosts": "h1:4,h2:4"}, Choice((1, 2, 4)), 4),
        ({"mpi_procs": "1..16", "hosts": "h1,h2"}, IntRange(1, 16), 16),
    ],
)  # fmt: skip
def test_the_numbers_that_are_tried_and_the_baseline(
    options: dict[str, Any], domain: object, baseline: int
) -> None:
    spec = ranks_spec(machine=EIGHT, **options)
    assert spec.rank_counts.domain == domain
    assert spec.layout.ranks_per_host == spec.rank_counts.default == baseline
    assert not spec.rank_counts.changes_numerics


def test_the_baseline_has_a_rank_on_each_gpu() -> None:
    with_gpus = replace(EIGHT, gpus=("A100", "A100"))
    assert ranks_spec(machine=with_gpus, mpi_procs="1..8").layout.ranks == 2


def test_a_launch_has_the_ranks_of_its_setting_and_the_program_is_told() -> None:
    spec = ranks_spec("./solver", "-n{ranks}", mpi_procs="1..8", machine=EIGHT)
    for setting, ranks in ((Setting.of({"ranks": 2}), 2), (BASELINE, 8)):
        launch = render.launch(spec, setting, Path("/out"), environ={}, cwd=Path("/"))
        assert launch.argv[launch.argv.index("-n") + 1] == str(ranks)
        assert launch.argv[-1] == f"-n{ranks}"
    assert render.arguments(spec, Setting.of({"ranks": 2})) == ("-n2",)
    fixed = ranks_spec("./solver", "-n{ranks}", mpi_procs=4)
    assert render.program_argv(fixed, BASELINE, out="", template=fixed.command)[1] == "-n4"
    on_hosts = ranks_spec(mpi_procs="1,2", hosts="h1:2,h2:2").at(Setting.of({"ranks": 1}))
    assert on_hosts.layout.listed == "h1:1,h2:1"


def test_what_the_launcher_does_by_itself_differs_with_the_number() -> None:
    spec = ranks_spec(mpi_procs="1,2,4", knobs=("bind_to",), machine=EIGHT)
    (bind_to,) = (knob for knob in spec.knobs if knob.name == "bind_to")
    assert bind_to.domain == Choice(("unset", "none", "core"))  # 1 rank is free, 2 have a core each


def test_ranks_with_more_cores_each_than_there_are_are_left_out() -> None:
    spec = ranks_spec(mpi_procs="2,4,8", knobs=("cores_per_rank=unset,2,4",), machine=EIGHT)
    settings = [setting.as_dict() for setting in requirements_met(spec)]
    pairs = {(setting["ranks"], setting.get("cores_per_rank", "unset")) for setting in settings}
    assert pairs == {(2, "unset"), (2, 2), (2, 4), (4, "unset"), (4, 2), (8, "unset")}


def requirements_met(spec: Any) -> list[Setting]:
    return list(space.points(spec.knobs, requirements.requirements_of(spec)))


def test_a_requirement_counts_the_ranks_of_all_hosts() -> None:
    spec = ranks_spec(mpi_procs="1..4", hosts="h1:4,h2:4", require=("ranks <= 4",), name="s",
                      baselines=("ranks=2",), machine=EIGHT)  # fmt: skip
    assert {setting.as_dict()["ranks"] for setting in requirements_met(spec)} == {1, 2}


def test_without_a_launcher_the_program_starts_its_own_ranks() -> None:
    spec = ranks_spec("./solver", "-n{ranks}", mpi_procs="1,2", launcher="none")
    launch = render.launch(spec, Setting.of({"ranks": 2}), Path("/out"), environ={}, cwd=Path("/"))
    assert launch.argv[-2:] == (str(Path.cwd() / "solver"), "-n2")
    assert launch.argv[0] == "/bin/sh", "the wrapper, which sets the threads"
    assert ranks_spec(launcher="none").layout.ranks == 1


def test_guesses_divide_the_cores_and_what_asks_for_too_many_is_left_out() -> None:
    spec = ranks_spec(mpi_procs="1..16", knobs=("omp_threads=1..16",), machine=EIGHT)
    guesses = [guess.as_dict() for guess in space.guesses(spec)]
    assert [(guess["ranks"], guess["omp_threads"]) for guess in guesses] == [(8, 1), (2, 4), (1, 8)]
    assert core_budget.most_demand(spec) == 4.0
    assert "ranks x (threads" in core_budget.summary(spec)


SHARED_BATCH = (*OWN, "-b", "{batch_per_rank}")


def test_more_ranks_change_the_numerics_of_a_trainer_unless_they_share_a_batch() -> None:
    spec = build(*OWN, knobs=("ranks",))
    assert spec.rank_counts is not None and spec.rank_counts.changes_numerics
    shared = build(*SHARED_BATCH, knobs=("ranks",), global_batch=6, mpi_procs=2)
    assert shared.rank_counts is not None and not shared.rank_counts.changes_numerics
    assert shared.rank_counts.domain == Choice((1, 2)), "4 ranks cannot share 6 samples evenly"
    words = render.program_argv(shared, Setting.of({"ranks": 1}), out="", template=shared.command)
    assert words[-1] == "6"
    assert "ranks" not in {knob.name for knob in build(*OWN, all_knobs=True).knobs}
    torch = build(*OWN, mpi_procs="1,2", launcher="torchrun", objective="wall")
    assert torch.rank_counts is not None and torch.rank_counts.changes_numerics
    six = build(*SHARED_BATCH, knobs=("ranks",), global_batch=6)
    assert six.layout.ranks == 3, "the baseline has the most ranks that can share the batch"


@pytest.mark.parametrize(
    ("command", "options", "text"),
    [
        (OWN, {"mpi_procs": "0..4"}, "--mpi-procs: ranks cannot be 0"),
        (OWN, {"mpi_procs": ","}, "--mpi-procs: ',' has an empty value"),
        (OWN, {"mpi_procs": "many"}, "--mpi-procs many: must be a whole number, or several"),
        (OWN, {"mpi_procs": "1,2", "knobs": ("ranks=1,2",)}, "the knob is given twice"),
        (OWN, {"mpi_procs": "1..8", "hosts": "h1:4,h2:4"}, "8 ranks on a host, but h1 has 4 slots"),
        (OWN, {"knobs": ("ranks",), "mpi_procs": 5, "hosts": "h1:4,h2:4"},
         "--mpi-procs 5 is 5 ranks on 2 hosts"),
        (OWN, {"knobs": ("ranks",), "hosts": "h1,h2"}, "--hosts gives no slots"),
        (OWN, {"mpi_procs": "1,2", "ppn": "1,2"}, "--mpi-procs and --ppn both list ranks"),
        (OWN, {"mpi_procs": "1,2", "baselines": ("ranks=0",)}, "the baseline: ranks cannot be 0"),
        (OWN, {"baselines": ("ranks=2",)}, "--baseline ranks: the ranks are not tuned"),
        (OWN, {"launcher": "none", "hosts": "h1:4,h2:4"}, "--hosts names hosts"),
        (OWN, {"launcher": "none", "mpi_procs": "1,2"}, "the command has no {ranks}"),
        (OWN, {"launcher": "none", "mpi_procs": 2}, "the command has no {ranks}"),
        (SHARED_BATCH, {}, "no --global-batch"),
        (OWN, {"global_batch": 8}, "no {batch_per_rank}"),
        (SHARED_BATCH, {"global_batch": 8, "mpi_procs": 3}, "3 ranks cannot share it evenly"),
        (SHARED_BATCH, {"global_batch": 8, "mpi_procs": 2, "knobs": ("ranks=2,3",)},
         "ranks: 3 ranks cannot share --global-batch 8 evenly"),
    ],
)  # fmt: skip
def test_what_is_refused(command: tuple[str, ...], options: dict[str, Any], text: str) -> None:
    assert text in refused(*command, **options).message
