"""Secrets by their looks: in URLs, after a name, and tokens of well-known services (pure)."""

from __future__ import annotations

import re

from tuner.launch.secrets.hidden import HIDDEN, Found
from tuner.launch.secrets.names import is_secret
from tuner.launch.secrets.options import PLACEHOLDER, hide_options

#: ``scheme://user:password@host``: what stands before the password. Figures and a slash are a port.
_LOGIN = re.compile(r":/{1,3}(?::|[^\s:@/]{1,256}:(?![0-9]{1,5}/))")
_WORD = re.compile(r"\S+")
#: ``https://token@host``, as git takes it.
_USER_ONLY = re.compile(r"(https?://)([^\s:@/?#]{6,512})(?=@)", re.IGNORECASE)
_QUERY = re.compile(r"([?&;#]([A-Za-z][\w.-]{0,63})=)([^\s&;#\"'<>]+)")
#: Only in a query: elsewhere they are too common for names of something else.
_IN_QUERIES = frozenset(
    {"sig", "signature", "key", "code", "x-amz-credential", "sslkey", "jsessionid", "phpsessid"}
)
_SIGNED = ("-signature", "-token")

_HEADER = re.compile(
    r"(\b(?:proxy-)?authorization[\"']?\s{0,3}[:=]\s{0,3}[\"']?)((?:[A-Za-z]{4,10}\s+)?[^\s\"']+)",
    re.IGNORECASE,
)
_BEARER = re.compile(r"(\bbearer\s+)([A-Za-z0-9._~+/=-]{6,})", re.IGNORECASE)
_PAIR = re.compile(
    r"(?<![\w.-])((?:--?)?([A-Za-z_][\w.-]{0,63})[\"']?\s{0,3}(?:=|:(?!/))\s{0,3})"
    r"(\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|[^\s\"'&,;)}\]]+)"
)

#: Who knows such an address may write there.
_WEBHOOK = re.compile(
    r"(\bhooks\.slack\.com/[a-z]{1,16}/|\bdiscord(?:app)?\.com/api/(?:v[0-9]{1,3}/)?webhooks/)"
    r"([\w/-]{6,})",
    re.IGNORECASE,
)

#: A knob's place, and no more, for a value.
_PLACE = re.compile(rf"[\"']?{PLACEHOLDER.pattern}(?![^\s\"'&,;)}}\]])")

#: Prefixes and forms that the services give their tokens, so that scanners find them.
_TOKENS = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]{0,40}-----|\Z)"
    r"|(?<![A-Za-z0-9])(?:"
    r"gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}"
    r"|(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{12,}"
    r"|xox[a-z]-[\w-]{8,}|xapp-[\w-]{8,}|sk-[\w-]{12,}|[sr]k_(?:live|test)_\w{8,}"
    r"|hf_[A-Za-z0-9]{12,}|npm_[A-Za-z0-9]{16,}|pypi-[\w-]{16,}|hv[sb]\.[\w-]{12,}"
    r"|dckr_pat_[\w-]{12,}|dop_v1_\w{16,}|SG\.[\w-]{12,}\.[\w-]{12,}|AIza[\w-]{24,}"
    r"|ya29\.[\w-]{12,}|eyJ[\w-]{6,}\.[\w-]{6,}(?:\.[\w-]*)?"
    r")",
    re.DOTALL,
)


def hide_shapes(text: str, found: Found = lambda _: None) -> str:
    """The text with ``***`` for what looks like a secret.

    Args:
        text: Any text; of a password only the part that can be seen as one is hidden.
        found: Told each secret.
    """

    def hide(match: re.Match[str]) -> str:
        before, value = match.groups() if match.re.groups else ("", match[0])
        if value.strip("\"'") != HIDDEN:
            found(value.strip("\"'"))
        return before + HIDDEN

    def by_name(match: re.Match[str]) -> str:
        before, name, value = match.groups()
        bare = value.strip("\"'")
        if not _is_named(name, in_query=match.re is _QUERY) or bare in ("", HIDDEN):
            return match[0]
        if _PLACE.match(match.string, match.start(3)):
            return match[0]
        found(bare)
        quote = value[0] if value[0] in "\"'" else ""
        return f"{before}{quote}{HIDDEN}{quote}"

    def in_login(match: re.Match[str]) -> str:
        """Up to the last @ of the word, as a password may hold others."""
        word = match[0]
        end = word.rfind("@")
        start = _LOGIN.search(word, 0, max(end, 0))
        if start is None or start.end() == end:
            return word
        if (value := word[start.end() : end].strip("\"'")) != HIDDEN:
            found(value)
        return word[: start.end()] + HIDDEN + word[end:]

    text = _WORD.sub(in_login, _TOKENS.sub(hide, text))
    for pattern in (_USER_ONLY, _HEADER, _BEARER, _WEBHOOK):
        text = pattern.sub(hide, text)
    for pattern in (_QUERY, _PAIR):
        text = pattern.sub(by_name, text)
    return hide_options(text, found)


def _is_named(name: str, *, in_query: bool) -> bool:
    low = name.lower()
    return is_secret(name) or (in_query and (low in _IN_QUERIES or low.endswith(_SIGNED)))
