"""What lies on the disk for the next start of the command, and what must not be kept at all."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import Any

from fuzz.target import Target
from fuzz.targets.asked import MACHINE
from fuzz.texts import Texts, one
from fuzz.trees import Trees
from tuner.hosts.process import left_over
from tuner.hosts.process.request import name_of
from tuner.launch.secrets import hide_shapes
from tuner.launch.secrets.patterns import hide_words
from tuner.model import Finished, LaunchRecord, Outcome, Progress, Purpose, Setting
from tuner.store import codec, identity, rows
from tuner.study import recorder as journal

# --- a launch's own record ---------------------------------------------------------------

_RECORD = LaunchRecord(
    number=3,
    purpose=Purpose.SEARCH,
    setting=Setting.of({"omp_threads": 2}),
    argv=("mpirun", "-n", "2", "python"),
    env={"OMP_NUM_THREADS": "2"},
    folder="/out/0003",
    started_at="2026-01-02T03:04:05.000000+00:00",
    outcome=Outcome(Finished(3.5, 20, 1.0), 4.0, 0, (Progress(10, 1.5, 2.0),)),
    machine=MACHINE,
)
_IDENTITY: dict[str, Any] = {
    "command": ["a"],
    "ranks": 2,
    identity.ROUTES: {"omp_threads": "environment"},
    identity.ENVIRONMENT: {"OMP_NUM_THREADS": "2"},
}
ENTRY = journal.Entry("mnist", "2026-01-02T03:00:00+00:00", _IDENTITY, _RECORD)
_RECORDS: Any = {"state": "ended", **codec.to_json(ENTRY)}
_ENTRIES = Trees([_RECORDS], ("type", "state", "record", "outcome", "ending", "Finished", "Failed"))


def record(data: bytes) -> None:
    """The file in a launch's folder: a launch that the database takes, or none."""
    with suppress(ValueError):
        entry = journal.parse(data)
        identity.difference(entry.identity, _IDENTITY)
        identity.difference(_IDENTITY, entry.identity)
        found = journal.lacking([], [entry.record])
        rows.launch_columns(found[0])


# --- what a killed tune left running -----------------------------------------------------

_FLIGHTS = Trees(
    [
        {
            "marker": "abc",
            "since": 12345,
            "boot_id": "1-2-3",
            "cgroup": "",
            "folder": "",
        }
    ],
    ("marker", "since", "boot_id", "cgroup", "folder", "/tmp/tune-abc", "/", "..", "*"),
)


def flight(data: bytes) -> None:
    """The note of a launch under way: nothing is ended on a guess."""
    found = left_over.parse(data)
    if found is None:
        return
    assert isinstance(found.marker, str), found
    assert found.marker, found
    assert type(found.since) is int, found
    for place in (found.cgroup, found.folder):
        assert not place or place.endswith(name_of(found.marker)), found


# --- secrets -----------------------------------------------------------------------------

SECRET = "s3cr3tCanary77aQ"
_FORMS = (
    "postgresql://me:{}@db/x",
    "https://h/x?password={}&y=1",
    "--password {}",
    "bash -lc 'cd x && job --token \"{}\" -v'",
    "--api-key={}",
    "WANDB_API_KEY={}",
    "AWS_SECRET_ACCESS_KEY='{}'",
    "Authorization: Bearer {}",
    '"token": "{}"',
    "hf_{}",
    "ghp_{}{}",
)
_AROUND = Texts(
    [
        b"epoch 3 loss 0.25\n",
        b'Traceback: File "a.py", line 3\n',
        b"--lr=0.1 --out /x ",
        b"http://",
    ],
    (b"://", b"@", b"=", b":", b"password", b"token", b"'", b'"', b"?", b"&", b"-----BEGIN "),
)


def _told(rng: Random) -> bytes:
    """Text of any kind with a secret in a usual form, blanks around it."""
    form = one(rng, _FORMS).replace("{}", SECRET).encode()
    return _AROUND(rng) + b"\n" + form + b"\n" + (_AROUND(rng) if rng.random() < 0.5 else b"")


def secrets(data: bytes) -> None:
    """Text that a program printed, or a command: hidden once is hidden, in a time that ends."""
    text = data.decode("utf-8", "replace")
    hidden = hide_shapes(text)
    assert hide_shapes(hidden) == hidden, "hidden twice is another text"
    words = tuple(text.split())
    kept = hide_words(words, hide_shapes, lambda _: None)
    assert len(kept) == len(words)
    lines = text.split("\n")
    for form in _FORMS:
        line = form.replace("{}", SECRET)
        if line in lines:
            at = lines.index(line)
            assert SECRET not in hide_shapes("\n".join(lines[at : at + 1])), line


TARGETS = (
    Target("record", record, _ENTRIES, share=0.4),
    Target("flight", flight, _FLIGHTS, share=0.6),
    Target("secrets", secrets, _told, share=0.4),
)
