"""The hosts of these tests, and studies on them."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.hosts.several.bench import Bench, NoNamespacesError
from tests.hosts.several.study_on_hosts import StudyOnHosts
from tests.marked import eventually

#: Of Debian's packages iproute2, openssh-client, openssh-server and util-linux.
PROGRAMS = ("ip", "ssh", "ssh-keygen", "sshd", "nsenter", "unshare", "setpriv")


@pytest.fixture(scope="package")
def bench(
    require_program: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bench]:
    """Three hosts; skipped if this machine allows none."""
    if os.geteuid() != 0:
        pytest.skip("hosts on one machine need root")
    if len(sys.prefix.split()) > 1:
        pytest.skip(f"{sys.prefix} has a blank: Open MPI starts nothing on other hosts from there")
    for name in PROGRAMS:
        require_program(name)
    try:
        made = Bench(tmp_path_factory.mktemp("bench"), 3)
    except NoNamespacesError as error:
        pytest.skip(f"hosts on one machine cannot be made here: {error}")
    yield made
    made.close()


@pytest.fixture
def folder(bench: Bench, request: pytest.FixtureRequest) -> Iterator[Path]:
    """An empty folder that all hosts have; after the test all hosts are empty."""
    yield Path(tempfile.mkdtemp(prefix=f"{request.node.originalname}-", dir=bench.folder))
    eventually(lambda: not any(bench.processes(host) for host in bench.names))


@pytest.fixture
def study(bench: Bench, folder: Path) -> Iterator[Callable[..., StudyOnHosts]]:
    """Starts a study in the folder; one that goes on after the test is killed."""
    with ExitStack() as stack:
        yield lambda *words, **options: stack.enter_context(
            closing(StudyOnHosts(bench, folder, *words, **options))
        )
