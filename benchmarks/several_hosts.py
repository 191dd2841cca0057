"""One study on four hosts against one: does its search end sooner, with as good a best?

    python -m benchmarks.several_hosts [--hosts 4] [--trials 50] [--seeds 3]

The hosts are network namespaces of this machine (Linux, root, iproute2), each with its own name,
processes and /tmp; the study is in a PostgreSQL server that all of them reach. The program sleeps
its modelled time, so the hosts hardly disturb each other; what they do is not looked at. Each study
runs once on one host, and once on all: the first begins it, the others join.
"""

from __future__ import annotations

import argparse
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from tuner.model import LaunchRecord, Setting
from tuner.model.errors import TunerError
from tuner.stats import estimates
from tuner.store import Store, resolve_url

NETWORK, BRIDGE, PORT = "10.77.0", "tune-br", 15432
MOST = 12
PROGRAM = f"""
import math, os, random, sys, time
threads, workers = int(os.environ.get("OMP_NUM_THREADS", "{MOST}")), int(sys.argv[1])
model_s = 1.5 + 0.6 * abs(math.log2(threads / 5)) + 0.4 * abs(math.log2(workers / 3))
time.sleep(model_s * random.gauss(1, 0.01))
"""

#: What a host does before its command: its name, and what must be its own.
INIT = (
    "hostname $0; mount --make-rprivate /; mount -t tmpfs tmpfs /tmp;"
    ' mount -t tmpfs tmpfs /dev/shm; "$@"'
)


def model_s(setting: Setting) -> float:
    """What the program sleeps, without noise."""
    values = setting.as_dict()
    threads, workers = (int(values.get(k, MOST)) for k in ("omp_threads", "iterator_workers"))
    return 1.5 + 0.6 * abs(math.log2(threads / 5)) + 0.4 * abs(math.log2(workers / 3))


BEST_S = min(
    model_s(Setting.of({"omp_threads": threads, "iterator_workers": workers}))
    for threads in range(1, MOST + 1)
    for workers in range(1, MOST + 1)
)


def call(*words: object) -> None:
    """Run a command of the system."""
    subprocess.run([str(word) for word in words], check=True)


@contextmanager
def cluster(number: int) -> Iterator[list[str]]:
    """The names of hosts, each with an address on one bridge."""
    names = [f"tune-h{n}" for n in range(number)]
    call("ip", "link", "add", BRIDGE, "type", "bridge")
    try:
        call("ip", "address", "add", f"{NETWORK}.1/24", "dev", BRIDGE)
        call("ip", "link", "set", BRIDGE, "up")
        for n, name in enumerate(names):
            call("ip", "netns", "add", name)
            call("ip", "link", "add", f"tune-v{n}", "type", "veth", "peer", "eth0", "netns", name)
            call("ip", "link", "set", f"tune-v{n}", "master", BRIDGE, "up")
            inside = ("ip", "-n", name)
            call(*inside, "address", "add", f"{NETWORK}.{10 + n}/24", "dev", "eth0")
            call(*inside, "link", "set", "eth0", "up")
            call(*inside, "link", "set", "lo", "up")
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], check=False, stderr=subprocess.DEVNULL)
        call("ip", "link", "delete", BRIDGE)


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """The URL of a PostgreSQL server on the bridge."""
    initdb = shutil.which("initdb") or next(
        map(str, Path("/usr/lib").glob("postgresql/*/bin/initdb"))
    )
    programs, data = Path(initdb).resolve().parent, folder / "data"
    shutil.chown(folder, "postgres", "postgres")

    def run(program: str, *arguments: object) -> None:
        words = [str(programs / program), *map(str, arguments)]
        quiet = subprocess.DEVNULL
        subprocess.run(
            words, check=True, cwd=folder, user="postgres", group="postgres", stdout=quiet
        )

    run("initdb", "-D", data, "-A", "trust", "-U", "tuner", "--no-sync", "-E", "UTF8")
    with (data / "pg_hba.conf").open("a") as file:
        file.write(f"host all all {NETWORK}.0/24 trust\n")
    options = f"-p {PORT} -k {folder} -c listen_addresses={NETWORK}.1"
    run("pg_ctl", "-w", "-D", data, "-o", options, "-l", folder / "log", "start")
    try:
        yield f"postgresql://tuner@{NETWORK}.1:{PORT}/postgres"
    finally:
        run("pg_ctl", "-D", data, "-m", "immediate", "stop")


@contextmanager
def started(host: str, folder: Path, words: Sequence[object]) -> Iterator[subprocess.Popen[bytes]]:
    """``tune`` on a host; at the end all of that host is killed."""
    into = ["nsenter", f"--net=/run/netns/{host}"]
    into += ["unshare", "-u", "-m", "-p", "-f", "--kill-child", "--mount-proc"]
    tune = [str(Path(sys.executable).with_name("tune")), *map(str, words)]
    with (folder / f"{host}.txt").open("wb") as output:
        process = subprocess.Popen(
            [*into, "sh", "-c", INIT, host, *tune],
            cwd=folder,
            env=os.environ,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


class Run(NamedTuple):
    """What one study came to."""

    search_s: float
    trials: int
    regret: float
    twice: int
    hosts: int


def study(url: str, hosts: Sequence[str], folder: Path, trials: int, seed: int) -> Run:
    """One study on these hosts."""
    name = f"hosts{len(hosts)}-seed{seed}"
    program = folder / "program.py"
    program.write_text(PROGRAM)
    space = [f"omp_threads=1..{MOST}", f"iterator_workers=1..{MOST}"]
    words = ["--mpi-procs", 1, "--knob", space[0], "--knob", space[1], "--oversubscribe", 1000]
    words += ["--baseline", f"iterator_workers={MOST}", "--objective", "wall", "--live", "off"]
    words += ["--learn-from", "none"]
    words += ["--trials", trials, "--min-gain", "0.01%", "--seed", seed, "--storage", url]
    words += ["--name", name, "--", sys.executable, program, "{iterator_workers}"]
    with ExitStack() as stack:
        first = stack.enter_context(started(hosts[0], folder, words))
        while not launches(url, name) and first.poll() is None:
            time.sleep(0.2)
        join = ["--join", name, "--storage", url]
        others = [stack.enter_context(started(host, folder, join)) for host in hosts[1:]]
        codes = [each.wait() for each in (first, *others)]
    if any(codes):
        texts = [(folder / f"{host}.txt").read_text() for host in hosts]
        raise SystemExit("\n".join((f"exit codes {codes}", *texts)))
    records = launches(url, name)
    search = [r for r in records if r.purpose.stage.counts_for_budget]
    made = Counter(r.setting for r in estimates.counted(search) if r.purpose.stage.counts_as_trial)
    with Store.open(resolve_url(url, {}), create=False) as store:
        best = store.studies()[0].answer.best_setting
    assert best is not None
    begun, ended = began(search[0]), max(began(r) + r.outcome.wall_s for r in search)
    return Run(
        ended - begun,
        len(made),
        model_s(best) / BEST_S - 1,
        sum(number > 1 for number in made.values()),
        len({r.machine.hostname for r in search}),
    )


def began(record: LaunchRecord) -> float:
    """When a launch started, s since the epoch."""
    return datetime.fromisoformat(record.started_at).timestamp()


def launches(url: str, name: str) -> list[LaunchRecord]:
    """Those of the study so far."""
    with suppress(TunerError), Store.open(resolve_url(url, {}), create=False) as store:
        return list(store.launches(name, detail=False))
    return []


def main() -> None:
    """Print a line for each study, then the ratio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--trials", type=int, default=50)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    if os.geteuid() or not shutil.which("ip"):
        raise SystemExit("this benchmark makes network namespaces: it needs root and iproute2")
    print(f"{'hosts':>5} {'seed':>4} {'search s':>9} {'trials':>6} {'regret %':>8} {'twice':>5}")
    times: dict[int, list[float]] = {1: [], options.hosts: []}
    # Not in /tmp: each host has its own.
    with (
        tempfile.TemporaryDirectory(dir="/var/tmp", prefix="tune-hosts-") as text,
        tempfile.TemporaryDirectory(dir="/var/tmp", prefix="tune-pg-") as data,
        cluster(options.hosts) as hosts,
        server(Path(data)) as url,
    ):
        for seed in range(options.seeds):
            for number, found_s in times.items():
                found = study(url, hosts[:number], Path(text), options.trials, seed)
                found_s.append(found.search_s)
                print(
                    f"{found.hosts:>5} {seed:>4} {found.search_s:>9.1f} {found.trials:>6}"
                    f" {100 * found.regret:>8.1f} {found.twice:>5}",
                    flush=True,
                )
    one, all_hosts = (statistics.median(each) for each in times.values())
    print(f"{options.hosts} hosts end the search {one / all_hosts:.2f} times sooner (target 3)")


if __name__ == "__main__":
    main()
