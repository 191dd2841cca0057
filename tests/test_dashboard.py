"""The note, the plot, and the address of the dashboard; the pages are tested in a browser."""

from __future__ import annotations

import dataclasses
import http.client
import json
import socket
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest

from tests import study_samples as samples
from tests.serving import serving
from tests.study_samples import OMP, SPEC, WORKERS, launched, setting, stopped, study
from tests.study_surface import CONFIRMED, FakeRunner
from tuner import dashboard
from tuner.cli import stored
from tuner.dashboard import server
from tuner.dashboard.notes import note
from tuner.dashboard.plots import plot
from tuner.errors import BusyError, UsageError
from tuner.model import BASELINE, Purpose
from tuner.store import Store
from tuner.study import attach, tune


def test_the_note_has_result_and_commands() -> None:
    text = note(study())
    for words in (
        "2.31 times faster than your defaults",
        "best: `omp_threads=1 iterator_workers=1 communicator=naive`, 3.60 s",
        "your defaults: 8.32 s",
        "tune export mnist --format sh",
        "1 failure",
    ):
        assert words in text


def test_the_note_of_a_failed_baseline_says_so() -> None:
    text = note(study({BASELINE: None, setting(omp_threads=1): 1.0}))
    assert "your defaults failed: crashed" in text


def test_the_note_of_a_study_without_a_gain_names_the_defaults_without_a_time_of_others() -> None:
    lines = note(samples.no_gain()).splitlines()
    assert lines[2].startswith("**no significant gain: keep your defaults (1.01 times as fast")
    assert "- best: `defaults`" in lines
    assert "- your defaults: 3.62 s" in lines


def test_the_note_of_stopped_defaults_says_how_far_they_came() -> None:
    assert "- your defaults: stopped after 9.00 s" in note(samples.at_least()).splitlines()


def grid(count: int) -> dict[object, float]:
    return {
        setting(omp_threads=threads, iterator_workers=workers): 1.0 * threads + workers
        for threads in range(1, count + 1)
        for workers in range(1, 4)
    }


def test_two_varied_knobs_make_a_heat_map() -> None:
    spec = dataclasses.replace(SPEC, knobs=(OMP, WORKERS))
    data = study({BASELINE: 9.0, **grid(2)}, spec)  # type: ignore[dict-item]
    (trace,) = plot(data).data
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
    (trace,) = plot(study({BASELINE: 9.0, **times})).data
    assert len(trace.x) == len(trace.y) == 3
    assert {value for row in trace.z for value in row} == {2.0}


def test_one_varied_knob_makes_a_line_in_order() -> None:
    times = {setting(omp_threads=n): float(n) for n in (10, 2, 1)}
    (trace,) = plot(study({BASELINE: 9.0, **times})).data
    assert (trace.type, list(trace.x), list(trace.y)) == ("scatter", ["1", "2", "10"], [1, 2, 10])


def test_nothing_varied_makes_no_plot() -> None:
    assert plot(study({BASELINE: 9.0, setting(omp_threads=1): 1.0})) is None
    assert plot(study({BASELINE: None})) is None


def test_what_was_stopped_is_shown_where_it_was_going() -> None:
    times = [(setting(omp_threads=n), float(n)) for n in (1, 2)]
    made = [(Purpose.SEARCH, chosen, elapsed_s) for chosen, elapsed_s in times]
    slow = (Purpose.SEARCH, setting(omp_threads=4), stopped(2.0, 8.0))
    (trace,) = plot(launched([*made, slow], best=setting(omp_threads=1))).data
    assert (list(trace.x), list(trace.y)) == (["1", "2", "4"], [1.0, 2.0, 8.0])


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A database with a study that was really searched and confirmed, on a made-up machine."""
    folder = tmp_path_factory.mktemp("dashboard")
    path = folder / "a{b}.db"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TUNE_LOCK_DIR", str(folder))
        tune(CONFIRMED, storage=str(path), outputs=folder / "outputs", run=FakeRunner())
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
    assert "times faster than your defaults (95 % sure" in str(before["dashboard:note_str:0"])


def test_settings_that_were_stopped_are_pruned_trials(url: str) -> None:
    with Store.open(url, create=False) as store:
        data = stored.load(store, None)
        found = attach.load(attach.open_storage(url), data.spec.name)
    assert found is not None
    states = [trial.state.name for trial in found.trials]
    assert states.count("PRUNED") >= data.result.settings_stopped > 0


def test_a_study_without_trials_yet_has_nothing_to_annotate(url: str) -> None:
    dashboard.annotate(url, study())


@pytest.fixture(scope="module")
def address(url: str) -> Iterator[str]:
    """Where a dashboard answers: ``127.0.0.1:PORT``."""
    with serving(url) as found:
        assert found.url == f"http://{urlsplit(found.url).netloc}/dashboard/"
        yield urlsplit(found.url).netloc


class Answer(NamedTuple):
    """What came back."""

    status: int
    body: str


def ask(
    address: str, path: str, method: str = "GET", body: str | None = None, **headers: str
) -> Answer:
    """Send one request; ``HOST="x"`` and the like become headers."""
    connection = http.client.HTTPConnection(address, timeout=10)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, body, named)
    answer = connection.getresponse()
    found = Answer(answer.status, answer.read().decode())
    connection.close()
    return found


@pytest.mark.system
def test_it_answers_on_loopback(address: str) -> None:
    assert address.startswith("127.0.0.1:")
    assert "Optuna" in ask(address, "/dashboard/").body
    assert ask(address, "/api/studies").status == 200


@pytest.mark.system
@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:9000", 200),  # ssh -L 9000:…
        ("127.0.0.1", 200),
        ("[::1]:8080", 200),
        ("evil.example", 403),
        ("evil.example:8080", 403),
        ("127.0.0.1.evil.example", 403),
        ("localhost.evil.example", 403),
        ("127.0.0.1@evil.example", 403),
        ("192.168.1.1", 403),
        ("[", 403),
        ("", 403),
    ],
)
def test_a_foreign_name_for_this_machine_is_refused(address: str, host: str, status: int) -> None:
    """DNS rebinding: a site's own name that leads to 127.0.0.1."""
    assert ask(address, "/api/studies", Host=host).status == status


@pytest.mark.system
@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://localhost:9000", 404),  # its own page: the study does not exist
        ("http://localhost:3000", 403),
        ("https://evil.example", 403),
        ("null", 403),
    ],
)
def test_another_sites_page_changes_nothing(address: str, origin: str, status: int) -> None:
    found = ask(address, "/api/studies/99", "DELETE", Host="localhost:9000", Origin=origin)
    assert found.status == status


@pytest.mark.system
@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        ("study_name=x", "text/plain", 415),
        ('{"study_name": "x"}', "text/plain", 415),
        ("no json", "application/json", 400),
        ("[1]", "application/json", 400),
        ("[" * 100_000, "application/json", 400),
        (None, "", 400),
        ('{"body": "x"}', "application/json; charset=utf-8", 400),  # the application's own check
    ],
)
def test_a_body_that_is_no_json_is_the_senders_mistake(
    address: str,
    capfd: pytest.CaptureFixture[str],
    body: str | None,
    kind: str,
    status: int,
) -> None:
    headers = {"Content_Type": kind} if kind else {}
    assert ask(address, "/api/studies/1/note", "PUT", body, **headers).status == status
    assert ask(address, "/api/studies", "POST", body, **headers).status == status
    assert capfd.readouterr().err == ""


@pytest.mark.system
def test_a_body_without_a_length_is_the_senders_mistake(address: str) -> None:
    assert ask(address, "/api/studies", "POST", "x", Content_Length="-1").status == 400


@pytest.mark.system
def test_what_a_page_saves_is_saved(address: str) -> None:
    found = json.loads(ask(address, "/api/studies/1").body)["note"]
    body = json.dumps({"body": found["body"] + "é", "version": found["version"] + 1})
    kind = {"Content_Type": "application/json", "Origin": f"http://{address}"}
    assert ask(address, "/api/studies/1/note", "PUT", body, **kind).status == 204
    assert json.loads(ask(address, "/api/studies/1").body)["note"]["body"].endswith("é")


@pytest.mark.system
def test_a_port_in_use_is_one_error(address: str, url: str) -> None:
    port = int(address.rpartition(":")[2])
    with pytest.raises(BusyError, match=f"port {port} on 127.0.0.1 is in use"):
        server.bind(url, port=port)


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "", "::", "192.168.1.1", "example.org", socket.gethostname()]
)
def test_only_loopback_is_served(host: str) -> None:
    with pytest.raises(UsageError, match="no password"):
        server.check_loopback(host)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.0.0.2"])
def test_loopback_addresses(host: str) -> None:
    server.check_loopback(host)
