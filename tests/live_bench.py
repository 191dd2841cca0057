"""Ranks with the probe in them, and a supervisor that a test plays."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

PROBE = Path(__file__).resolve().parent.parent / "wrappers" / "probe"
PATIENCE_S = 60.0


def probe_module(name: str) -> ModuleType:
    """A module of the probe, which lies in no package."""
    sys.path.insert(0, str(PROBE))
    try:
        return import_module(name)
    finally:
        sys.path.remove(str(PROBE))


def run_rank(
    folder: Path, code: str, *options: str, python: str = sys.executable, **environ: str
) -> subprocess.CompletedProcess[str]:
    """Run a program of this code in the folder, as the only rank; "" unsets a variable."""
    (folder / "train.py").write_text(code)
    env = {name: value for name, value in os.environ.items() if "RANK" not in name}
    env |= {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1", "PYTHONPATH": str(PROBE)}
    return subprocess.run(
        [python, *options, str(folder / "train.py")],
        env={name: value for name, value in (env | environ).items() if value},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


class Supervisor:
    """Listens at a socket, and says what the test lets it say."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "live"
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(self.path))
        self._server.listen(1)
        self._server.settimeout(PATIENCE_S)
        self._line: socket.socket | None = None
        self._rest = b""
        self.steps: list[dict[str, Any]] = []
        self.made: int | None = None  # iterations, as the program's end tells

    def send(self, **message: Any) -> None:
        self.raw(json.dumps(message).encode() + b"\n")

    def raw(self, text: bytes) -> None:
        assert self._line is not None
        self._line.sendall(text)

    def switch(self, number: int, **values: Any) -> dict[str, Any]:
        """Ask for a change, and wait for what came of it."""
        self.send(type="switch", number=number, values=values)
        answer = self.until("switched")
        assert answer is not None
        return answer

    def until(self, kind: str) -> dict[str, Any] | None:
        """The next message of this kind, None at the end; steps are kept, and so is the end."""
        if self._line is None:
            self._line, _ = self._server.accept()
            self._line.settimeout(PATIENCE_S)
        while (message := self._next()) is not None:
            if message["type"] == kind:
                return message
            if message["type"] == "end":
                self.made = message["iterations"]
                continue
            assert message["type"] == "steps", message
            self.steps.append(message)
        return None

    def _next(self) -> dict[str, Any] | None:
        assert self._line is not None
        while b"\n" not in self._rest:
            data = self._line.recv(65536)
            if not data:
                return None
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        assert len(line) <= 64 * 1024
        message: dict[str, Any] = json.loads(line)
        return message

    def hello(self) -> dict[str, Any]:
        message = self.until("hello")
        assert message is not None
        assert self.steps == []
        return message

    def counted(self) -> list[int]:
        """The numbers of all iterations that were told of."""
        return [m["first"] + n for m in self.steps for n in range(len(m["s"]))]

    def close(self) -> None:
        """The other side sees the end; may be called again."""
        if self._line is not None:
            self._line.close()
        self._server.close()
