"""What must not be kept or shown: passwords, tokens and keys in commands, URLs and texts.

A secret is known by the name it goes by, by its shape, or as the value of such a variable in
this environment. Programs get the real values; what is stored, exported or printed has ``***``.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import PurePath
from urllib.parse import quote, unquote

from tuner.launch.launch_line import ASSIGNMENT
from tuner.model import Failed, Finished, LaunchRecord, StudySpec
from tuner.model.errors import UsageError

#: Stands in place of a secret. A text that had it from the start counts as one that hides one.
HIDDEN = "***"

#: Collects what was hidden.
OnSecret = Callable[[str], object]

# --- names of options, variables and fields -------------------------------------------------------

_NAME_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")

#: Names whose values are secrets, however short.
_PASSWORD = re.compile(r"password|passwd|passphrase|passcode|secret|apikey|credential")
#: Words in such a name, alone or with others written before them: ``SSHPASS``, ``mypwd``.
_SECRET = re.compile(
    rf"{_PASSWORD.pattern}"
    r"|(token|pass|pwd|creds|cookie|jwt|psk|webhook|authorization)(_|[0-9]*$)"
    r"|(^|_|admin|app|db|ftp|git|http|key|ldap|login|mail|my|pg|proxy|root|smtp|sql|ssh|store|user"
    r"|vnc|web)pw(_|$)"
    r"|(^|_|git|gh|gitlab|github|azure|ado|jira)pat(_|$)"
    r"|(^|_|basic|http|proxy|redis)auth(_|$)|(^|_)bearer(_|$)"
    r"|(access|account|api|app|auth|client|deploy|encryption|hmac|license|master|private|rsa"
    r"|secret|service|session|shared|signing|ssh|ssl|storage|subscription|wandb)_?key(_|$)"
)
#: Other words that end in ``pass`` or ``pwd``, and names of which ``pass`` is the verb.
_NO_PASSWORD = re.compile(
    r"(all|and|ask|back|backward|band|by|com|do|dont|encom|first|fore|forward|full|high|im|last|low"
    r"|max|mid|min|multi|n|next|no|num|one|over|per|post|pre|quick|re|render|second|shadow|single"
    r"|skip|sub|sur|third|three|tres|two|under|x)_?pass(?=_|[0-9]*$)"
    r"|(?<![a-z])pass(?=_(args?|by|env|fds|fail|on|over|phase|rate|thr(u|ough))(_|$))"
    r"|(base|build|cur|current|init|initial|last|old|orig|original|prev|root|save|saved|src|start"
    r"|top)_?pwd(?=_|$)"
)
#: The last word of names that only speak of a secret: where it lies, how long it is.
_ABOUT = re.compile(
    r"(^|_)(backend|budget|count|dims?|dir|endpoint|env|file|filename|folder|format|helper|len"
    r"|length|level|limit|method|mode|name|path|provider|rate|size|sock|types?|uri|url|var)$"
)
#: Secrets if they stand in the query of a URL; elsewhere such names are too common.
_IN_QUERY = re.compile(
    r"sig|key|code|sslkey|jsessionid|phpsessid|x-amz-credential|(.*-)?(signature|token)"
)
#: Options that take ``NAME:PASSWORD``.
_LOGINS = frozenset({"-u", "-U", "--user", "--proxy-user", "--login"})

PLACEHOLDER = re.compile(r"\{\w+\}")
_SHORT_NUMBER = re.compile(r"[+-]?[0-9]{1,5}(?:\.[0-9]*)?")
#: Of letters and many figures: a key, though the name does not say so.
_RANDOM = re.compile(r"(?=(?:.*[0-9]){5})(?=.*[A-Za-z])[\w+=~-]{16,}")


def _words(name: str) -> str:
    """The words of a name: ``HFToken``, ``hf-token`` and ``HF_TOKEN`` are ``hf_token``."""
    return "_".join(_NAME_PART.findall(name)).lower()


def is_secret(name: str) -> bool:
    """True for ``password``, ``--api-key``, ``HF_TOKEN`` and the like."""
    words = _words(name)
    if name == "PWD" or _ABOUT.search(words):
        return False
    return _SECRET.search(_NO_PASSWORD.sub("", words)) is not None


def is_secret_variable(name: str) -> bool:
    """The same for an environment variable, which also holds a secret if it ends in KEY."""
    return is_secret(name) or re.search(r"(^|_)keys?$", _words(name)) is not None


def _may_hold(name: str) -> bool:
    """Whether an option, a variable or a field takes a secret, some of which are none."""
    bare = name.lstrip("-+~")
    takes = is_secret_variable(bare) if bare.isupper() else is_secret(bare)
    return takes or name in _LOGINS or bare.lower() == "key"


def _secret_in(name: str, value: str) -> int | None:
    """Where a secret starts in the value of a name that may hold one; ``None`` if it has none."""
    if not value or PLACEHOLDER.fullmatch(value):
        return None
    if name in _LOGINS:
        user, _, password = value.partition(":")
        plain = not password or password.isdigit() or PLACEHOLDER.fullmatch(password)
        return None if plain else len(user) + 1
    words = _words(name)
    if "cred" in words and value.endswith((".json", ".pem", ".txt")):
        return None  # the file that they are in
    if words == "key":
        return 0 if _RANDOM.fullmatch(value) else None
    return None if _SHORT_NUMBER.fullmatch(value) and not _PASSWORD.search(words) else 0


# --- words of a command ---------------------------------------------------------------------------

_ASSIGNED = re.compile(r"([-+~]{0,2}[A-Za-z_][\w.-]*)=(.+)", re.DOTALL)
_OPTION = re.compile(r"--[A-Za-z][\w.-]*(=.*)?|-[A-Za-z]", re.DOTALL)


def hide_words(
    argv: Sequence[str], hide: Callable[[str], str], on_secret: OnSecret
) -> tuple[str, ...]:
    """The words with ``***`` for secrets.

    Args:
        argv: A command, or a template of one; a placeholder is never a secret.
        hide: Hides more in the text of a word.
        on_secret: Called with each secret.
    """
    words = []
    for (setter, before), word in zip(pairwise(("", "", *argv)), argv, strict=False):
        head, name, value = "", before, word
        # MPICH has ``-genv NAME VALUE``.
        takes = (before.startswith("-") and not _OPTION.fullmatch(word)) or setter in {
            "-env",
            "-genv",
        }
        if before == "-p" and PurePath(setter).name == "sshpass":
            name = "password"
        elif word.startswith("-p") and PurePath(before).name == "sshpass":
            head, name, value = "-p", "password", word[2:]
        elif not takes or not _may_hold(before):
            assigned = _ASSIGNED.fullmatch(word)
            name, value = assigned.groups() if assigned else ("", "")
            head = f"{name}="
        start = _secret_in(name, value) if _may_hold(name) else None
        if start is None:
            words.append(hide(word))
            continue
        if value[start:] != HIDDEN:
            on_secret(value[start:])
        words.append(head + value[:start] + HIDDEN)
    return tuple(words)


# --- texts ----------------------------------------------------------------------------------------

#: ``--name VALUE``, ``name=VALUE``, ``"name": VALUE``: the name and what precedes the value.
_NAMED = re.compile(
    r"(?<![\w.-])(?:(--?[A-Za-z][\w.-]{0,63})(?:=|(?:[^\S\r\n]|\\\r?\n)+)"
    r"|([A-Za-z_][\w.-]{0,63})[\"']?\s{0,3}(?:=|:(?!/))\s{0,3})"
)
#: A value: quoted parts side by side as a shell joins them, or all up to a mark.
_VALUE = re.compile(
    r"(?:\"(?:[^\"\\]|\\.)*\"|'[^']*')+"
    r"|(?:(?:Bearer|Basic|Digest|Token)\s+)?(?:\{\w+\}|\\(?!\r?\n).|[^\s\"'&,;)}\]\\])+",
    re.DOTALL,
)
#: What a shell puts something else for.
_EXPANDED = re.compile(r"\"?\$(?:\(|\{\w+\}|[A-Z_][A-Z0-9_]*\b)")
#: ``scheme://user:password@host``: what precedes the password. Figures and a slash are a port.
_LOGIN = re.compile(r":/{1,3}(?::|[^\s:@/]{1,256}:(?![0-9]{1,5}/))")
#: ``https://token@host`` as git takes it, and what else a token follows.
_AFTER = re.compile(
    r"(https?://(?=[^\s:@/?#]{6,512}@)|\bbearer\s+|\bsshpass\s+(?:-[ev]\s+)?-p\s*)([^\s\"'@?]{6,})",
    re.IGNORECASE,
)
#: Addresses at which whoever knows them may write: what precedes the key, up to the end of the
#: path. The key of a path that only speaks of hooks or keys is known by its length.
_ADDRESSES = re.compile(
    r"(\bhooks\.slack(?:-gov)?\.com/|\bdiscord(?:app)?\.com/api/(?:v[0-9]{1,3}/)?webhooks/"
    r"|\b(?:outlook|[\w-]{1,63}\.webhook)\.office(?:365)?\.com/[a-z0-9]{1,16}/"
    r"|\bapi\.telegram\.org/(?:file/)?bot|\bhc-ping\.com/|\bwebhook\.site/"
    r"|https?://(?:[\w-]{1,63}\.){0,8}hooks?\.[\w.:-]{1,200}/"
    r"|https?://[^\s\"'?#]{1,300}/(?:(?:[\w-]{0,32}-)?(?:web)?hooks?(?:b2)?|access_token|api_?key|key"
    r"|secret|token)/(?=(?:[\w.~%:+-]{1,64}/){0,4}[\w~+=@-]{16,}(?:[/?#\s\"']|$)))"
    r"([^\s\"'?#<>()\[\]{}|,;]{6,})",
    re.IGNORECASE,
)
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


def hide_shapes(text: str, on_secret: OnSecret = lambda _: None) -> str:
    """The text with ``***`` for what looks like a secret.

    Args:
        text: Any text; of a password only the part that can be seen as one is hidden.
        on_secret: Called with each secret.
    """

    def hide(match: re.Match[str]) -> str:
        before, value = match.groups() if match.re.groups else ("", match[0])
        on_secret(value)
        return before + HIDDEN

    def in_login(match: re.Match[str]) -> str:
        """Up to the last @ of the word, as a password may hold others."""
        word = match[0]
        end = word.rfind("@")
        start = _LOGIN.search(word, 0, max(end, 0))
        if start is None or start.end() == end:
            return word
        if (value := word[start.end() : end].strip("\"'")) != HIDDEN:
            on_secret(value)
        return word[: start.end()] + HIDDEN + word[end:]

    text = re.sub(r"\S+", in_login, _TOKENS.sub(hide, text))
    text = _ADDRESSES.sub(hide, _AFTER.sub(hide, text))
    parts, done = [], 0
    for named in _NAMED.finditer(text):
        name = named[1] or named[2]
        in_query = text[named.start() - 1 : named.start()] in {"?", "&", ";", "#"}
        in_query = in_query and _IN_QUERY.fullmatch(name.lower()) is not None
        if named.start() < done or not (in_query or _may_hold(name)):
            continue
        value = _VALUE.match(text, named.end())
        if value is None or _EXPANDED.match(value[0]):
            continue
        bare, quotation = value[0], value[0][0] if value[0][0] in "\"'" else ""
        if quotation or "\\" in bare:
            with suppress(ValueError):
                bare = "".join(shlex.split(bare))
        if named[1] and _OPTION.fullmatch(bare):  # the option takes no value: this is the next one
            continue
        start = 0 if in_query else _secret_in(name, bare)
        if start is None or bare[start:] in {"", HIDDEN}:
            continue
        on_secret(bare[start:])
        shown = f"{quotation}{bare[:start]}{HIDDEN}{quotation}"
        parts += [text[done : named.end()], shown]
        done = value.end()
    return "".join(parts) + text[done:]


# --- the secrets of one environment ---------------------------------------------------------------

#: Shorter values stand in too many words that are no secrets, characters.
SHORTEST = 6
#: A secret of several lines is known by any line of this length, characters.
LINE = 16
#: Values that are no secrets, whatever the name of their variable.
_EMPTY_WORDS = frozenset({"true", "false", "none", "null", "default", "enabled", "disabled"})


@dataclass(frozen=True)
class Redactor:
    """Knows ``secrets``, and hides them beside all that looks like one.

    ``suspects`` are values that may be secrets: they are hidden in texts, but not in commands,
    of which a study is made.
    """

    secrets: frozenset[str] = frozenset()
    suspects: frozenset[str] = frozenset()

    @classmethod
    def of(cls, environ: Mapping[str, str], *commands: Sequence[str]) -> Redactor:
        """The secrets of an environment and of these commands, as they are run."""
        values: set[str] = set()
        for name, value in environ.items():
            if is_secret_variable(name):
                values.add(value)
            hide_shapes(value, values.add)
        for command in commands:
            hide_words(command, lambda word: hide_shapes(word, values.add), values.add)
        secrets = {s for s in values if len(s) >= SHORTEST and s.lower() not in _EMPTY_WORDS}
        return cls(frozenset(secrets), frozenset(filter(_RANDOM.fullmatch, environ.values())))

    def text(self, text: str) -> str:
        """The text without secrets."""
        return hide_shapes(self._suspected.sub(HIDDEN, text))

    def words(self, argv: Sequence[str]) -> tuple[str, ...]:
        """The command without secrets; as many words as before."""

        def hide(word: str) -> str:
            return hide_shapes(self._secret_pattern.sub(HIDDEN, word))

        return hide_words(argv, hide, lambda _: None)

    @cached_property
    def _secret_pattern(self) -> re.Pattern[str]:
        return _any_of(self.secrets)

    @cached_property
    def _suspected(self) -> re.Pattern[str]:
        return _any_of(self.secrets | self.suspects)


def _any_of(secrets: Iterable[str]) -> re.Pattern[str]:
    """A pattern of all their forms, the longest first: plain, in a URL, quoted, line by line."""
    forms: set[str] = set()
    for secret in secrets:
        encoded = quote(secret, safe="", errors="backslashreplace")
        forms |= {secret, encoded, unquote(secret), json.dumps(secret)[1:-1], repr(secret)[1:-1]}
        forms |= {line for line in map(str.strip, secret.splitlines()) if len(line) >= LINE}
    longest_first = sorted((f for f in forms if len(f) >= SHORTEST), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")


def refuse_secrets(words: Sequence[str], environ: Mapping[str, str]) -> None:
    """Raise ``UsageError`` for a command with a secret: a study file would keep it in plain."""
    shown = Redactor.of(environ, words).words(words)
    at = next(
        (n for n, pair in enumerate(zip(words, shown, strict=True)) if len({*pair}) > 1), None
    )
    if at is None:
        return
    before = shown[at - 1 : at] if at and words[at - 1].startswith("-") else ()
    option = "".join(before) or shown[at].partition("=")[0].partition(" ")[0]
    variable = re.sub(r"\W+", "_", option.strip("-")).upper() or "SECRET"
    hint = (
        f"keep it in a variable, which the ranks inherit: export {variable}=…\n"
        f"tune init -- … sh -c 'exec PROGRAM {option} \"${variable}\"'"
    )
    if ASSIGNMENT.fullmatch(words[at]):
        name = words[at].partition("=")[0]
        hint = f"export {name} before tune, and leave its value out of the command"
    raise UsageError(
        f"the command holds a secret, {shlex.join((*before, shown[at]))}, and a study file would"
        " keep it in plain",
        hint,
    )


def redact_spec(spec: StudySpec, environ: Mapping[str, str]) -> StudySpec:
    """The study as it may be stored: the same, but for secrets in its commands."""
    args = spec.launcher.extra_args
    ssh = spec.launcher.ssh
    words = (spec.command, spec.job, spec.prepare, spec.hosts_from, args, ssh, spec.typed)
    redactor = Redactor.of(environ, *words)
    return replace(
        spec,
        command=redactor.words(spec.command),
        job=redactor.words(spec.job),
        prepare=redactor.words(spec.prepare),
        hosts_from=redactor.words(spec.hosts_from),
        typed=redactor.words(spec.typed),
        launcher=replace(spec.launcher, extra_args=redactor.words(args), ssh=redactor.words(ssh)),
        environment=tuple((name, redactor.text(value)) for name, value in spec.environment),
    )


#: What keeps a secret out of a command.
_ELSEWHERE = "let the program read it from a file or a variable"


def require_none_hidden(spec: StudySpec, option: str, command_hint: str = _ELSEWHERE) -> None:
    """Refuse to run a stored study whose command or options hide a secret.

    Args:
        spec: The stored study.
        option: What asks for running it; the message begins with it.
        command_hint: What to do if the command hides one.

    Raises:
        UsageError: The message names the command or the option.
    """
    for name, words, hint in (
        ("command", spec.command, command_hint),
        ("--prepare", spec.prepare, _ELSEWHERE),
        ("--mpirun-arg", spec.launcher.extra_args, _ELSEWHERE),
        ("--ssh", spec.launcher.ssh, _ELSEWHERE),
    ):
        if any(HIDDEN in word for word in words):
            text = f"{option}: the stored {name} hides a secret, so it cannot be run here"
            raise UsageError(text, hint)


def kept_record(record: LaunchRecord, environ: Mapping[str, str]) -> LaunchRecord:
    """The launch as it may be stored and told of: its command and its reasons without secrets."""
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

#: What bears on speed: the variables of OpenMP, of BLAS and other libraries, of MPIs and of CUDA.
FAMILIES = (
    "OMP_", "GOMP_", "KMP_", "OPENBLAS_", "GOTO_", "MKL_", "BLIS_", "NUMEXPR_", "VECLIB_",
    "OPENCV_", "MALLOC_", "OMPI_MCA_", "PRTE_MCA_", "PMIX_MCA_", "MPICH_", "MPIR_CVAR_", "HYDRA_",
    "I_MPI_", "UCX_", "FI_", "NCCL_", "CUDA_", "CUPY_", "CHAINER_", "CHAINERMN_",
)  # fmt: skip
#: The same; their values may look random.
NAMES = frozenset({"CUDA_VISIBLE_DEVICES", "GLIBC_TUNABLES", "LD_PRELOAD", "MPI4PY_LIBMPI"})
#: What separates the parts of a list or a path.
_MARKS = re.compile(r"[/:,;=.\s]")
_PLAIN = re.compile(r"[\w ./:,;=+^*@%\[\]{}()<>|&!?~#-]*")


def recorded_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What may be kept of an environment, sorted by name; ``***`` for what may be a secret."""
    kept = {}
    for name, value in sorted(environ.items()):
        if name in NAMES:
            kept[name] = hide_shapes(value)
        elif name.startswith(FAMILIES) and not is_secret_variable(name):
            plain = _PLAIN.fullmatch(value) and not any(map(_RANDOM.match, _MARKS.split(value)))
            kept[name] = hide_shapes(value) if plain else HIDDEN
    return kept
