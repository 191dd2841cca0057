from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.model.errors import UsageError
from tuner.store.urls import DEFAULT_STORAGE, display_url, place, resolve_url, sqlite_path


def test_option_before_variable_before_default() -> None:
    assert display_url(resolve_url(None, {})) == DEFAULT_STORAGE
    assert display_url(resolve_url(None, {"TUNE_STORAGE": "a.db"})) == "a.db"
    assert display_url(resolve_url("b.db", {"TUNE_STORAGE": "a.db"})) == "b.db"
    assert display_url(resolve_url(None, {"TUNE_STORAGE": ""})) == DEFAULT_STORAGE


@given(st.text(st.characters(blacklist_categories=["Cs", "Cc"]), min_size=1, max_size=20))
def test_any_path_survives(name: str) -> None:
    path = Path("/folder") / name.replace("://", "")
    assert sqlite_path(resolve_url(str(path), {})) == path


@pytest.mark.parametrize(
    ("typed", "url"),
    [
        ("sqlite:///x/y.db", "sqlite:///x/y.db"),
        ("sqlite:////x/y.db", "sqlite:////x/y.db"),
        ("postgresql://u@h/d", "postgresql+psycopg://u@h/d"),
        ("postgres://h/d", "postgresql+psycopg://h/d"),
        ("postgresql+psycopg://h/d", "postgresql+psycopg://h/d"),
    ],
)
def test_urls(typed: str, url: str) -> None:
    assert resolve_url(typed, {}) == url


@pytest.mark.parametrize(
    "text",
    ["sqlite://", "sqlite:///:memory:", ":memory:", "sqlite:////x.db?mode=ro", "sqlite://host/x"],
)
def test_databases_that_would_be_lost_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        resolve_url(text, {})


def test_a_place_is_the_same_in_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert place(resolve_url("x.db", {})) == place(f"sqlite:///{tmp_path / 'x.db'}")
    assert place("postgresql+psycopg://me:hunter2@h/d") == "postgresql+psycopg://me:***@h/d"


#: Cut in two, so that no half of it may be shown either.
FIRST, SECOND = "hunter2", "swordfish"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+psycopg://me:hunter2@swordfish@host/db",
        "postgresql://me:hunter2#swordfish@host/db",
        "postgresql://me:hunter2:swordfish@host:port/db",
        "postgresql://me:hunter2\nswordfish@host/db",
        "postgresql://host/db?sslpassword=hunter2&password=swordfish",
        "host=db user=me password=hunter2swordfish dbname=tune",
        "me:hunter2swordfish@host/db",
        "mysql://me:hunter2@swordfish@host/db",
        "sqlite:///x?password=hunter2&key=swordfish",
    ],
)
def test_no_part_of_a_password_is_shown(url: str) -> None:
    try:
        message = display_url(resolve_url(url, {}))
    except UsageError as error:
        message = f"{error.message} {error.hint}"
        assert error.__suppress_context__ or error.__context__ is None
    for shown in (message, display_url(url)):
        assert FIRST not in shown
        assert SECOND not in shown


def test_what_may_be_a_login_is_a_path_only_if_it_begins_as_one() -> None:
    for path in ("sqlite.db", "10:30.db", "postgres/x.db", "/data/x:1@2024/tune.db", "../a:b@c=d"):
        assert display_url(resolve_url(path, {})) == path
    assert display_url(resolve_url("./a:b@c.db", {})) == "a:b@c.db"
    with pytest.raises(UsageError, match="not a database URL") as caught:
        resolve_url("me:hunter2@host/db", {})
    assert "./NAME is a file" in caught.value.hint
