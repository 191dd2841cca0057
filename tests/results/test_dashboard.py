"""The note, the plot, and the address of the dashboard; the pages are tested in a browser."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit
from wsgiref.util import setup_testing_defaults

import pytest

from tests import study_samples as samples
from tests.report_samples import large, watched
from tests.serving import Answer, ask, serving
from tests.study_samples import HOSTILE, launched, searched, study
from tests.study_surface import CONFIRMED, FakeRunner
from tuner.cli import stored
from tuner.model import Failed, FailureKind
from tuner.model.errors import BusyError, UsageError
from tuner.results import dashboard
from tuner.results.dashboard import server
from tuner.results.dashboard.access import guarded
from tuner.results.dashboard.annotations import note, plots
from tuner.results.dashboard.server import DashboardServer
from tuner.results.report import weights
from tuner.store import Store
from tuner.study import tune


def test_the_note_has_result_and_commands() -> None:
    text = note(study())
    for words in (
        "2.31 times faster than your defaults",
        "- Best setting: omp\\_threads=1".replace("\\_", "_"),
        "- Best: 3.60 s",
        "- Your defaults: 8.32 s",
        "tune export mnist --storage studies/tune.db --format sh",
        "- Failed: 1 launch",
    ):
        assert words in text


def test_the_note_of_stopped_defaults_says_how_far_they_came() -> None:
    text = note(samples.at_least())
    assert "- Your defaults: stopped after 13.5 s (projected 30.0 s); stopped after 9.00 s" in text


def test_the_plots_are_the_figures_of_the_report_that_are_shown_at_once() -> None:
    data = watched(samples.faster())
    found = plots(data, {})
    assert {"tune-versus", "tune-history", "tune-knob-0", "tune-pair-0", "tune-cpu"} <= set(found)
    assert "tune-importance" not in found  # too few settings: words, and nothing to draw
    assert found["tune-pair-0"].layout.title.text == "omp_threads and iterator_workers"
    assert found["tune-pair-0"].data[0].type == "heatmap"
    large_one = plots(large(count=60), {})
    assert "tune-knob-3" in large_one
    assert "tune-knob-4" not in large_one


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A database with a study that was really searched and confirmed, on a synthetic machine."""
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
        found = store.search(data.spec.name)
        before = found._storage.get_study_system_attrs(found._study_id)
        dashboard.annotate(url, data)
        after = found._storage.get_study_system_attrs(found._study_id)
    assert before == after
    assert [key for key in before if key.startswith("dashboard:plot_data:tune-history:")]
    assert "times faster than your defaults (95 % interval" in str(before["dashboard:note_str:0"])


def test_settings_that_were_stopped_are_pruned_trials(url: str) -> None:
    with Store.open(url, create=False) as store:
        data = stored.load(store, None)
        states = [trial.state.name for trial in store.search(data.spec.name).trials]
    assert states.count("PRUNED") >= data.result.settings_stopped > 0


@pytest.fixture(scope="module")
def pages(url: str) -> Iterator[DashboardServer]:
    """A dashboard that answers."""
    with Store.open(url, create=False) as store:
        dashboard.annotate(url, stored.load(store, None))
    with serving(url) as found:
        yield found


def asked(
    server: DashboardServer, path: str, method: str = "GET", body: str | None = None, **headers: str
) -> Answer:
    """Send one request with the token; ``Host="x"`` and the like become headers."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    known = {"Authorization": f"Bearer {server.token}"}
    return ask(urlsplit(server.page).netloc, path, method, body, known | named)


@pytest.mark.system
def test_it_answers_on_loopback(pages: DashboardServer) -> None:
    address = urlsplit(pages.url)
    assert address.netloc.startswith("127.0.0.1:")
    assert (address.path, address.query) == ("/", f"token={pages.token}")
    assert not pages.is_wide
    assert "Optuna" in asked(pages, "/dashboard/").body
    assert asked(pages, "/api/studies").status == 200


@pytest.mark.system
def test_its_first_page_is_the_report_of_the_latest_study(pages: DashboardServer) -> None:
    latest, named = asked(pages, "/"), asked(pages, f"/report/{CONFIRMED.name}")
    assert latest.headers["content-type"] == "text/html; charset=utf-8"
    assert latest.body == named.body
    assert '<a href="/dashboard/">All studies' in latest.body
    assert "times faster than your defaults" in latest.body
    missing = asked(pages, "/report/<b>other")
    assert missing.status == 404
    assert "<b>" not in missing.body


@pytest.mark.system
def test_a_page_shows_our_importance_of_the_knobs(pages: DashboardServer, url: str) -> None:
    with Store.open(url, create=False) as store:
        number = store.search(CONFIRMED.name)._study_id
        found = json.loads(asked(pages, f"/api/studies/{number}/param_importances").body)
        shares = {row["name"]: row["importance"] for row in found["param_importances"][0]}
        assert shares == pytest.approx(weights(stored.load(store, None)), rel=1e-5)
    assert shares
    assert asked(pages, "/api/studies/99/param_importances").status == 404


@pytest.mark.system
@pytest.mark.parametrize("query", ["after=abc", "after=-1", "after=", "after=%c2%b2"])
def test_a_query_that_is_no_number_is_the_senders_mistake(
    pages: DashboardServer, query: str
) -> None:
    assert asked(pages, "/api/studies/1?after=0").status == 200
    assert asked(pages, f"/api/studies/1?{query}").status == 400


@pytest.mark.system
def test_a_port_in_use_is_one_error(pages: DashboardServer, url: str) -> None:
    port = urlsplit(pages.page).port
    assert port is not None
    with pytest.raises(BusyError, match=f"port {port} on 127.0.0.1 is in use"):
        server.bind(url, str, port=port)


@pytest.mark.parametrize("host", ["", "::", "::1", "192.0.2.1", "nowhere.invalid"])
def test_what_is_no_address_of_this_machine_is_one_error(url: str, host: str) -> None:
    with pytest.raises(UsageError) as caught:
        server.bind(url, str, host=host, port=0)
    assert repr(host) in caught.value.message or host in caught.value.message
    assert "--host" in caught.value.hint


@pytest.mark.parametrize(
    "given", ["", "fifteen-letters", "a" * 15 + ";", "a" * 15 + "\n", "é" * 20], ids=ascii
)
def test_a_token_that_could_be_guessed_or_not_be_sent_is_refused(url: str, given: str) -> None:
    with pytest.raises(UsageError, match="TUNE_DASHBOARD_TOKEN") as caught:
        server.bind(url, str, port=0, token=given)
    assert not given or given not in str(caught.value)


def test_an_answer_is_opened_to_no_other_page() -> None:
    """Artifacts, of an optuna-dashboard that keeps some, come with an open CORS header."""
    sent: list[tuple[str, str]] = []

    def app(_: object, start: Any) -> list[bytes]:
        opening = [("Access-Control-Allow-Origin", "*"), ("access-control-allow-methods", "PUT")]
        start("200 OK", [*opening, ("Cache-Control", "public"), ("X-Its-Own", "kept")])
        return [b""]

    environ = {"HTTP_HOST": "localhost:8080", "HTTP_AUTHORIZATION": "Bearer known-to-me-alone"}
    setup_testing_defaults(environ)
    opened = guarded(app, "known-to-me-alone")
    assert opened(environ, lambda _, headers, *__: sent.extend(headers)) == [b""]  # type: ignore[arg-type]
    names = [name.lower() for name, _ in sent]
    assert not [name for name in names if name.startswith("access-control-")]
    assert ("X-Its-Own", "kept") in sent
    assert [value for name, value in sent if name == "Cache-Control"] == ["private, no-cache"]


def test_what_a_program_wrote_is_no_markdown() -> None:
    text = note(launched(searched(Failed(FailureKind.CRASHED, HOSTILE))))
    (line,) = [line for line in text.splitlines() if line.startswith("- Your defaults:")]
    assert "\\<script>alert(1)\\</script> \\<img src=" in line
    for each in (line.removeprefix("- "), text.splitlines()[2].strip("*")):
        assert "alert(1)" in each
        assert not re.search(r"(?<!\\)[][<`*!&~|]", each)
        assert not re.search(r"://|www\.|[\x1b\u202e]", each)
        assert not re.search(r"@\w", each)
