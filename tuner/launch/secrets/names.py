"""Names that say that their value is a secret: of options, variables and fields."""

from __future__ import annotations

import re
from itertools import pairwise

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")

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
    return [word.lower() for word in _WORD.findall(name)]


def is_secret(name: str) -> bool:
    """True for ``password``, ``--api-key``, ``HF_TOKEN`` and the like."""
    found = words(name)
    if not found or found[-1] in _ABOUT or name in _FOLDERS:
        return False
    return any(map(_says_so, found)) or any(
        second == "key" and first in _KEYS for first, second in pairwise(found)
    )


def is_secret_variable(name: str) -> bool:
    """The same for an environment variable, which also holds a secret where it ends in KEY."""
    return is_secret(name) or words(name)[-1:] in (["key"], ["keys"])


def is_certain(name: str) -> bool:
    """True where even a short number is a secret: ``--password 1234``, but not ``--token 4``."""
    return any(part in word for word in words(name) for part in _ANYWHERE)


def _says_so(word: str) -> bool:
    return word in _WHOLE or word.endswith(_AT_ITS_END) or any(part in word for part in _ANYWHERE)
