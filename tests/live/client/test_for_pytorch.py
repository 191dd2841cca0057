"""A PyTorch training that is measured live: every sample once an epoch, and a later end."""

from __future__ import annotations

import multiprocessing
import random
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.live.client.conftest import Threads
from tests.live_agent import FakeAgent, install
from tuner import live
from tuner.live.client.for_pytorch import LiveLoader

torch = pytest.importorskip("torch")
ppe = pytest.importorskip("pytorch_pfn_extras")

Switches = dict[int, dict[str, Any]]


def loader(length: int = 17, batch: int | None = 4, **how: Any) -> Any:
    """A loader of a dataset whose examples tell their number."""
    torch.manual_seed(0)
    how.setdefault("shuffle", True)
    if seed := how.pop("generator", None):
        how["generator"] = torch.Generator().manual_seed(seed)
    return torch.utils.data.DataLoader(torch.arange(length), batch, **how)


def epochs(loading: Any, switch: Callable[[int], object] = lambda _: None) -> list[Any]:
    """The batches of three epochs, with a random number of the training's own behind each."""
    batches: list[Any] = []
    for epoch in range(3):
        for batch in loading:
            batches.append((epoch, batch.tolist(), float(torch.rand(()))))
            switch(len(batches))
    return batches


def live_epochs(monkeypatch: pytest.MonkeyPatch, given: Any, switches: Switches) -> list[Any]:
    agent = install(monkeypatch, FakeAgent())
    loading = live.torch_loader(given, persistent_workers=True)
    assert len(loading) == len(given) and isinstance(loading, LiveLoader)

    def switch(step: int) -> None:
        if step in switches:
            agent.switch(**switches[step])
            assert agent.read().items() >= switches[step].items()

    batches = epochs(loading, switch)
    loading.stop()
    assert multiprocessing.active_children() == []
    return batches


@pytest.mark.parametrize(
    "how",
    [
        {"num_workers": 1, "persistent_workers": True, "drop_last": True},
        {"num_workers": 2, "prefetch_factor": 3, "timeout": 60, "generator": 7},  # one of its own
        {"batch": None, "length": 5},
    ],
)
def test_switches_change_no_sample(monkeypatch: pytest.MonkeyPatch, how: dict[str, Any]) -> None:
    generator = random.Random(1)
    at_random = {
        step: {"iterator_workers": generator.randint(0, 2), "prefetch": generator.randint(1, 4)}
        for step in generator.sample(range(12), 4)
    }
    first_and_last = {step: {"iterator_workers": step % 3} for step in (1, 4, 5, 10, 11)}
    plain = epochs(loader(**how))
    for switches in (at_random, first_and_last):
        assert live_epochs(monkeypatch, loader(**how), switches) == plain


def test_an_epoch_that_is_left_early_leaves_no_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = install(monkeypatch, FakeAgent())
    loading = live.torch_loader(loader(num_workers=2))
    for _ in loading:
        assert len(multiprocessing.active_children()) == 2
        break
    agent.switch(iterator_workers=1)
    assert multiprocessing.active_children() == []
    assert sorted(number for batch in loading for number in batch.tolist()) == list(range(17))
    assert multiprocessing.active_children() == []


def test_no_workers_start_beside_one_that_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = install(monkeypatch, FakeAgent())
    loading = live.torch_loader(loader())
    hangs = SimpleNamespace(join=lambda _: None, is_alive=lambda: True)
    loading._epoch_batches = SimpleNamespace(_workers=[hangs], _shutdown_workers=lambda: None)
    with pytest.raises(TimeoutError, match="a loader worker has not ended after 20 s"):
        agent.switch(iterator_workers=1)


def test_what_cannot_be_changed_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    found = loader()
    assert live.torch_loader(found) is found  # outside a study
    agent = install(monkeypatch, FakeAgent())

    stream = type("Stream", (torch.utils.data.IterableDataset,), {"__iter__": lambda _: iter(())})
    endless = torch.utils.data.DataLoader(stream())
    out_of_order = loader(in_order=False)
    assert live.torch_loader(endless) is endless
    assert live.torch_loader(out_of_order) is out_of_order
    assert agent.groups == []
    assert live.torch_loader(loader(sampler=[3, 1], shuffle=None)).sampler == [3, 1]
    assert set(agent.started) == {"iterator_workers", "prefetch", "opencv_threads"}


PER_EPOCH = 3


def trained(folder: Path, stop: tuple[int, str], at_once: int) -> int:
    """Train in a loop that can end after so many iterations; how many there were."""
    network = torch.nn.Linear(1, 1)
    manager = ppe.training.ExtensionsManager(
        *(network, torch.optim.SGD(network.parameters(), lr=0.1), 1),
        iters_per_epoch=PER_EPOCH,
        out_dir=str(folder),
        stop_trigger=stop,
    )
    manager.extend(live.PpeExtension())
    while not manager.stop_trigger:
        for _ in range(at_once):
            with manager.run_iteration():
                pass
    return int(manager.iteration)


@pytest.mark.parametrize(
    ("stop", "at_once", "ends"), [((1, "epoch"), PER_EPOCH, (3, 9)), ((4, "iteration"), 1, (4, 8))]
)
def test_it_goes_on_beyond_its_end_in_a_study_and_ends_where_the_loop_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: Any, at_once: int, ends: tuple[int, int]
) -> None:
    assert trained(tmp_path, stop, at_once) == ends[0]
    agent = install(monkeypatch, FakeAgent())
    monkeypatch.setattr(agent, "more", lambda: len(agent.steps) < 8)
    assert trained(tmp_path, stop, at_once) == ends[1]
    marks = [number % PER_EPOCH == 0 for number in range(ends[1])]
    assert agent.steps == marks, "an epoch's start is marked"


def test_the_workers_get_opencvs_threads(monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    agent = install(monkeypatch, FakeAgent())
    given = torch.utils.data.DataLoader(Threads(), 2)
    loading = iter(live.torch_loader(given, multiprocessing_context="fork"))
    assert next(loading).tolist() == [threads, threads]  # by the rank itself
    for number in (1, 5):
        agent.switch(opencv_threads=number, iterator_workers=1)
        assert next(loading).tolist() == [number, number]
    agent.switch(opencv_threads=None, iterator_workers=None)
    assert next(loading).tolist() == [threads, threads]
    del loading
    assert multiprocessing.active_children() == []
