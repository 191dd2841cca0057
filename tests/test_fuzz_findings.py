"""What fuzzing has found, an input each: none of them breaks its reader again.

A row is a target of ``fuzz/targets`` and an input that once broke it; what must hold is said
there. Where more is to be said, a test stands below.
"""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from benchmarks.replay import surface_file
from fuzz.targets import TARGETS
from fuzz.targets.kept import ENTRY
from tuner.config.study_file import parse
from tuner.hosts import lock
from tuner.hosts.probe import parse_report
from tuner.knobs import domains
from tuner.launch.launchers.openmpi import OpenMPI
from tuner.launch.objectives import EndedLaunch
from tuner.launch.objectives.logreport import LogReport
from tuner.launch.secrets import hide_shapes
from tuner.model import Choice, Failed, FailureKind, ObjectiveSpec, Setting
from tuner.model.errors import TunerError, UsageError, shown
from tuner.model.wording import one_line
from tuner.store import codec, names, urls
from tuner.study import recorder as journal

DEEP = b"[" * 3000
LONG = b"9" * 4400  # more digits than Python reads
HEX = b"0x" + b"f" * 4000  # read without a limit, and then more digits than Python writes


def _record(*place: str, **changes: Any) -> bytes:
    """A launch's record with other values in one place."""
    document = json.loads(journal.text(ENTRY))
    table = document
    for key in place:
        table = table[key]
    table.update(changes)
    return json.dumps(document).encode()


FINDINGS = (
    ("log_json", "huge-iteration", b'[{"iteration": %d, "elapsed_time": 1}]' % 2**63),
    ("log_json", "long-iteration", b'[{"iteration": "' + b"x" * 3000 + b'", "elapsed_time": 1}]'),
    ("log_json", "1e999", b'[{"iteration": 1, "elapsed_time": 1e999}]'),
    ("log_json", "nan", b'[{"iteration": 1, "elapsed_time": NaN}]'),
    ("log_json", "many-digits", b'[{"iteration": 1, "elapsed_time": ' + LONG + b"}]"),
    ("log_json", "deep", b'[{"iteration": 1, "elapsed_time": ' + DEEP),
    ("log_json", "true", b'[{"iteration": true, "elapsed_time": true}]'),
    ("log_json", "surrogate", b'[{"iteration": "\\ud800", "elapsed_time": 1}]'),
    ("log_lines", "huge-iteration", b'{"iteration": %d, "elapsed_time": 0.5}' % 10**30),
    ("log_lines", "no-objects", b'[]\n1\n"a"'),
    ("log_yaml", "hex", b"- iteration: " + HEX + b"\n  elapsed_time: 1\n"),
    ("log_yaml", "hex-in-a-list", b"- iteration: [" + HEX + b"]\n  elapsed_time: 1\n"),
    ("log_yaml", "bidi", b"- iteration\xe2\x80\xae: 1\n: - b\n"),
    ("log_yaml", "date", b"- iteration: 2001-01-01\n  elapsed_time: 2001-99-99\n"),
    ("log_yaml", "itself", b"- iteration: 1\n  elapsed_time: &a [*a]\n"),
    ("course", "1e300", b'[{"iteration": 1, "elapsed_time": 1}, {"iteration": 2, '
     b'"elapsed_time": 1e300}, {"iteration": 3, "elapsed_time": 1.7e308}]'),
    ("study_file", "many-digits", b"trials = " + LONG),
    ("study_file", "hex", b"command = [" + HEX + b"]"),
    ("study_file", "hex-trials", b'command = "a {out}"\ntrials = ' + HEX),
    ("study_file", "hex-value", b"[knobs.omp_threads]\nvalues = [" + HEX + b"]"),
    ("study_file", "deep", b"command = " + DEEP),
    ("study_file", "huge-factor", b'command = "a {out}"\noversubscription = 1' + b"0" * 400),
    ("study_file", "time", b"budget_s = 1979-05-27T07:32:00Z\n[knobs.omp_threads]\nfix = 07:32:00"),
    ("study_file", "nul-twice", b'[knobs.e]\nvalues = ["\\u0000", "\\u0000"]\nflag = "--e"'),
    ("study_file", "nul-kind", b'command = "a {out}"\n[objective]\nkind = "\\u0000"'),
    ("knob_options", "many-digits", b"k a=" + LONG),
    ("knob_options", "fix-many-digits", b"f a=" + LONG),
    ("knob_options", "long-range", b"k omp_threads=1.." + b"9" * 30),
    ("knob_options", "huge-value", b"k a=1,1" + b"0" * 400),
    ("knob_options", "other-digits", "k a=²\nf omp_threads=٣".encode()),
    ("knob_options", "twice", b"k a=1\nk a=2"),
    ("measures", "overflow", b"1" + b"0" * 400 + b"s"),
    ("mpirun_version", "bidi", b"mpirun.openmpi (OpenRTE) 4\xe2\x80\xae"),
    ("mpirun_version", "long", b"mpirun (Open MPI) " + b"5." * 100),
    ("mpirun_version", "escape", b"\x1b[2J\x1b]0;x\x07"),
    ("environ", "many-digits", b"PMIX_RANK=" + LONG),
    ("environ", "other-digits", "PMI_RANK=²".encode()),
    ("probe_report", "deep", b'{"rank": 0, "pools": ' + DEEP),
    ("probe_report", "nul", b'{"rank": 0, "pools": [{"library": "\\u0000", "threads": 3}]}'),
    ("stat", "short", b"\xc1"),
    ("stat", "no-numbers", b") " + b"Z " * 30),
    ("stat", "name", b") Z 1 ("),
    ("maps", "folder", b"/dev/shm/sm_segment.x/file"),
    ("maps", "cr", b"/tmp/a\r7f0-7f1 rw-s 00000000 00:1a 99 /dev/shm/sm_segment.other"),
    ("maps", "cr-no-number", b"/tmp/a\r7f0-7f1 rw-s 0 00:1a x /dev/shm/sm_segment.other"),
    ("host", "long-list", b"0-" + b"3" * 900),
    ("host", "reversed", b"9-0"),
    ("lock_note", "escape", b'{"pid": 4711, "study": "\\u001b[2J", "database": "x"}'),
    ("lock_note", "long", b'{"pid": 4711, "study": "' + b"x" * 5000 + b'", "database": "x"}'),
    ("lock_note", "deep", b'{"pid": ' + DEEP),
    ("lock_note", "infinity", b'{"pid": Infinity, "study": "a", "database": "x"}'),
    ("lock_note", "true", b'{"pid": true, "study": "a", "database": "x"}'),
    ("row", "overflow", b'{"bound_s": 1' + b"0" * 400 + b"}"),
    ("row", "deep", b'{"elapsed_s": ' + DEEP),
    ("setting", "deep", b'{"a": ' + DEEP),
    ("setting", "pairs", b"[[1, 1]]"),
    ("setting", "none", b'{"a": null}'),
    ("record", "identity", _record(identity="{out}")),
    ("record", "no-identity", _record(identity=None)),
    ("record", "identity-of-tables", _record(identity={"command": {"a": 1}, "knobs": [1]})),
    ("record", "huge-float", _record("record", "outcome", wall_s=10**400)),
    ("record", "huge-loss", _record("record", "outcome", "ending", loss=10**400)),
    ("record", "nan", _record("record", "outcome", wall_s=float("nan"))),
    ("record", "number", _record("record", number={"a": 1})),
    ("record", "huge-number", _record("record", number=10**30)),
    ("record", "time", _record("record", started_at=[1])),
    ("record", "setting", _record("record", setting={"items": [[[[]], 2]]})),
    ("flight", "true", b'{"marker": "a", "since": true, "boot_id": "", "cgroup": "", '
     b'"folder": ""}'),
    ("secrets", "long", b"http:/" * 1200 + b"x:a@b"),
    ("surface", "no-time", b'{"name": "t", "ranks": 2, "iterations": 9, "machine": '
     b'{"physical_cores": 8}, "knobs": {"a": [1]}, "default": {"a": 1}, "points": '
     b'[{"setting": {"a": 1}, "truth_s": 0, "runs": [[0, 0, 1]]}]}'),
    ("surface", "many-digits", b'{"name": ' + LONG + b"}"),
    ("completion", "user", b"~nobody-x/tune.db\n"),
    ("completion", "long", b"/none" + b"x" * 300 + b"\n"),
    ("completion", "nul", b"~u\0\n"),
    ("url", "sqlite", b"sqlite:// :s3cr3t-canary@[::1]?"),
    ("url", "at", b"postgresql://me:x@s3cr3t-canary@db/tune"),
    ("url", "query", b"oracle://a%40b:x?@s3cr3t-canary?@@a b:5432:1/?%"),
    ("url", "query-in-it", b"oracle://me:x?@s3cr3t-canary?@@db:5432/?x"),
    ("url", "nul", b"sqlite:///x%00"),
    ("url", "sqlite-user", b"sqlite://a:x@////[:s3cr3t-canary@////[:@-:5432:1/a/b?%"),
    ("url", "sqlite-empty-user", b"sqlite://:@/s3cr3t-canary@localhost:5432:1?sslmode=require"),
    ("url", "port", b"postgresql://me:s3cr3t-canary@db:x/tune"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("target", "data"),
    [pytest.param(target, data, id=f"{target}-{name}") for target, name, data in FINDINGS],
)
def test_it_stays_mended(target: str, data: bytes) -> None:
    TARGETS[target].run(data)


@pytest.mark.parametrize("times", ["1e-31", "1e31", "5e-324", "1.7e308"])
def test_a_log_with_a_figure_that_is_none_is_bad(tmp_path: Path, times: str) -> None:
    """Their ratios are 0 or infinite, and what is worked out of them breaks."""
    (tmp_path / "log").write_text(f'[{{"iteration": 1, "elapsed_time": {times}}}]')
    found = LogReport(ObjectiveSpec(), sleep=lambda _: None).result(
        EndedLaunch(tmp_path, tmp_path / "output.log", 1.0)
    )
    assert isinstance(found, Failed)
    assert found.kind is FailureKind.BAD_LOG


def test_a_bomb_of_aliases_is_not_written_out(tmp_path: Path) -> None:
    """Nine lists of nine: 400 million words, were the bad value quoted in full."""
    lists = ["&a0 [" + ", ".join("x" * 9) + "]"]
    lists += [f"&a{n} [" + ", ".join([f"*a{n - 1}"] * 9) + "]" for n in range(1, 9)]
    bomb = "\n".join(f"  k{n}: {text}" for n, text in enumerate(lists))
    (tmp_path / "log.yaml").write_text(f"-\n{bomb}\n  iteration: *a8\n  elapsed_time: 1\n")
    found = LogReport(ObjectiveSpec(), sleep=lambda _: None).result(
        EndedLaunch(tmp_path, tmp_path / "output.log", 1.0)
    )
    assert isinstance(found, Failed)
    assert len(found.reason) < 500


def test_a_number_of_many_digits_is_passed_on_as_it_is() -> None:
    text = "12345678901234567890"
    assert domains.parse_domain(f"{text},1", where="x") == Choice((text, 1))
    with pytest.raises(UsageError, match="up to 15 digits"):
        domains.parse_domain(f"1..{text}", where="x")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("trials = " + LONG.decode(), "not TOML: too long or too deep"),
        ("command = " + DEEP.decode(), "not TOML: too long or too deep"),
        ("trials = 0x" + "f" * 4000, "must be"),
        ("[knobs.omp_threads]\nfix = 0x" + "f" * 4000, "up to 15 digits"),
    ],
    ids=["digits", "deep", "hex", "hex-fix"],
)
def test_a_study_file_says_what_is_wrong(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse(text.encode(), "tune.toml")


def test_a_surface_with_too_many_digits_is_no_json() -> None:
    with pytest.raises(UsageError, match="is no JSON"):
        surface_file.parse(b'{"name": ' + LONG + b"}", Path("surface.json"))


def test_a_lock_note_of_another_user_cannot_move_the_cursor() -> None:
    owner = lock.parse_owner(b'{"pid": 7, "study": "a\\u001b[2J\\nb", "database": ""}')
    assert str(owner) == "process 7 (study a?[2J?b)"
    assert lock.parse_owner(b'{"pid": 1e999, "study": "a", "database": ""}').pid == 0


def test_a_version_is_one_short_word() -> None:
    assert OpenMPI().version("mpirun (Open MPI) 5.0.11\x9b1m\n") == "5.0.11?1m"
    assert one_line("a\r\n\x1b\u202eb") == "a????b"
    assert one_line("x" * 300, 10) == "x" * 9 + "…"


def test_shown_is_short_whatever_it_is() -> None:
    assert shown(4) == "4"
    assert shown("a'b") == '"a\'b"'
    assert shown(int("f" * 4000, 16)) == "a very long number"
    assert len(shown("x" * 10_000)) < 130
    assert len(shown([[list(range(100))] * 100] * 100)) < 130


def test_what_no_setting_is_raises() -> None:
    for text in ("[[1, 1]]", "3", '{"a": null}', '{"a": 1.5}', "[" * 3000):
        with pytest.raises(ValueError, match=r"setting|value"):
            Setting.from_json(text)
    with pytest.raises(ValueError, match="no value"):
        codec.loads(Setting, "[" * 3000)


def test_an_unknown_home_has_no_names() -> None:
    assert names.names("~nobody-x/tune.db", {}) == []
    assert parse_report(b"[" * 3000) is None


def test_no_password_is_shown_of_thousands_of_urls() -> None:
    rng, target = Random(4), TARGETS["url"]
    for _ in range(2_000):
        target.run(target.make(rng))
    assert "s3cr3t" not in urls.display_url("postgresql://me:a@s3cr3t@db/x")


def test_a_mistake_is_named_once_however_often_it_was_made() -> None:
    with pytest.raises(UsageError) as caught:
        parse(b'[knobs.e]\nvalues = ["a", "\\u0000", "\\u0000"]\nflag = "--e"', "tune.toml")
    lines = caught.value.message.split("\n")
    assert len(lines) == len(set(lines)) and "knobs.e.values: '\\x00' stands twice" in lines[-1]


def test_a_password_of_any_length_is_hidden() -> None:
    for length in (6, 2_001, 70_000):
        word = "x@" * (length // 2)
        assert hide_shapes(f"a http://me:{word}@host b") == "a http://me:***@host b"


def test_an_error_moves_no_cursor() -> None:
    error = TunerError("a\x1b[2Jb\r\x9bc\u202ed\0", "x\x7fy\tz\nw")
    assert error.message == str(error) == r"a\x1b[2Jb\r\x9bc\u202ed\x00"
    assert error.hint == "x\\x7fy\tz\nw"
