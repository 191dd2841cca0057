"""A PyTorch training that is measured live: every sample once an epoch, and a later end."""

from __future__ import annotations

import multiprocessing
import random
import threading
from collections.abc import Callable
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.live_agent import FakeAgent, install, refusing
from tuner import live
from tuner.live.client.for_pytorch import LiveLoader, ResumableSampler

torch = pytest.importorskip("torch")
ppe = pytest.importorskip("pytorch_pfn_extras")

Switches = dict[int, dict[str, Any]]


class Numbered:
    """A dataset whose examples tell their number."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        return torch.tensor(index)


def loader(length: int = 17, batch: int | None = 4, **how: Any) -> Any:
    torch.manual_seed(0)
    how.setdefault("shuffle", True)
    return torch.utils.data.DataLoader(Numbered(length), batch, **how)


def epochs(found: Any, count: int, switch: Callable[[int], object]) -> list[Any]:
    """The batches of epochs, with a random number of the training's own behind each."""
    seen: list[Any] = []
    step = 0
    for _ in range(count):
        for batch in found:
            seen.append((batch.tolist(), float(torch.rand(()))))
            step += 1
            switch(step)
        seen.append("epoch")
    del found
    return seen


def live_epochs(
    monkeypatch: pytest.MonkeyPatch, found: Any, count: int, switches: Switches
) -> list[Any]:
    agent = install(monkeypatch, FakeAgent())
    loading = live.torch_loader(found, persistent_workers=True)
    assert len(loading) == len(found) and isinstance(loading, LiveLoader)

    def switch(step: int) -> None:
        if step in switches:
            assert agent.switch(**switches[step]) == []
            assert agent.read().items() >= switches[step].items()

    seen = epochs(loading, count, switch)
    loading.stop()
    assert multiprocessing.active_children() == []
    return seen


def at_random(seed: int, count: int) -> Switches:
    generator = random.Random(seed)
    return {
        step: {"iterator_workers": generator.randint(0, 2), "prefetch": generator.randint(1, 4)}
        for step in generator.sample(range(count), 4)
    }


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"num_workers": 1, "persistent_workers": True, "drop_last": True},
        {"num_workers": 2, "prefetch_factor": 3, "timeout": 60},
    ],
)
def test_switches_change_no_sample_and_no_random_number(
    monkeypatch: pytest.MonkeyPatch, how: dict[str, Any]
) -> None:
    plain = epochs(loader(**how), 3, lambda _: None)
    assert live_epochs(monkeypatch, loader(**how), 3, {}) == plain
    assert live_epochs(monkeypatch, loader(**how), 3, at_random(1, 12)) == plain
    first_and_last = {step: {"iterator_workers": step % 3} for step in (1, 4, 5, 10, 11)}
    assert live_epochs(monkeypatch, loader(**how), 3, first_and_last) == plain


def test_samples_without_batches_and_a_generator_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def made(batch: int | None) -> Any:
        return loader(5, batch, generator=torch.Generator().manual_seed(7))

    for batch in (2, None):
        plain = epochs(made(batch), 2, lambda _: None)
        assert live_epochs(monkeypatch, made(batch), 2, {2: {"iterator_workers": 1}}) == plain


def test_an_epoch_that_is_left_early_leaves_no_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = install(monkeypatch, FakeAgent())
    loading = live.torch_loader(loader(num_workers=2))
    for _ in loading:
        assert len(multiprocessing.active_children()) == 2
        break
    assert agent.switch(iterator_workers=1) == []
    assert multiprocessing.active_children() == []
    assert sorted(number for batch in loading for number in batch.tolist()) == list(range(17))
    assert multiprocessing.active_children() == []


# PyTorch's own iterator complains if its start has failed; its handler of SIGCHLD must not.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize(
    ("owner", "name", "number", "error"),
    [
        (ForkProcess, "_Popen", 3, OSError(12, "Cannot allocate memory")),
        (threading.Thread, "start", 2, RuntimeError("can't start new thread")),
    ],
)
def test_if_workers_cannot_start_the_old_ones_go_on(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, number: int, error: Exception
) -> None:
    agent = install(monkeypatch, FakeAgent())
    loading = live.torch_loader(loader(num_workers=1))
    seen = []
    for step, batch in enumerate(loading):
        seen += batch.tolist()
        if step == 1:
            with refusing(monkeypatch, owner, name, number, error):
                said = agent.switch(iterator_workers=3)
            assert said == [f"{type(error).__name__}: {error}"]
            assert len(multiprocessing.active_children()) == 1
            assert agent.read()["iterator_workers"] == 1
    assert sorted(seen) == list(range(17))
    assert multiprocessing.active_children() == []


def test_what_cannot_be_changed_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    found = loader()
    assert live.torch_loader(found) is found  # outside a study
    agent = install(monkeypatch, FakeAgent())

    stream = type("Stream", (torch.utils.data.IterableDataset,), {"__iter__": lambda _: iter(())})
    endless = torch.utils.data.DataLoader(stream())
    out_of_order = loader(in_order=False)
    assert live.torch_loader(endless) is endless
    assert live.torch_loader(out_of_order) is out_of_order
    assert agent.offered == {}
    assert live.torch_loader(loader(sampler=[3, 1], shuffle=None)).sampler == [3, 1]
    assert set(agent.offered) == {"iterator_workers", "prefetch", "opencv_threads"}


@given(
    length=st.integers(0, 12),
    ahead=st.lists(st.integers(0, 6), max_size=6),
    seen=st.lists(st.integers(0, 6), max_size=6),
)
def test_every_batch_is_seen_once_an_epoch(length: int, ahead: list[int], seen: list[int]) -> None:
    """A loader per entry: it is so far ahead, and so many of its batches are seen."""
    batches = ResumableSampler(range(length))
    for epoch in range(2):
        batches.begin()  # an epoch that was left early is over
        got: list[int] = []
        for far, count in zip(ahead, seen, strict=False):
            loader = iter(batches)
            queue = [batch for _, batch in zip(range(far + count), loader, strict=False)]
            for batch in queue[:count]:
                got.append(batch)
                batches.mark_delivered()
        for batch in batches:
            got.append(batch)
            batches.mark_delivered()
        assert got == list(range(length)), epoch


# --- a manager of pytorch-pfn-extras -------------------------------------------------------

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


def trained(found: Any, at_once: int = PER_EPOCH) -> int:
    """Train in a loop that can end after so many iterations; how many there were."""
    while not found.stop_trigger:
        for _ in range(at_once):
            with found.run_iteration():
                pass
    return int(found.iteration)


def test_outside_a_study_it_is_as_without(tmp_path: Path) -> None:
    assert trained(manager(tmp_path, (2, "epoch"))) == 6
    assert trained(manager(tmp_path, (4, "iteration")), 1) == 4


def test_it_goes_on_beyond_its_end_and_ends_where_the_loop_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Until(FakeAgent):
        def more(self) -> bool:
            return len(self.steps) < 8

    install(monkeypatch, Until())
    assert trained(manager(tmp_path, (1, "epoch"))) == 9
    install(monkeypatch, Until())
    assert trained(manager(tmp_path, (4, "iteration")), 1) == 8


def test_every_iteration_is_a_step_and_an_epochs_start_is_marked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = install(monkeypatch, FakeAgent())
    trained(manager(tmp_path, (3, "epoch")))
    new = [True, False, False]
    assert agent.steps == new * 3
