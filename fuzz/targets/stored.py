"""Texts that lie in the database or lead to it, recorded surfaces, words to complete."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import click

from benchmarks.replay import surface_file
from fuzz.target import Target
from fuzz.targets.asked import LAUNCHER, MACHINE
from fuzz.texts import Texts, one
from fuzz.trees import Trees
from tuner.cli.app import cli
from tuner.cli.options import knob_names, study_names
from tuner.knobs import KNOBS
from tuner.model import (
    Effect,
    Finding,
    Finished,
    Layout,
    Observation,
    RankView,
    Setting,
    Stopped,
    StudySpec,
    Verdict,
)
from tuner.model.errors import UsageError
from tuner.store import codec, urls

# --- rows --------------------------------------------------------------------------------

_SPEC = StudySpec("s", ("python", "{out}"), LAUNCHER, Layout(2), MACHINE, KNOBS)
_KINDS: tuple[tuple[Any, Any], ...] = (
    (StudySpec, _SPEC),
    (Observation, Observation((RankView(0, 4, 2, (0, 1), 4, pools=(("a", 4),)),))),
    (tuple[Effect, ...], (Effect("omp_threads", 4, 2, Verdict.CAPPED, "x"),)),
    (Stopped, Stopped(4.0, 8.0, 7.0, None, 0.1, "drift")),
    (Finished, Finished(3.5, 20, 1.0)),
    (Finding, Finding(2.3, 2.2, 2.4, 6, 6, "faster")),
)
_ROWS = Trees([codec.to_json(value) for _, value in _KINDS], ("type", "IntRange", "Env", "domain"))


def row(data: bytes) -> None:
    """A value in the database: itself again, or one of the errors that its reader expects."""
    text = data.decode("utf-8", "replace")
    for kind, _ in _KINDS:
        with suppress(ValueError, KeyError, TypeError):
            value = codec.loads(kind, text)
            with suppress(ValueError, KeyError, TypeError):  # a field of another type
                codec.loads(kind, codec.dumps(value))


def setting(data: bytes) -> None:
    """A setting in the database."""
    with suppress(ValueError, TypeError):
        found = Setting.from_json(data.decode("utf-8", "replace"))
        assert Setting.from_json(found.to_json()) == found, found
        hash(found)
        str(found)


_SETTINGS = Trees([{"omp_threads": 4, "communicator": "naive"}, {}, {"a": "unset"}], ("a", "b"))

# --- database URLs -----------------------------------------------------------------------

SECRET = "s3cr3t-canary"
_USERS = ("me", "", "a.b", "a%40b", "é", "a@b", " ")
_SCHEMES = (
    *urls.SCHEMES,
    "POSTGRESQL",
    "mysql",
    "mysql+pymysql",
    "oracle",
    "http",
    "",
    "a b",
    "x-y",
)
_ODD = ("@", ":", "/", "?", "#", "%", "%40", "%2F", "%zz", "[", "]", "&", "=", " ", "é", "\\", "//")
_HOSTS = ("localhost", "db.example.org", "127.0.0.1", "[::1]", "", "a b", "-", "host@x")
_PORTS = ("", ":5432", ":", ":x", ":999999", ":-1", ":²", ":5432:1")
_NAMES = ("/tune", "", "/", "/a/b", "/a@b", "/%00", "/:memory:", "//x/tune.db")
_QUERIES = ("", "?", "?sslmode=require", "?a=1&a=2", "?x", "?%", "?;", "?host=/var/run")
_SECRET_QUERIES = ("password", "sslpassword", "PassWord", "passwd", "pwd", "token", "secret")


def _url(rng: Random) -> bytes:
    """A URL with the secret where a password stands."""
    odd = "".join(one(rng, _ODD) for _ in range(int(rng.expovariate(0.8))))
    password = one(rng, (f"{odd}{SECRET}", f"{SECRET}{odd}", f"x{odd}{SECRET}{odd}", SECRET))
    scheme, host = one(rng, _SCHEMES), one(rng, _HOSTS) + one(rng, _PORTS) + one(rng, _NAMES)
    if rng.random() < 0.2:
        text = f"host={host} password{one(rng, ('=', ' = '))}'{password}' dbname=x"
    elif rng.random() < 0.3:
        start = one(rng, ("mysql:", "postgres//", "http:/", "x"))
        text = f"{start}me:x{password}@{host}"
    elif rng.random() < 0.7:
        text = f"{scheme}://{one(rng, _USERS)}:{password}@{host}{one(rng, _QUERIES)}"
    else:
        text = f"{scheme}://{one(rng, _USERS)}@{host}?{one(rng, _SECRET_QUERIES)}={SECRET}"
    return text.encode()


def url(data: bytes) -> None:
    """A database URL: whatever is wrong with it, its password is never shown."""
    text = data.decode("utf-8", "replace")
    shown = [urls.display_url(text)]
    try:
        resolved = urls.resolve_url(text, {})
        shown += [urls.display_url(resolved), urls.place(resolved)]
    except UsageError as error:
        shown += [error.message, error.hint, repr(error.__cause__)]
    for each in shown:
        assert SECRET not in each, f"shown: {each}"


# --- surfaces ----------------------------------------------------------------------------

_SURFACE = {
    "name": "tiny",
    "ranks": 2,
    "iterations": 100,
    "machine": {"physical_cores": 8},
    "knobs": {"a": [1, 2], "b": ["x"]},
    "default": {"a": 1, "b": "x"},
    "run_columns": ["startup_s", "first_iteration_s", "elapsed_s"],
    "points": [
        {"setting": {"a": 1, "b": "x"}, "runs": [[0.5, 0.1, 10.0], [0.5, 0.1, 11.0]]},
        {"setting": {"a": 2, "b": "x"}, "failed": True, "fail_after_s": 2, "reason": "no"},
    ],
}
_SURFACES = Trees([_SURFACE], (*_SURFACE, "setting", "runs", "truth_s", "failed", "fail_after_s"))


def recorded(data: bytes) -> None:
    """A surface file: one that can be searched, or the user's mistake."""
    with suppress(UsageError):
        found = surface_file.parse(data, Path("surface.json"))
        for key in found.points:
            assert found.regret(found.setting(key)) >= 0
        assert found.unit_s > 0
        json.dumps(found.name)


# --- completion --------------------------------------------------------------------------


def completion(data: bytes) -> None:
    """The words that a shell asks for: an answer, never an error on the user's prompt."""
    text = data.decode("utf-8", "surrogateescape")
    storage, _, incomplete = text.partition("\n")
    context = click.Context(cli)
    context.params["storage"] = storage or "/none"
    knob_names(context, click.Argument(["name"]), incomplete)
    assert study_names(context, click.Argument(["study"]), incomplete) == []


_WORDS = Texts(
    [b"/none/tune.db\nmn", b"sqlite:////none/x\nom", b"postgresql://u:p@h/db\n", b"~/none.db\nx"],
    (b"~", b"~root", b"~nobody-x/", b"sqlite:///", b"://", b"\n", b"omp_", b"x" * 300, b"\0"),
)

TARGETS = (
    Target("row", row, _ROWS, share=0.4),
    Target("setting", setting, _SETTINGS, share=2.0),
    Target("url", url, _url, share=0.4),
    Target("surface", recorded, _SURFACES, share=1.2),
    Target("completion", completion, _WORDS, share=1.0),
)
