"""Workflows and the action `compare` parse, call what exists, and do what they say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.conftest import store_study
from tests.study_samples import SPEC, study

ROOT = Path(__file__).parents[2]
ACTION = ROOT / ".github" / "actions" / "compare" / "action.yml"
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def steps(path: Path) -> list[dict[str, Any]]:
    document = yaml.safe_load(path.read_text())
    jobs = document["jobs"].values() if "jobs" in document else [document["runs"]]
    return [step for job in jobs for step in job["steps"]]


@pytest.mark.parametrize("path", [*WORKFLOWS, ACTION], ids=lambda path: path.name)
def test_what_a_workflow_calls_exists(path: Path) -> None:
    targets = re.findall(r"(?m)^([a-z-]+):", (ROOT / "Makefile").read_text())
    reference = (ROOT / "docs" / "reference.md").read_text()
    options_of_tune = set(re.findall(r"--[a-z-]+", reference))
    assert "secrets." not in path.read_text()
    for step in steps(path):
        if "uses" in step:
            assert re.fullmatch(r"actions/[\w-]+@v\d+", step["uses"]), step
            continue
        script = step["run"]
        assert subprocess.run(["bash", "-n", "-c", script], check=False).returncode == 0, script
        assert set(re.findall(r"(?m)^make ([a-z-]+)", script)) <= set(targets), script
        for file in re.findall(r"(?m)^bash (\S+)$", script):
            assert (ROOT / file).exists(), file
        for words in re.findall(r"(?m)\btune (.*)$", script):
            options = set(re.findall(r"--[a-z-]+", words.split(" -- ")[0]))
            assert options <= options_of_tune, words


#: A `gh` that writes down its arguments, and lists the comment that `OLD` names.
GH = """#!/bin/sh
printf '%s|' "$@" >> calls
case "$*" in *--paginate*) echo "$OLD" ;; esac
exit "${GH_CODE:-0}"
"""


def compared(folder: Path, **changes: str) -> tuple[subprocess.CompletedProcess[str], str, str]:
    """Run the action's step; return how it ended, its calls of `gh` and the summary of the job."""
    (step,) = steps(ACTION)
    (folder / "gh").write_text(GH)
    (folder / "gh").chmod(0o755)
    for name in ("calls", "summary"):
        (folder / name).write_text("")
    path = f"{folder}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = os.environ | dict.fromkeys(step["env"], "") | {"PATH": path, "OLD": ""}
    env |= {"GITHUB_STEP_SUMMARY": "summary", "GITHUB_REPOSITORY": "me/job", "PULL_REQUEST": "7"}
    env |= {"BEFORE": "main", "AFTER": "branch", "STORAGE": "ci.db", "FAIL_IF_SLOWER": "5%"}
    bash = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    env |= {"COMMENT": "true"} | changes
    done = subprocess.run(bash, cwd=folder, env=env, capture_output=True, text=True, check=False)
    return done, (folder / "calls").read_text(), (folder / "summary").read_text()


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A folder with a fake `tune`, which prints a table and ends as a file says."""
    (tmp_path / "tune").write_text('#!/bin/sh\necho "worse: $*"; exit "$(cat code)"\n')
    (tmp_path / "tune").chmod(0o755)
    (tmp_path / "code").write_text("0")
    return tmp_path


def test_the_action_writes_the_table_into_the_summary_and_a_comment(job: Path) -> None:
    done, calls, summary = compared(job)
    table = "worse: compare main branch --storage ci.db --fail-if-slower 5%\n"
    assert (done.returncode, done.stderr) == (0, "") and done.stdout == table
    assert f"```text\n{table}```" in summary
    assert "|repos/me/job/issues/7/comments|-f|body=<!-- tune compare main branch -->" in calls
    assert table in calls


def test_the_action_replaces_its_comment_and_fails_if_it_is_slower(job: Path) -> None:
    (job / "code").write_text("6")
    done, calls, summary = compared(job, OLD="12\n13")
    assert done.returncode == 6 and "worse:" in summary
    assert "api|--method|PATCH|repos/me/job/issues/comments/12|-f|body=<!-- tune" in calls


@pytest.mark.parametrize(
    ("code", "changes", "said"),
    [
        ("2", {}, "worse:"),  # an error of tune: no comment, the log has it
        ("0", {"PULL_REQUEST": ""}, "worse:"),
        ("0", {"COMMENT": "false"}, "worse:"),
        ("0", {"GH_CODE": "4"}, "::warning::No comment was written"),
    ],
)
def test_the_action_writes_no_comment(
    job: Path, code: str, changes: dict[str, str], said: str
) -> None:
    (job / "code").write_text(code)
    done, calls, _ = compared(job, **changes)
    assert done.returncode == int(code) and said in done.stdout and "body=" not in calls


def test_the_action_runs_the_command_as_it_is(tmp_path: Path) -> None:
    store_study(tmp_path / "ci.db", study(spec=SPEC))
    done, _, _ = compared(tmp_path, BEFORE="main", AFTER=SPEC.name)
    assert done.returncode == 2 and "no study main in ci.db" in done.stderr
