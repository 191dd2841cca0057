"""A study on tracking servers: by the commands of the guide, to a real MLflow and a real wandb."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import light_trainer
from tests.guides import blocks
from tests.light_trainer import QUICK, TRAINER, command, environment
from tests.marked import eventually

pytestmark = [pytest.mark.system, pytest.mark.slow]

SECRET = "c4nary-0f-the-program"
KEY = "c4nary" + "0f7he5erver" * 3 + "x"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a finished study, the command of which has a secret."""
    folder = tmp_path_factory.mktemp("publish") / "my work"
    folder.mkdir()
    lenient = TRAINER.replace("parser.parse_args()", "parser.parse_known_args()[0]")
    (folder / "train.py").write_text(lenient)
    words = (*QUICK, "--trials", "3", *command("--token", SECRET))
    done = light_trainer.tune(folder, *words)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def server(extras: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """The address of an MLflow server, and the folder in which it keeps everything."""
    kept = tmp_path_factory.mktemp("mlflow")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    argv = [extras / "mlflow", "server", "--workers", "1", "--host", "127.0.0.1", "--port", port,
            "--backend-store-uri", f"sqlite:///{kept}/mlflow.db",
            "--artifacts-destination", kept / "artifacts"]  # fmt: skip
    env = os.environ | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    with (kept / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [*map(str, argv)], env=env, cwd=kept, stdout=log, stderr=log, start_new_session=True
        )
    try:
        health = f"http://127.0.0.1:{port}/health"
        eventually(lambda: process.poll() is not None or answers(health), patience_s=300)
        assert process.poll() is None, (kept / "server.log").read_text()
        yield f"http://127.0.0.1:{port}", kept
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=10):
            return True
    except OSError:
        return False


def ask(url: str, **body: Any) -> Any:
    data = json.dumps(body).encode() if body else None
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def sh(script: str, folder: Path, extras: Path, **changes: str) -> subprocess.CompletedProcess[str]:
    """Run commands of the guide with the ``tune`` that has the clients."""
    names = ("MLFLOW_", "WANDB_")
    env = {k: v for k, v in environment(folder).items() if not k.startswith(names)}
    env |= {"PATH": f"{extras}:{os.environ['PATH']}", "HOME": str(folder), "WANDB_API_KEY": KEY}
    return light_trainer.captured(["sh", "-ec", script], folder, env | changes)


def pairs(run: Any, kind: str) -> dict[str, Any]:
    return {each["key"]: each["value"] for each in run["data"].get(kind, [])}


def test_the_commands_of_the_guide_log_all_of_a_study_but_its_secrets(
    folder: Path, server: tuple[str, Path], extras: Path
) -> None:
    url, kept = server
    (guide,) = (block for block in blocks("docs/how-to/use-the-result.md") if "MLFLOW" in block)
    done = sh(guide.replace("http://127.0.0.1:5000", url), folder, extras)
    assert done.returncode == 0, done.stderr
    page, sync = done.stdout.splitlines()
    exported = light_trainer.tune(folder, "export", "--format", "json").stdout
    found = json.loads(exported)

    # MLflow: a run of the study, and one for each setting
    assert page.startswith(f"{url}/#/experiments/0/runs/")
    run_id = page.rpartition("/")[2]
    api = f"{url}/api/2.0/mlflow"
    runs = ask(f"{api}/runs/search", experiment_ids=["0"], filter="tags.`tune.study` = 'quick'")
    (study,) = (run for run in runs["runs"] if run["info"]["run_id"] == run_id)
    settings = [r for r in runs["runs"] if pairs(r, "tags").get("mlflow.parentRunId") == run_id]
    assert len(settings) + 1 == len(runs["runs"])
    result, best = found["result"], found["best"]["setting"]
    assert pairs(study, "params").items() >= {f"best.{k}": str(v) for k, v in best.items()}.items()
    metrics, tags = pairs(study, "metrics"), pairs(study, "tags")
    assert metrics["ratio_low"] == pytest.approx(result["finding"]["low"])
    assert metrics["best_time"] == pytest.approx(result["best"]["elapsed_s"])
    assert tags["tune.verdict"] == result["verdict"]
    assert {"tune.machine", "tune.launcher", "tune.version"} <= tags.keys()
    medians = {
        tuple(sorted(pairs(run, "params").items())): pairs(run, "metrics").get("median_time")
        for run in settings
    }
    assert medians == {
        tuple(sorted((name, str(value)) for name, value in each["setting"].items())): (
            each["elapsed_s"] and pytest.approx(each["elapsed_s"])
        )
        for each in found["measurements"]
    }
    artifact = f"{url}/get-artifact?run_uuid={run_id}&path="
    assert ask(f"{artifact}result.json") == found
    with urllib.request.urlopen(f"{artifact}report.html", timeout=60) as report:
        assert report.read(15) == b"<!doctype html>"

    # wandb: what it will upload
    assert sync.startswith("wandb sync ")
    (run,) = (folder / "wandb").glob("offline-run-*")
    assert sync == f"wandb sync '{run}'"
    assert json.loads((run / "files" / "result.json").read_text()) == found
    assert [*run.rglob("report_*.html")]
    (record,) = run.glob("*.wandb")
    assert b"ratio_low" in record.read_bytes()
    assert b"--format" not in record.read_bytes(), "the words of this command may hold a secret"

    for place in (kept, folder / "wandb"):
        data = b"\n".join(path.read_bytes() for path in place.rglob("*") if path.is_file())
        assert b"--token" in data
        assert SECRET.encode() not in data and KEY.encode() not in data


@pytest.mark.parametrize(
    ("name", "variable"), [("mlflow", "MLFLOW_TRACKING_URI"), ("wandb", "WANDB_BASE_URL")]
)
def test_a_server_that_cannot_be_reached_is_one_error(
    folder: Path, extras: Path, name: str, variable: str
) -> None:
    env = {variable: f"http://me:{KEY}@127.0.0.1:1", "WANDB_INIT_TIMEOUT": "1"}
    done = sh(f"tune export --format {name} -o made", folder, extras, **env)
    assert (done.returncode, done.stdout) == (2, "")
    assert "tune: error: cannot log the study to " in done.stderr
    assert "127.0.0.1:1: " in done.stderr and "efused" in done.stderr
    assert f"next: check {variable}" in done.stderr
    assert "Traceback" not in done.stderr and KEY not in done.stderr
    assert not (folder / "made").exists()
