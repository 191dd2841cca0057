"""Hosts on one machine: each has namespaces of its own and an sshd as its process 1.

All of it lives in processes: the bridge is in the network namespace of one, each host in those of
another. Nothing has a name outside, so nothing is left: once the processes have ended, the kernel
removes namespaces, links and mounts. They end with this process, ``kill -9`` included.

Hosts share the root file system, but not ``/tmp``, ``/run`` and ``/dev/shm``. The folder of the
bench and the checkout are the same on all of them, also below ``/tmp``. Plain ``ssh h2`` works from
each host to each.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.marked import eventually

#: A host is up sooner unless the machine stands still, s.
UP_S = 30.0

#: The project and its environment.
CHECKOUT = (str(Path(__file__).parents[3]), sys.prefix)

#: Before a command: it ends with its parent.
TIED = ("setpriv", "--pdeathsig", "KILL")

SSHD_CONFIG = """\
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/user_key.pub
StrictModes no
UsePAM no
PermitRootLogin prohibit-password
MaxStartups 100
PidFile none
"""

SSH_CONFIG = """\
IdentityFile {folder}/user_key
StrictHostKeyChecking no
UserKnownHostsFile /dev/null
LogLevel ERROR
ConnectTimeout 5
"""

#: The first process of a host; ``$1`` is its name, ``$2`` the folder of the bench, which all hosts
#: have, as they have the folders after it.
INIT = """\
set -e
hostname "$1"
mount --make-rprivate /
mount -t tmpfs tmpfs /mnt
bench=$2
shift
for folder; do
  mkdir -p "/mnt$folder.kept"
  mount --bind "$folder" "/mnt$folder.kept"
done
for place in /tmp /run /dev/shm; do mount -t tmpfs tmpfs "$place"; done
for folder; do
  mkdir -p "$folder"
  mount --move "/mnt$folder.kept" "$folder"
done
umount /mnt
mkdir -p /run/sshd
mount --bind "$bench/hosts" /etc/hosts
mount --bind "$bench/ssh_config" /etc/ssh/ssh_config
echo ready
read -r _
exec /usr/sbin/sshd -D -e -f "$bench/sshd_config" 2>/dev/null # nobody reads what it says
"""


class NoNamespacesError(Exception):
    """The kernel or a container allows no namespaces here."""


class Bench:
    """Hosts ``h1``, ``h2`` … that reach each other over one bridge, and have the folder.

    Raises ``NoNamespacesError``, with the system's own words, if they cannot be made here.
    """

    def __init__(self, folder: Path, count: int) -> None:
        self.folder = folder
        self.names = tuple(f"h{number}" for number in range(1, count + 1))
        self._processes: list[subprocess.Popen[str]] = []
        self._inits: dict[str, int] = {}
        try:
            self._write_files()
            self._start()
        except BaseException:
            self.close()
            raise

    def _write_files(self) -> None:
        for name in ("host_key", "user_key"):
            key = str(self.folder / name)
            _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key)
        lines = [f"10.77.0.{10 + n} {name}" for n, name in enumerate(self.names, 1)]
        (self.folder / "hosts").write_text("\n".join(["127.0.0.1 localhost", *lines, ""]))
        for name, text in (("sshd_config", SSHD_CONFIG), ("ssh_config", SSH_CONFIG)):
            (self.folder / name).write_text(text.format(folder=self.folder))

    def _start(self) -> None:
        hub = self._unshare("--net", "sh", "-c", "echo ready; read -r _")
        self._hub = self._child(hub)
        self._ip(self._hub, "link set lo up", "link add bridge type bridge", "link set bridge up")
        for number, name in enumerate(self.names, 1):
            flags = ("--net", "--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
            host = self._unshare(
                *flags, "sh", "-c", INIT, "init", name, str(self.folder), *CHECKOUT
            )
            self._inits[name] = init = self._child(host)
            self._ip(init, "link set lo up")
            peer = f"veth peer name eth0 netns {init}"
            self._ip(self._hub, f"link add {name} type {peer}", f"link set {name} master bridge up")
            address = f"addr add 10.77.0.{10 + number}/24 dev eth0"
            self._ip(init, address, "link set eth0 up")
            assert host.stdin is not None
            host.stdin.write("\n")
            host.stdin.flush()

        def is_up(name: str) -> bool:
            return not self.run("h1", "ssh", name, "true", check=False).returncode

        eventually(lambda: all(map(is_up, self.names)), UP_S)

    def _ip(self, pid: int, *commands: str) -> None:
        for words in commands:
            _run("nsenter", f"-t{pid}", "-n", "ip", *words.split())

    def _unshare(self, *words: str) -> subprocess.Popen[str]:
        """Start the first process of a namespace; it has said that it is ready."""
        process = self._popen("unshare", *words, stdin=subprocess.PIPE)
        assert process.stdout is not None and process.stderr is not None
        if process.stdout.readline() != "ready\n":
            raise NoNamespacesError(process.stderr.read().strip())
        return process

    def _child(self, process: subprocess.Popen[str]) -> int:
        """The process in the namespace: the child of unshare, or what unshare became."""
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        return int(children[0]) if children else process.pid

    def argv(self, host: str, *words: str) -> list[str]:
        """What runs a command on a host, in this folder, with this environment."""
        return ["nsenter", f"-t{self._inits[host]}", "-m", "-u", "-n", "-p", f"--wd={self.folder}",
                *words]  # fmt: skip

    def run(self, host: str, *words: str, **options: Any) -> subprocess.CompletedProcess[str]:
        options = {"check": True, "capture_output": True, "text": True, "timeout": 60, **options}
        return subprocess.run(self.argv(host, *words), stdin=subprocess.DEVNULL, **options)  # noqa: PLW1510

    def start(self, host: str, *words: str, **options: Any) -> subprocess.Popen[str]:
        """Start a command on a host; it ends with the bench."""
        return self._popen(*self.argv(host, *words), stdin=subprocess.DEVNULL, **options)

    def _popen(self, *words: str, **options: Any) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        options = {"stdout": pipe, "stderr": pipe, "text": True, **options}
        process: subprocess.Popen[str]
        process = subprocess.Popen([*TIED, *words], start_new_session=True, **options)
        self._processes.append(process)
        return process

    def processes(self, host: str, *, with_sessions: bool = False) -> dict[int, list[str]]:
        """What runs on a host beside its sshd: the words of each process by its id out here."""
        space = Path(f"/proc/{self._inits[host]}/ns/pid").readlink()
        processes = {}
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # it has ended
                if (entry / "ns/pid").readlink() == space:
                    words = (entry / "cmdline").read_bytes().decode(errors="replace")
                    processes[int(entry.name)] = words.split("\0")
        # A zombie has no words. A session of sshd outlives its link, as on any host.
        return {
            pid: words
            for pid, words in processes.items()
            if any(words) and (with_sessions or not words[0].startswith("sshd"))
        }

    def link(self, host: str, state: str) -> None:
        """Take the link of a host ``down`` or ``up``."""
        self._ip(self._inits[host], f"link set eth0 {state}")

    def close(self) -> None:
        """End all that was started; nothing is left then."""
        for process in reversed(self._processes):
            process.kill()
        for pid in self._inits.values():  # unshare kills it too, but tells nobody when it is done
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in self._processes:
            process.communicate()
        places = [Path(f"/proc/{pid}") for pid in self._inits.values()]
        eventually(lambda: not any(place.exists() for place in places), UP_S)


def _run(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        raise NoNamespacesError(f"{' '.join(argv)}: {done.stderr.strip()}")
