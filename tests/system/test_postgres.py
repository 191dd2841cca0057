"""A study in PostgreSQL: a server of its own, on a socket and a free port."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
import sqlalchemy as sa

from tests.study_surface import SPEC, FakeRunner
from tuner.model.errors import TunerError, UsageError
from tuner.results import study_view
from tuner.store import Store, resolve_url
from tuner.study import StudyInterrupted, tune

pytestmark = pytest.mark.system
pytest.importorskip("psycopg", reason="the extra postgres is not installed")


class Server(NamedTuple):
    url: str
    stop: Callable[[], None]


@contextmanager
def running(require_program: Callable[[str], str]) -> Iterator[Server]:
    programs = Path(require_program("initdb")).resolve().parent
    # PostgreSQL refuses to run as root.
    user = {"user": "postgres", "group": "postgres"} if os.geteuid() == 0 else {}
    folder = Path(tempfile.mkdtemp(prefix="tune-pg-"))
    if user:
        shutil.chown(folder, "postgres", "postgres")
    data, port = folder / "data", free_port()
    options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off"
    start = ["-w", "-D", data, "-o", options, "-l", folder / "log", "start"]

    def call(program: str, *arguments: object) -> None:
        words = [str(programs / program), *map(str, arguments)]
        subprocess.run(words, check=True, cwd=folder, stdout=subprocess.DEVNULL, **user)  # type: ignore[call-overload]

    def stop() -> None:
        if (data / "postmaster.pid").exists():
            call("pg_ctl", "-D", data, "-m", "immediate", "stop")

    call("initdb", "-D", data, "-A", "trust", "-U", "tuner", "--no-sync", "-E", "UTF8")
    call("pg_ctl", *start)
    try:
        yield Server(f"postgresql://tuner:not-a-secret@127.0.0.1:{port}/postgres", stop)
    finally:
        stop()
        shutil.rmtree(folder)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def server(require_program: Callable[[str], str]) -> Iterator[str]:
    with running(require_program) as one:
        yield one.url


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TUNE_LOCK_DIR", str(tmp_path / "lock"))


def test_a_study_with_an_interruption(server: str, tmp_path: Path) -> None:
    def interrupt(count: int) -> None:
        if count == 4:
            raise KeyboardInterrupt

    with pytest.raises(StudyInterrupted):
        tune(SPEC, storage=server, run=FakeRunner(before=interrupt))
    runner = FakeRunner()
    found = tune(SPEC, storage=server, run=runner)
    assert found.trials == 6 and found.ratio == 4.0
    assert "not-a-secret" not in found.storage
    assert runner.launches[0].folder == tmp_path / "studies" / SPEC.name / "0006"
    with Store.open(resolve_url(server, {}), create=False) as store:
        assert study_view.load(store, SPEC.name).result == found
        assert len(store.launches(SPEC.name)) == found.launches
    assert tune(SPEC, storage=server, run=FakeRunner(), fresh=True).launches == 8


def test_many_first_openings_at_once(server: str) -> None:
    engine = sa.create_engine(resolve_url(server, {}), isolation_level="AUTOCOMMIT")
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE DATABASE other"))
    engine.dispose()
    url = resolve_url(server, {}).removesuffix("/postgres") + "/other"
    with ThreadPoolExecutor(4) as pool:
        for opened in [pool.submit(Store.open, url, create=True) for _ in range(4)]:
            opened.result().close()


def test_no_server_and_no_database(server: str) -> None:
    with pytest.raises(UsageError, match="cannot be used"):
        Store.open(f"postgresql+psycopg://tuner@127.0.0.1:{free_port()}/x", create=True)
    with pytest.raises(UsageError, match='"nowhere" does not exist'):
        Store.open(resolve_url(server, {}).removesuffix("/postgres") + "/nowhere", create=True)


def test_a_server_that_stops_in_the_middle(require_program: Callable[[str], str]) -> None:
    with running(require_program) as one:

        def stop(count: int) -> None:
            if count == 3:
                one.stop()

        with pytest.raises(TunerError, match=r"server of the database .* is gone: \w") as caught:
            tune(SPEC, storage=one.url, run=FakeRunner(before=stop))
    assert not isinstance(caught.value, UsageError) and caught.value.exit_code == 3
    assert "not-a-secret" not in caught.value.message
    assert "run the same command again" in caught.value.hint
