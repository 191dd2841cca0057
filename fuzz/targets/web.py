"""Requests to the dashboard, as anybody on the machine can send them."""

from __future__ import annotations

import io
import re
from typing import Any
from urllib.parse import unquote

from fuzz.target import Target
from fuzz.texts import Texts
from tuner.results.dashboard import access, guard

_TOKEN = "0123456789abcdefTOKEN"
_DOOR = access.AccessPolicy(_TOKEN, frozenset({"node1"}))
_FIELDS = (
    *("REQUEST_METHOD", "PATH_INFO", "QUERY_STRING", "HTTP_HOST", "HTTP_ORIGIN", "HTTP_COOKIE"),
    *("HTTP_AUTHORIZATION", "HTTP_SEC_FETCH_SITE", "CONTENT_LENGTH", "CONTENT_TYPE"),
)
_HEADER = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


def requests(data: bytes) -> None:
    """A stranger's request, a field a line: answered or refused, never an error."""
    *fields, body = data.split(b"\n", len(_FIELDS))
    environ: dict[str, Any] = {"REQUEST_METHOD": "GET", "wsgi.input": io.BytesIO(body)}
    # as the server hands it over: latin-1, a field that is empty is not there
    texts = (field.replace(b"\r", b"").decode("latin-1") for field in fields)
    environ |= {name: text for name, text in zip(_FIELDS, texts, strict=False) if text}
    asked = dict(environ)
    statuses: list[str] = []

    def start(status: str, headers: list[tuple[str, str]], *_: object) -> Any:
        statuses.append(status)
        for name, value in headers:
            assert _HEADER.fullmatch(value), f"{name} ends in the middle"
            if name == "Location":
                assert value.startswith("/"), value
                assert value[1:2] not in {"/", "\\"}, "another host"

    def inside(environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 Inside", [])
        return [environ["wsgi.input"].read()]

    for chunk in guard.guarded(inside, _DOOR)(environ, start):
        assert isinstance(chunk, bytes)
    assert len(statuses) == 1, statuses
    if statuses == ["200 Inside"] or statuses[0].startswith("303"):
        shown = " ".join(asked.get(name, "") for name in _FIELDS if name != "PATH_INFO")
        assert _TOKEN in unquote(shown), "let in without the token"
        assert asked.get("HTTP_ORIGIN", "").lower() in {"", f"http://{asked['HTTP_HOST']}".lower()}


_REQUESTS = Texts(
    [
        b"GET\n/dashboard/\ntoken=0123456789abcdefTOKEN\nlocalhost:8080\n\n\n\n\n\n\n",
        b"GET\n/\n\n127.0.0.1:8080\nhttp://127.0.0.1:8080\n"
        b"tune_dashboard_8080=0123456789abcdefTOKEN; a=b\n\nsame-origin\n\n\n",
        b"GET\n/api/studies\n\nnode1:80\nhttp://node1:80\n\nBearer 0123456789abcdefTOKEN\n\n"
        b'12\napplication/json\n{"a": "bcd"}',
        b"GET\n//evil.example/x\ntoken=0123456789abcdefTOKEN&a=1\n[::1]:8080\n\n\n\n\n\n\n",
    ],
    [
        b"token=",
        b"0123456789abcdefTOKEN",
        b"%0d%0a",
        b"//",
        b"localhost",
        b"127.0.0.1",
        b"[::1]",
        b"evil.example",
        b"tune_dashboard_80=",
        b"; ",
        b"&",
        b"Basic ",
        b"token ",
        b"null",
        b"\xe9",
    ],
)

TARGETS = (Target("requests", requests, _REQUESTS, share=1.0),)
