"""Many secrets go into a study, as they do into jobs; none of them may be found afterwards."""

from __future__ import annotations

import hashlib
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests import light_trainer
from tests.light_trainer import QUICK, TRAINER, command
from tests.study_samples import FILES

pytestmark = pytest.mark.system

#: Takes what it is given without a word; with CRASH set it tells all that it knows, and fails.
TALKATIVE = (
    TRAINER.replace("parser.parse_args()", "parser.parse_known_args()[0]")
    + """
if os.environ.get("CRASH"):
    print(sys.argv, flush=True)
    for item in os.environ.items():
        print(*item, flush=True)
    raise ValueError("cannot reach " + os.environ["DATABASE_URL"] + " with " + " ".join(sys.argv))
"""
)


def canary(number: int) -> str:
    return f"c4n{number:02d}" + hashlib.sha256(b"canary %d" % number).hexdigest()[:15]


CANARIES = [canary(number) for number in range(50)]
_left = iter(CANARIES)
#: Variables by name, by the shape of their value, and such as no list has.
ENV = {
    name: form.replace("X", next(_left))
    for name, form in {
        **dict.fromkeys(
            (
                "AWS_SECRET_ACCESS_KEY", "WANDB_API_KEY", "HF_TOKEN", "PGPASSWORD", "MYSQL_PWD",
                "SENDGRID_KEY", "NEPTUNE_API_TOKEN", "SSH_PASSPHRASE", "JWT", "OMP_API_TOKEN",
                "OMPI_MCA_auth_secret", "UCX_OTHER", "NCCL_CREDENTIAL", "MKL_LICENSE", "CUPY_X",
                "CUDA_API_KEY", "MY_THING", "WEBHOOK", "DOCKER_AUTH", "I_MPI_HIDDEN",
            ),
            "X",
        ),
        "GITHUB_TOKEN": "ghp_X0123456789abcd",
        "SLACK_TOKEN": "xoxb-1-X",
        "DATABASE_URL": "postgresql://me:X@host/db",
    }.items()
}  # fmt: skip

#: What stands after ``--``.
WORDS = tuple(
    word.replace("X", next(_left)) if "X" in word else word
    for word in (
        "--password", "X", "--api-key=X", "--token", "-X", "--wandb.api_key=X", "DB_PASSWORD=X",
        "hf_X", "host=h password=X user=me", "--user", "me:X", "-H", "Authorization: Bearer X",
        "--secret", "a b\nX", "--key", "X", "sk-X", "--client-secret", "'X\"",
        "bash", "-lc", "cd x; exec job {out} --password X -v", "--token 'X x' -u me:1 -v",
        "--data=https://me:X@host/x", "s3://b/k?x-amz-signature=X&a=1",
    )
)  # fmt: skip
MPIRUN = ("-x", f"HF_TOKEN={next(_left)}", "-x", f"OTHER_SECRET={next(_left)}")
STORAGE = f"postgresql://me:{next(_left)}@127.0.0.1:1/x?sslpassword={next(_left)}"


def tune(folder: Path, *args: str, **changes: str) -> subprocess.CompletedProcess[str]:
    """``tune`` with all these secrets about it, and no umask."""
    lock = str(folder.parent / "lock")
    return light_trainer.tune(folder, *args, umask=0, **ENV, TUNE_LOCK_DIR=lock, **changes)


def study(folder: Path, *changed: str, **changes: str) -> subprocess.CompletedProcess[str]:
    args = (part for arg in MPIRUN for part in ("--mpirun-arg", arg))
    options = (*QUICK, "--trials", "2", "--no-confirm", "--run-dir", "outputs/deep", *args)
    return tune(folder, *options, *command(*(changed or WORDS)), **changes)


def found_in(data: bytes) -> list[int]:
    """The canaries in these bytes, also where they are cut at half."""
    return [number for number, each in enumerate(CANARIES) if each[:12].encode() in data]


def contents(folder: Path, *but: str) -> bytes:
    """All that lies below a folder, the databases as text too."""
    parts = []
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name not in ("train.py", *but):
            parts += [str(path).encode(), path.read_bytes()]
        if path.suffix == ".db":
            with sqlite3.connect(path) as database:
                parts += [line.encode() for line in database.iterdump()]
    return b"\n".join(parts)


SHOWN = [("show",), ("show", "--json"), ("studies",)]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("canaries") / "work"
    folder.mkdir(mode=0o700)
    (folder / "train.py").write_text(TALKATIVE)
    done = study(folder)
    assert done.returncode == 0, done.stderr
    exports = [("export", "-f", name, "-o", f"exports.{name}") for name in FILES]
    code = f"from tuner.cli.main import main; print(*map(main, {[*SHOWN, *exports]}))"
    env = light_trainer.environment(folder, **ENV, TUNE_LOCK_DIR=str(folder.parent / "lock"))
    shown = light_trainer.captured([sys.executable, "-c", code], folder, env, umask=0)
    assert {*shown.stdout.splitlines()[-1].split()} == {"0"}, shown.stderr
    return folder, "\n".join([done.stdout, done.stderr, shown.stdout, shown.stderr])


def test_none_is_in_the_outputs_the_database_the_folders_or_the_lock(
    made: tuple[Path, str],
) -> None:
    assert len(found_in("\n".join([*ENV.values(), *WORDS, *MPIRUN, STORAGE]).encode())) > 40
    data = contents(made[0].parent)
    for word in (b"tune:record", b"--password", b"measuring"):
        assert word in data
    assert found_in(data) == found_in(made[1].encode()) == []
    script = (made[0] / "exports.sh").read_text()
    assert ': "${TUNE_SECRET_1:?' in script
    assert '--password "$TUNE_SECRET_' in script


def test_the_ranks_get_all_of_them_and_a_new_secret_is_no_new_study(made: tuple[Path, str]) -> None:
    folder = made[0]
    before = contents(folder).count(b"'tune:record'")
    words = [
        "another-one" if before == "--password" else word
        for before, word in zip(("", *WORDS), WORDS, strict=False)
    ]
    done = study(folder, *words, HF_TOKEN_2="x")
    assert done.returncode == 0, done.stderr
    assert contents(folder).count(b"'tune:record'") == before
    assert b"another-one" not in contents(folder)


def test_everything_is_for_its_owner_only_though_there_is_no_umask(made: tuple[Path, str]) -> None:
    folder = made[0]
    wide = [
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if stat.S_IMODE(path.stat().st_mode) & 0o077 and path.name not in ("train.py", "log", "got")
    ]
    assert wide == []
    names = {path.name for path in folder.rglob("*")}
    assert names >= {"tune.db", "output.log", "rank-0.json", "exports.sh", "out", "deep"}


def test_what_a_failed_program_printed_is_hidden_except_in_its_own_output(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "train.py").write_text(TALKATIVE)
    done = study(folder, CRASH="1")
    assert done.returncode != 0
    assert "ValueError: cannot reach postgresql://me:***@host/db" in done.stderr
    assert found_in((done.stderr + done.stdout).encode()) == []
    shown = tune(folder, "show")
    assert "ValueError" in shown.stdout
    assert found_in((shown.stdout + shown.stderr).encode()) == []
    own = b"\n".join(path.read_bytes() for path in folder.rglob("output.log"))
    assert len(found_in(own)) > 40, "the ranks were given the real ones"
    data = contents(tmp_path, "output.log")
    assert b"ValueError" in data
    assert found_in(data) == []


def test_a_database_that_cannot_be_reached_is_named_without_its_password(tmp_path: Path) -> None:
    done = tune(tmp_path, "studies", "--storage", STORAGE, TUNE_DEBUG="1")
    assert found_in((done.stdout + done.stderr).encode()) == [] and "127.0.0.1" in done.stderr
    program = ("--", sys.executable, "-c", "{out}", *WORDS)
    done = tune(tmp_path, "run", "--storage", STORAGE, "--dry-run", *program)
    assert found_in((done.stdout + done.stderr).encode()) == [] and "***" in done.stderr
