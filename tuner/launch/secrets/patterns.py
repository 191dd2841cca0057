"""What looks like a secret: by its name, its option, its shape (pure)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise

#: Stands in place of a secret. A text that had it from the start counts as one that hides one.
HIDDEN = "***"

#: Collects what was hidden.
OnSecret = Callable[[str], object]

# --- names: of options, variables and fields ------------------------------------------------

_NAME_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")

#: Anywhere in a word: ``PGPASSWORD``, ``sslpassword``, ``clientsecret``.
_ANYWHERE = ("password", "passwd", "passphrase", "passcode", "secret", "apikey", "credential")
#: At the end of a word: ``authtoken``, but neither ``tokens`` nor ``tokenizer``.
_AT_ITS_END = ("token", "accesskey", "privatekey")
_WHOLE = frozenset(
    {"pass", "pwd", "pw", "pat", "auth", "authorization", "cookie", "creds", "jwt", "bearer"}
    | {"psk", "webhook"}
)
#: What a key is called that is none of a table or a list.
_KEYS = frozenset(
    {"access", "account", "api", "app", "auth", "client", "comet", "deploy", "encryption"}
    | {"hmac", "license", "master", "neptune", "openai", "private", "rsa", "secret", "service"}
    | {"session", "shared", "signing", "ssh", "ssl", "storage", "subscription", "wandb"}
)
#: The last word of names that only speak of a secret: where it lies, how long it is.
_ABOUT = frozenset(
    {"backend", "budget", "count", "dim", "dims", "dir", "endpoint", "env", "file", "filename"}
    | {"folder", "format", "helper", "len", "length", "level", "limit", "method", "mode", "name"}
    | {"path", "provider", "rate", "size", "sock", "type", "types", "uri", "url", "var"}
)
#: Not passwords: where a shell is.
_FOLDERS = frozenset({"PWD", "OLDPWD"})


def words(name: str) -> list[str]:
    """The words of a name, in lower case: ``HFToken``, ``hf-token`` and ``HF_TOKEN`` are two."""
    return [word.lower() for word in _NAME_PART.findall(name)]


def is_secret(name: str) -> bool:
    """True for ``password``, ``--api-key``, ``HF_TOKEN`` and the like."""
    found = words(name)
    if not found or found[-1] in _ABOUT or name in _FOLDERS:
        return False
    return any(map(_says_so, found)) or any(
        second == "key" and first in _KEYS for first, second in pairwise(found)
    )


def is_secret_variable(name: str) -> bool:
    """The same for an environment variable, which also holds a secret if it ends in KEY."""
    return is_secret(name) or words(name)[-1:] in (["key"], ["keys"])


def is_certain(name: str) -> bool:
    """True if even a short number is a secret: ``--password 1234``, but not ``--token 4``."""
    return any(part in word for word in words(name) for part in _ANYWHERE)


def _says_so(word: str) -> bool:
    return word in _WHOLE or word.endswith(_AT_ITS_END) or any(part in word for part in _ANYWHERE)


# --- options and their values, in a list of words and in a line of a shell --------------------

PLACEHOLDER = re.compile(r"\{\w+\}")

_OPTION = re.compile(r"--?([A-Za-z][\w.-]*)")
_SHORT_NUMBER = re.compile(r"[+-]?[0-9]{1,5}(?:\.[0-9]*)?")
#: Long, of letters and figures: no word and no name of a column.
_LONG_RANDOM = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])[\w+=~-]{16,}")
#: MPICH's ``-genv NAME VALUE``.
_SETS_VARIABLE = frozenset({"-env", "-genv", "--env", "--genv"})
#: curl's and others' ``NAME:PASSWORD``.
_LOGIN_OPTIONS = frozenset({"-u", "-U", "--user", "--proxy-user", "--login"})
#: Such an option takes a secret, or the file that it is in.
_MAY_BE_FILE = re.compile(r"credential|creds", re.IGNORECASE)


def secret_after(setter: str, before: str, word: str) -> int | None:
    """Where in ``word`` a secret starts, by the two words before it; ``None`` if it has none."""
    if PLACEHOLDER.fullmatch(word):
        return None
    if _is_value(before, word) or (setter in _SETS_VARIABLE and is_secret_variable(before)):
        return 0
    return password_of(before, word)


def password_of(option: str, word: str) -> int | None:
    """Where the password starts in the ``NAME:PASSWORD`` that ``option`` takes, if it does."""
    name, _, password = word.partition(":")
    plain = not password or password.isdigit() or PLACEHOLDER.fullmatch(password)
    return None if option not in _LOGIN_OPTIONS or plain else len(name) + 1


def may_be_secret(name: str, value: str) -> bool:
    """False for a knob's place, and for what such a name also takes: a small number, a path."""
    if PLACEHOLDER.fullmatch(value):
        return False
    if _MAY_BE_FILE.search(name) and ("/" in value or value.endswith(".json")):
        return False
    return is_certain(name) or _SHORT_NUMBER.fullmatch(value) is None


def _is_value(option: str, word: str) -> bool:
    """Whether ``word`` is the secret that ``option`` takes."""
    named = _OPTION.fullmatch(option)
    if named is None or not word or _is_option(word):
        return False
    if words(named[1]) == ["key"]:
        return _LONG_RANDOM.fullmatch(word) is not None or word == HIDDEN
    return is_secret(named[1]) and may_be_secret(named[1], word)


def _is_option(word: str) -> bool:
    return re.fullmatch(r"--[A-Za-z][\w.-]*(=.*)?|-[A-Za-z]", word, re.DOTALL) is not None


_ASSIGNED = re.compile(r"([-+~]{0,2}([A-Za-z_][\w.-]*)=)(.+)", re.DOTALL)


def hide_words(argv: Sequence[str], hide: Callable[[str], str], found: OnSecret) -> tuple[str, ...]:
    """The words with ``***`` for secrets.

    Args:
        argv: A command, or a template of one; a placeholder is never a secret.
        hide: Hides more in the text of a word.
        found: Told each secret.
    """

    def at(number: int) -> str:
        word = argv[number]
        before = argv[number - 1] if number else ""
        setter = argv[number - 2] if number > 1 else ""
        if (start := secret_after(setter, before, word)) is not None:
            return gone(word, start)
        assigned = _ASSIGNED.fullmatch(word)
        if assigned is None:
            return hide(word)
        if (start := password_of(assigned[1][:-1], assigned[3])) is not None:
            return gone(word, assigned.start(3) + start)
        name = assigned[2]
        if is_secret(name) or (name.isupper() and is_secret_variable(name)):
            secret = may_be_secret(name, assigned[3])
            return gone(word, assigned.start(3)) if secret else assigned[1] + hide(assigned[3])
        return hide(word)

    def gone(word: str, start: int) -> str:
        if word[start:] not in ("", HIDDEN):
            found(word[start:])
        return word[:start] + HIDDEN

    return tuple(map(at, range(len(argv))))


#: A word as a shell reads it: quoted and other parts side by side. It may run over lines.
_SHELL_WORD = re.compile(
    r"(?:\"(?:[^\"\\]|\\.)*\"|'[^']*'|[^\s\"'`;&|<>()\\]|\\(?!\r?\n).)+", re.DOTALL
)
_QUOTED = re.compile(r"\"((?:[^\"\\]|\\.)*)\"|'([^']*)'", re.DOTALL)
#: What stands between an option and its value.
_BLANKS = re.compile(r"(?:[^\S\r\n]|\\\r?\n)+")
#: What a shell puts something else for.
_EXPANDED = re.compile(r"\$(?:[A-Z_][A-Z0-9_]*|\{\w+\}|\(.*\))?", re.DOTALL)


def hide_options(text: str, found: OnSecret) -> str:
    """The text with ``***`` for the values of options in it, as in a line given to ``sh -c``."""
    parts, done, before, setter = [], 0, "", ""
    for match in _SHELL_WORD.finditer(text):
        if not _BLANKS.fullmatch(text, done, match.start()):
            before = setter = ""
        word = match[0].rstrip(",")
        parts += [text[done : match.start()], _hide_word(setter, before, word, found)]
        done = match.start() + len(word)
        before, setter = word, before
    return "".join(parts) + text[done:]


def _hide_word(setter: str, before: str, word: str, found: OnSecret) -> str:
    option, equals, value = word.partition("=")
    if option not in _LOGIN_OPTIONS or not equals:
        option, equals, value = "", "", word
    quote = value[0] if value[:1] in ("'", '"') and value[0] == value[-1] and value[1:] else ""
    bare = _QUOTED.sub(lambda part: part[1] or part[2] or "", value)
    if quote != "'" and _EXPANDED.fullmatch(bare):
        return word
    start = password_of(option, bare) if option else secret_after(setter, before, bare)
    if start is None:  # a command line may be quoted as a whole
        return _QUOTED.sub(lambda part: _hide_quoted(part, found), word) if " " in word else word
    if bare[start:] not in ("", HIDDEN):
        found(bare[start:])
    return f"{option}{equals}{quote}{bare[:start]}{HIDDEN}{quote}"


def _hide_quoted(part: re.Match[str], found: OnSecret) -> str:
    inner = part[0][1:-1]
    return f"{part[0][0]}{hide_options(inner, found)}{part[0][0]}"


# --- shapes: in URLs, behind a name, tokens of well-known services --------------------------------

#: ``scheme://user:password@host``: what stands before the password. Figures and a slash are a port.
_LOGIN = re.compile(r":/{1,3}(?::|[^\s:@/]{1,256}:(?![0-9]{1,5}/))")
_NO_BLANKS = re.compile(r"\S+")
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


def hide_shapes(text: str, found: OnSecret = lambda _: None) -> str:
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
        if not _is_named_in_text(name, in_query=match.re is _QUERY) or bare in ("", HIDDEN):
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

    text = _NO_BLANKS.sub(in_login, _TOKENS.sub(hide, text))
    for pattern in (_USER_ONLY, _HEADER, _BEARER, _WEBHOOK):
        text = pattern.sub(hide, text)
    for pattern in (_QUERY, _PAIR):
        text = pattern.sub(by_name, text)
    return hide_options(text, found)


def _is_named_in_text(name: str, *, in_query: bool) -> bool:
    low = name.lower()
    return is_secret(name) or (in_query and (low in _IN_QUERIES or low.endswith(_SIGNED)))
