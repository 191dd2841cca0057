"""A manager of pytorch-pfn-extras that is measured live."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.live_agent import FakeAgent, install
from tuner import live

torch = pytest.importorskip("torch")
ppe = pytest.importorskip("pytorch_pfn_extras")

PER_EPOCH = 3


def manager(folder: Path, stop: tuple[int, str]) -> Any:
    network = torch.nn.Linear(1, 1)
    found = ppe.training.ExtensionsManager(
        network,
        torch.optim.SGD(network.parameters(), lr=0.1),
        1,
        iters_per_epoch=PER_EPOCH,
        out_dir=str(folder),
        stop_trigger=stop,
    )
    found.extend(live.PpeExtension())
    return found


def by_epochs(found: Any) -> int:
    while not found.stop_trigger:
        for _ in range(PER_EPOCH):
            with found.run_iteration():
                pass
    return int(found.iteration)


def by_iterations(found: Any) -> int:
    while not found.stop_trigger:
        with found.run_iteration():
            pass
    return int(found.iteration)


def test_outside_a_study_it_is_as_without(tmp_path: Path) -> None:
    assert by_epochs(manager(tmp_path, (2, "epoch"))) == 6
    assert by_iterations(manager(tmp_path, (4, "iteration"))) == 4


def test_it_goes_on_beyond_its_end_and_ends_where_the_loop_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Until(FakeAgent):
        def more(self) -> bool:
            return len(self.steps) < 8

    install(monkeypatch, Until())
    assert by_epochs(manager(tmp_path, (1, "epoch"))) == 9
    install(monkeypatch, Until())
    assert by_iterations(manager(tmp_path, (4, "iteration"))) == 8


def test_every_iteration_is_a_step_and_an_epochs_start_is_marked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = install(monkeypatch, FakeAgent())
    by_epochs(manager(tmp_path, (3, "epoch")))
    new = [True, False, False]
    assert agent.steps == new * 3
