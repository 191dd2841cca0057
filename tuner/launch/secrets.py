"""Hides what must not be kept or shown: passwords, tokens and keys in commands, URLs and texts.

A secret is recognized by the name before it, by its place in a URL, by the prefix that a service
gives its tokens, or as the value of such a variable in this environment. Programs get the real
values; what is stored, exported or printed has ``***``.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from urllib.parse import quote, unquote

from tuner.model import Failed, Finished, LaunchRecord, StudySpec
from tuner.model.errors import UsageError

#: Stands in place of a secret. A text that had it from the start counts as one that hides a secret.
HIDDEN = "***"

#: Is called with each secret that is hidden.
OnSecret = Callable[[str], object]

# --- names of options, variables and fields -------------------------------------------------------

_NAME_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")

#: Names whose values are secrets, however short.
_PASSWORD = re.compile(r"password|passwd|passphrase|passcode|secret|credential|api_?key")
#: The last words of other names of secrets: some with the word before them, some whatever is
#: written before them (``HFTOKEN``, ``USERPWD``).
_SECRET = re.compile(
    r"((^|_)(pass|pw|pat|cred|auth|authorization|bearer"
    r"|(admin|app|db|ftp|git|http|key|ldap|login|mail|my|mysql|pg|proxy|root|smtp|sql|ssh|store"
    r"|user|vnc|web)_?(pass|pw)"
    r"|(access|account|app|auth|client|deploy|encryption|hmac|license|master|private|rsa|service"
    r"|session|shared|signing|ssh|ssl|storage|subscription|wandb)_?key"
    r"|(ado|azure|gh|git|github|gitlab|jira)pat|(basic|http|proxy|redis)auth)"
    r"|cookie|creds|jwt|psk|pwd|token|webhook)(_(dev|live|prod|production|staging|test))?"
    r"(_?[0-9])?$"
)
#: The last word of names that only speak of a secret: where it lies, how long it is; and names of
#: a folder and of a pass over data.
_ABOUT = re.compile(
    r"_(backend|count|dims?|dir|endpoint|env|file|format|helper|len|length|limit|method|mode|name"
    r"|path|provider|size|types?|uri|url|var)$"
    r"|(^|_)(base|build|cur|current|init|initial|last|old|orig|original|prev|save|saved|src|start"
    r"|top)_?pwd$"
    r"|(^|_)(first|last|max|min|multi|n|no|num|one|second|single|third|three|two)_pass$"
)
#: Names of secrets in the query of a URL; elsewhere they are too common.
_IN_QUERY = re.compile(r"sig|key|code|(.*[_-])?signature", re.IGNORECASE)
#: Options that take ``NAME:PASSWORD``.
_LOGINS = frozenset({"-u", "-U", "--user", "--proxy-user", "--login"})

_PLACEHOLDER = re.compile(r"\{\w+\}")
_SHORT_NUMBER = re.compile(r"[+-]?[0-9]{1,5}(?:\.[0-9]*)?")
#: A text of letters and many figures: it may be a key, though its name does not say so.
_RANDOM = re.compile(r"(?=(?:.*[0-9]){5})(?=.*[A-Za-z])[\w+=~-]{16,}")


def _words(name: str) -> str:
    """Return the words of a name: ``HFToken``, ``hf-token``, ``HF_TOKEN`` are ``hf_token``."""
    return "_".join(_NAME_PART.findall(name)).lower()


def is_secret(name: str) -> bool:
    """Return whether a name is ``password``, ``--api-key``, ``HF_TOKEN`` or the like.

    A name in capitals is a variable's, which also holds a secret if it ends in KEY.
    """
    words = _words(name)
    if name == "PWD" or _ABOUT.search(words):
        return False
    is_key = name.isupper() and re.search(r"(^|_)keys?$", words) is not None
    return is_key or any(pattern.search(words) for pattern in (_PASSWORD, _SECRET))


def _may_hold(name: str) -> bool:
    """Return whether an option, a variable or a field may take a secret, by its name alone."""
    return name in _LOGINS or _words(name) == "key" or is_secret(name.lstrip("-+~"))


def _secret_in(name: str, value: str) -> int | None:
    """Return where a secret starts in the value of a name; ``None`` if it has none."""
    if not value or _PLACEHOLDER.fullmatch(value) or not _may_hold(name):
        return None
    if name in _LOGINS:
        user, _, password = value.partition(":")
        # Figures are a group, as of `docker --user 1000:1000`.
        is_none = not password or password.isdigit() or _PLACEHOLDER.fullmatch(password)
        return None if is_none else len(user) + 1
    words = _words(name)
    if words == "key":
        return 0 if _RANDOM.fullmatch(value) else None
    is_file = "cred" in words and value.endswith((".json", ".pem", ".txt"))  # of credentials
    is_number = _SHORT_NUMBER.fullmatch(value) and not _PASSWORD.search(words)
    return None if is_file or is_number else 0


# --- texts ----------------------------------------------------------------------------------------

#: Passwords and tokens by their place or by the prefix that a service gives its own: what precedes
#: the secret, and the secret.
_PLACES = tuple(
    re.compile(before + secret, re.DOTALL)
    for before, secret in (
        # ``scheme://user:password@host``; figures and a slash are a port.
        (
            r"(:/{1,3}(?::|[^\s:@/]{1,256}:(?![0-9]{1,5}/)))",
            r"((?:[^\s@]{1,4096}+@){0,4}[^\s@]{1,4096}+)(?=@)",
        ),
        (r"(https?://)", r"([^\s:@/?#]{6,512})(?=@)"),
        (r"(\b[Bb]earer\s+)", r"([^\s\"'@?]{6,})"),
        # An address at which whoever knows it may write.
        (
            r"(https?://(?:[^\s\"'?#]{1,200}/(?:web)?hooks?(?:b2)?/|hooks?\.[\w.:-]{1,200}/))",
            r"([^\s\"'?#<>(){}|,;]{16,})",
        ),
        (
            r"()",
            r"(-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]{0,40}-----|\Z))",
        ),
        (
            r"()",
            r"((?<![A-Za-z0-9])(?:gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}"
            r"|(?:AKIA|ASIA)[A-Z0-9]{12,}|xox[a-z]-[\w-]{8,}|sk-[\w-]{12,}|npm_[A-Za-z0-9]{16,}"
            r"|[sr]k_(?:live|test)_\w{8,}|hf_[A-Za-z0-9]{12,}|pypi-[\w-]{16,}|AIza[\w-]{24,}"
            r"|eyJ[\w-]{6,}\.[\w-]{6,}(?:\.[\w-]*)?))",
        ),
    )
)
#: ``--name VALUE``, ``name=VALUE``, ``"name": VALUE``: the name and what precedes the value.
_NAMED = re.compile(
    r"(?<![\w.-])(?:(--?[A-Za-z][\w.-]{0,63})(?:=|(?:[^\S\r\n]|\\\r?\n)+)"
    r"|([A-Za-z_][\w.-]{0,63})[\"']?\s{0,3}(?:=|:(?!/))\s{0,3})"
)
#: A value: quoted parts side by side as a shell joins them, or all up to a mark.
_VALUE = re.compile(
    r"(?:\"(?:[^\"\\]|\\.)*\"|'[^']*')+"
    r"|(?:(?:Bearer|Basic|Token)\s+)?(?:\{\w+\}|\\(?!\r?\n).|[^\s\"'&,;)}\]\\])+",
    re.DOTALL,
)
#: A value that a shell replaces: by the output of a command, or by a variable.
_EXPANDED = re.compile(r"\"?\$(?:\(|\{\w+\}|[A-Z_][A-Z0-9_]*\b)")
_OPTION = re.compile(r"--[A-Za-z][\w.-]*(=.*)?|-[A-Za-z]", re.DOTALL)
_ASSIGNED = re.compile(r"([-+~]{0,2}[A-Za-z_][\w.-]*)=(.+)", re.DOTALL)


def hide(text: str, on_secret: OnSecret = lambda _: None) -> str:
    """Return the text with ``***`` for what looks like a secret; `on_secret` is called with each.

    A password is hidden as far as it can be recognized as one.
    """

    def hidden(match: re.Match[str]) -> str:
        if match[2] != HIDDEN:
            on_secret(match[2])
        return match[1] + HIDDEN

    for place in _PLACES:
        text = place.sub(hidden, text)
    parts, end = [], 0  # the result up to this place of the text
    for match in _NAMED.finditer(text):
        name = match[1] or match[2]
        in_query = text.endswith(("?", "&"), 0, match.start()) and _IN_QUERY.fullmatch(name)
        if match.start() < end or not (in_query or _may_hold(name)):
            continue
        value = _VALUE.match(text, match.end())
        if value is None or _EXPANDED.match(value[0]):
            continue
        unquoted, quotation = value[0], value[0][0] if value[0][0] in "\"'" else ""
        if quotation or "\\" in unquoted:
            with suppress(ValueError):  # a quotation without an end
                unquoted = "".join(shlex.split(unquoted))
        if match[1] and _OPTION.fullmatch(unquoted):
            continue  # the option takes no value: this is the next option
        start = _secret_in("token" if in_query else name, unquoted)
        if start is None or unquoted[start:] in {"", HIDDEN}:
            continue
        on_secret(unquoted[start:])
        parts += [text[end : match.end()], f"{quotation}{unquoted[:start]}{HIDDEN}{quotation}"]
        end = value.end()
    return "".join(parts) + text[end:]


def _redacted(argv: Sequence[str], hide_in: Callable[[str], str], on_secret: OnSecret) -> list[str]:
    """Return a command with ``***`` for secrets; `hide_in` hides those within other words."""
    words = []
    # Each word with the two before it: MPICH has ``-genv NAME VALUE``.
    for setter, option, word in zip(("", "", *argv), ("", *argv), argv, strict=False):
        is_value = option[:1] == "-" and "=" not in option and not _OPTION.fullmatch(word)
        before, name, value = "", option, word
        if not (is_value or setter in {"-env", "-genv"}) or _secret_in(option, word) is None:
            assigned = _ASSIGNED.fullmatch(word)
            name, value = assigned.groups() if assigned else ("", "")
            before = f"{name}="
        start = _secret_in(name, value) if name else None
        if start is None:
            words.append(hide_in(word))
            continue
        if value[start:] != HIDDEN:
            on_secret(value[start:])
        words.append(before + value[:start] + HIDDEN)
    return words


# --- the secrets of one environment ---------------------------------------------------------------

#: Shorter values are part of too many words that are no secrets, characters.
SHORTEST_SECRET = 6
#: Of a secret of several lines each line of this length is hidden by itself, characters.
LONG_LINE = 16
#: Values that are no secrets, whatever the name of their variable.
_EMPTY_WORDS = frozenset({"true", "false", "none", "null", "default", "enabled", "disabled"})


@dataclass(frozen=True)
class Redactor:
    """Hides certain ``secrets``, and all that looks like one.

    ``suspects`` are values that may be secrets: they are hidden in texts, but not in commands,
    which a study runs again.
    """

    secrets: frozenset[str] = frozenset()
    suspects: frozenset[str] = frozenset()

    @classmethod
    def of(cls, environ: Mapping[str, str], *commands: Sequence[str]) -> Redactor:
        """Return the redactor of all secrets in an environment and in these commands, unhidden."""
        values = {value for name, value in environ.items() if is_secret(name)}
        for value in environ.values():  # to collect the secrets; the texts are not used
            hide(value, values.add)
        for command in commands:
            _redacted(command, lambda word: hide(word, values.add), values.add)
        secrets = {s for s in values if len(s) >= SHORTEST_SECRET and s.lower() not in _EMPTY_WORDS}
        return cls(frozenset(secrets), frozenset(filter(_RANDOM.fullmatch, environ.values())))

    def text(self, text: str) -> str:
        """Return the text without secrets and suspects."""
        return hide(self._suspect_pattern.sub(HIDDEN, text))

    def words(self, argv: Sequence[str]) -> tuple[str, ...]:
        """Return the command without secrets; as many words as before."""

        def hide_in(word: str) -> str:
            return hide(self._secret_pattern.sub(HIDDEN, word))

        return tuple(_redacted(argv, hide_in, lambda _: None))

    @cached_property
    def _secret_pattern(self) -> re.Pattern[str]:
        return _any_of(self.secrets)

    @cached_property
    def _suspect_pattern(self) -> re.Pattern[str]:
        return _any_of(self.secrets | self.suspects)


def _any_of(secrets: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern of the secrets, the longest first: plain, in a URL, quoted, line by line."""
    forms: set[str] = set()
    for secret in secrets:
        encoded = quote(secret, safe="", errors="backslashreplace")
        forms |= {secret, encoded, unquote(secret), json.dumps(secret)[1:-1], repr(secret)[1:-1]}
        forms |= {line for line in map(str.strip, secret.splitlines()) if len(line) >= LONG_LINE}
    longest_first = sorted((f for f in forms if len(f) >= SHORTEST_SECRET), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")  # (?!) matches nothing


# --- commands, studies and launches ---------------------------------------------------------------


def refuse_secrets(words: Sequence[str], environ: Mapping[str, str]) -> None:
    """Raise ``UsageError`` for a command with a secret: a study file would keep it in plain."""
    shown = Redactor.of(environ, words).words(words)
    for index, (word, kept) in enumerate(zip(words, shown, strict=True)):
        if word != kept:
            part = shlex.join(shown[max(0, index - 1) : index + 1])  # with the word before it
            raise UsageError(
                f"the command holds a secret, {part}, and a study file would keep it in plain",
                "keep it in a variable, which the ranks inherit: export PASSWORD=…\n"
                "tune init -- … sh -c 'exec PROGRAM --password \"$PASSWORD\"'",
            )


#: The fields of a study that are words of commands.
_COMMAND_FIELDS = ("command", "job", "prepare", "hosts_from", "typed")


def redact_spec(spec: StudySpec, environ: Mapping[str, str]) -> StudySpec:
    """Return the study as it may be stored: the same, but for secrets in its commands."""
    launcher, commands = spec.launcher, [getattr(spec, name) for name in _COMMAND_FIELDS]
    redactor = Redactor.of(environ, *commands, launcher.extra_args, launcher.ssh)
    hidden: dict[str, Any] = dict(zip(_COMMAND_FIELDS, map(redactor.words, commands), strict=True))
    args, ssh = redactor.words(launcher.extra_args), redactor.words(launcher.ssh)
    return replace(
        spec,
        launcher=replace(launcher, extra_args=args, ssh=ssh),
        environment=tuple((name, redactor.text(value)) for name, value in spec.environment),
        **hidden,
    )


#: The hint for a secret in a command.
_HINT = "let the program read it from a file or a variable"


def require_none_hidden(spec: StudySpec, option: str, command_hint: str = _HINT) -> None:
    """Raise ``UsageError`` if a stored study that an option asks to run hides a secret."""
    for name, words, hint in (
        ("command", spec.command, command_hint),
        ("--prepare", spec.prepare, _HINT),
        ("--mpirun-arg", spec.launcher.extra_args, _HINT),
        ("--ssh", spec.launcher.ssh, _HINT),
    ):
        if any(HIDDEN in word for word in words):
            text = f"{option}: the stored {name} hides a secret, so it cannot be run here"
            raise UsageError(text, hint)


def kept_record(record: LaunchRecord, environ: Mapping[str, str]) -> LaunchRecord:
    """Return the launch as it may be stored and shown: without secrets in words and reasons."""
    redactor = Redactor.of(environ, record.argv)
    ending = record.outcome.ending
    if isinstance(ending, Failed):
        reason, tail = redactor.text(ending.reason), redactor.text(ending.log_tail)
        ending = replace(ending, reason=reason, log_tail=tail)
    elif isinstance(ending, Finished) and (read := ending.reading) is not None:
        before, after = redactor.text(read.before), redactor.text(read.after)
        ending = replace(ending, reading=replace(read, before=before, after=after))
    return replace(
        record,
        argv=redactor.words(record.argv),
        env={name: redactor.text(value) for name, value in record.env.items()},
        outcome=replace(record.outcome, ending=ending),
    )


# --- the environment that is kept -----------------------------------------------------------------

#: How variables begin that bear on speed: those of OpenMP, of BLAS, other libraries, MPIs and CUDA.
FAMILIES = (
    "OMP_", "GOMP_", "KMP_", "OPENBLAS_", "GOTO_", "MKL_", "BLIS_", "NUMEXPR_", "VECLIB_",
    "OPENCV_", "MALLOC_", "OMPI_MCA_", "PRTE_MCA_", "PMIX_MCA_", "MPICH_", "MPIR_CVAR_", "HYDRA_",
    "I_MPI_", "UCX_", "FI_", "NCCL_", "CUDA_", "CUPY_", "CHAINER_", "CHAINERMN_",
)  # fmt: skip
#: Other ones, which are kept even if their values look random.
NAMES = frozenset({"CUDA_VISIBLE_DEVICES", "GLIBC_TUNABLES", "LD_PRELOAD", "MPI4PY_LIBMPI"})
#: What separates the parts of a list or a path.
_SEPARATORS = re.compile(r"[/:,;=.\s]")
_PLAIN = re.compile(r"[\w ./:,;=+^*@%\[\]{}()<>|&!?~#-]*")


def recorded_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what may be kept of an environment, by name; ``***`` for what may be a secret."""
    kept = {}
    for name, value in sorted(environ.items()):
        if name in NAMES:
            kept[name] = hide(value)
        elif name.startswith(FAMILIES) and not is_secret(name):
            is_random = any(map(_RANDOM.match, _SEPARATORS.split(value)))
            kept[name] = HIDDEN if is_random or not _PLAIN.fullmatch(value) else hide(value)
    return kept
