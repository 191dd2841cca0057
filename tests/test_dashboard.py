"""The note, the plot, and the address of the dashboard; the pages are tested in a browser."""

from __future__ import annotations

import dataclasses
import socket
import threading
import urllib.request
from collections.abc import Iterator

import pytest

from tests.study_samples import OMP, SPEC, WORKERS, setting, study
from tests.study_surface import SPEC as SURFACE
from tests.study_surface import FakeRunner
from tuner import dashboard
from tuner.cli import stored
from tuner.errors import BusyError, UsageError
from tuner.model import BASELINE
from tuner.store import Store
from tuner.study import attach, tune


def test_the_note_has_result_and_commands() -> None:
    text = dashboard.note(study())
    for words in (
        "2.31 times faster than your defaults",
        "best: `omp_threads=1 iterator_workers=1 communicator=naive`, 3.60 s",
        "your defaults: 8.32 s",
        "tune export mnist --format sh",
        "1 failure",
    ):
        assert words in text


def test_the_note_of_a_failed_baseline_says_so() -> None:
    text = dashboard.note(study({BASELINE: None, setting(omp_threads=1): 1.0}))
    assert "your defaults failed: crashed" in text


def grid(count: int) -> dict[object, float]:
    return {
        setting(omp_threads=threads, iterator_workers=workers): 1.0 * threads + workers
        for threads in range(1, count + 1)
        for workers in range(1, 4)
    }


def test_two_varied_knobs_make_a_heat_map() -> None:
    spec = dataclasses.replace(SPEC, knobs=(OMP, WORKERS))
    data = study({BASELINE: 9.0, **grid(2)}, spec)  # type: ignore[dict-item]
    (trace,) = dashboard.plot(data).data
    assert trace.type == "heatmap"
    assert (list(trace.x), list(trace.y)) == (["1", "2", "3"], ["1", "2"])
    assert [list(row) for row in trace.z] == [[2.0, 3.0, 4.0], [3.0, 4.0, 5.0]]


def test_of_three_knobs_the_two_most_varied_are_shown_with_the_fastest_of_the_third() -> None:
    times = {
        setting(omp_threads=threads, iterator_workers=workers, communicator=name): cost
        for threads in (1, 2, 3)
        for workers in (1, 2, 3)
        for name, cost in (("flat", 2.0), ("naive", 1.0 + threads))
    }
    (trace,) = dashboard.plot(study({BASELINE: 9.0, **times})).data
    assert len(trace.x) == len(trace.y) == 3
    assert {value for row in trace.z for value in row} == {2.0}


def test_one_varied_knob_makes_a_line_in_order() -> None:
    times = {setting(omp_threads=n): float(n) for n in (10, 2, 1)}
    (trace,) = dashboard.plot(study({BASELINE: 9.0, **times})).data
    assert (trace.type, list(trace.x), list(trace.y)) == ("scatter", ["1", "2", "10"], [1, 2, 10])


def test_nothing_varied_makes_no_plot() -> None:
    assert dashboard.plot(study({BASELINE: 9.0, setting(omp_threads=1): 1.0})) is None
    assert dashboard.plot(study({BASELINE: None})) is None


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A database with a study that was really searched, over a made-up machine."""
    folder = tmp_path_factory.mktemp("dashboard")
    path = folder / "a{b}.db"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TUNE_LOCK_DIR", str(folder))
        tune(SURFACE, storage=str(path), outputs=folder / "outputs", run=FakeRunner())
    return f"sqlite:///{path}"


def test_note_and_plot_are_saved_again_and_again_the_same(url: str) -> None:
    with Store.open(url, create=False) as store:
        data = stored.load(store, None)
        dashboard.annotate(url, data)
        found = attach.load(attach.open_storage(url), data.spec.name)
        assert found is not None
        before = found._storage.get_study_system_attrs(found._study_id)
        dashboard.annotate(url, data)
        after = found._storage.get_study_system_attrs(found._study_id)
    assert before == after
    assert [key for key in before if key.startswith("dashboard:plot_data:tune-times:")]
    assert "times faster" in str(before["dashboard:note_str:0"])


def test_a_study_without_trials_yet_has_nothing_to_annotate(url: str) -> None:
    dashboard.annotate(url, study())


@pytest.fixture
def server(url: str) -> Iterator[dashboard.Server]:
    with dashboard.bind(url, port=0) as found:
        thread = threading.Thread(target=found.serve)
        thread.start()
        yield found
        found.stop()
        thread.join()


@pytest.mark.system
def test_it_answers_on_loopback(server: dashboard.Server) -> None:
    assert server.url.startswith("http://127.0.0.1:")
    with urllib.request.urlopen(server.url, timeout=10) as answer:
        assert b"Optuna" in answer.read()


@pytest.mark.system
def test_a_port_in_use_is_one_error(server: dashboard.Server, url: str) -> None:
    port = int(server.url.split(":")[2].split("/")[0])
    with pytest.raises(BusyError, match=f"port {port} on 127.0.0.1 is in use"):
        dashboard.bind(url, port=port)


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "", "::", "192.168.1.1", "example.org", socket.gethostname()]
)
def test_only_loopback_is_served(host: str) -> None:
    with pytest.raises(UsageError, match="no password"):
        dashboard.check_loopback(host)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.0.0.2"])
def test_loopback_addresses(host: str) -> None:
    dashboard.check_loopback(host)
