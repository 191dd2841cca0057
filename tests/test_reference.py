"""The documentation says what the program says, and its links lead somewhere."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
import yaml

from tests.light_trainer import captured

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]

#: Options of other programs that the pages name.
OTHERS = {"--build-constraint", "--env-file", "--nproc-per-node", "--standalone"}


@pytest.mark.parametrize("name", ["reference.md", "tune.1", "schema.json"])
def test_the_reference_is_up_to_date(name: str) -> None:
    code = f"import make_reference; print(make_reference.FILES[{name!r}](), end='')"
    made = captured([sys.executable, "-c", code], ROOT / "docs", os.environ)
    assert made.returncode == 0, made.stderr
    assert made.stdout == (ROOT / "docs" / name).read_text(), "run `make docs`"


def test_every_exit_code_is_documented() -> None:
    from tuner.cli.exits import MEANINGS

    page = (ROOT / "docs" / "how-to" / "troubleshooting.md").read_text()
    for code, meaning in MEANINGS:
        assert f"| {code} | {meaning} |" in page


def test_every_option_of_tune_that_a_page_names_exists() -> None:
    known = set(re.findall(r"--[a-z][a-z-]+", (ROOT / "docs" / "reference.md").read_text()))
    for page in [ROOT / "README.md", *(ROOT / "docs" / "how-to").glob("*.md")]:
        for line in re.findall(r"(?m)^tune .*$", page.read_text()):
            own = re.split(r" -- |#", line)[0]
            missing = set(re.findall(r"(?<=\s)--[a-z][a-z-]+", own)) - known - OTHERS
            assert not missing, f"{page}: {missing}"


def test_every_link_leads_to_a_file() -> None:
    for page in [*PAGES, ROOT / "docs" / "llms.txt"]:
        for target in re.findall(r"\]\(([^)#\s]+)", page.read_text()):
            if not target.startswith(("http", "../../actions/")):  # pages of the repository's host
                assert (page.parent / target).exists(), f"{page}: {target}"


def test_llms_txt_names_every_page_in_a_line() -> None:
    docs = ROOT / "docs"
    title, empty, summary, *rest = (docs / "llms.txt").read_text().splitlines()
    assert title.startswith("# ") and not empty and summary.startswith("> ")
    links = [line for line in rest if line.startswith("- ")]
    targets = [re.fullmatch(r"- \[.+\]\((.+?)\): .+", line) for line in links]
    pages = {str(page.relative_to(docs)) for page in docs.rglob("*.md")}
    assert {match and match[1] for match in targets} == pages | {"schema.json"}


def test_the_page_for_agents_is_a_skill() -> None:
    page = (ROOT / "docs" / "how-to" / "agents.md").read_text()
    front_matter = yaml.safe_load(page.split("---\n")[1])
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", front_matter["name"])
    assert 0 < len(front_matter["description"]) <= 1024
    assert f"{front_matter['name']}/SKILL.md" in page


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/promises.md"])
def test_every_file_that_a_page_names_exists(page: str) -> None:
    text = (ROOT / page).read_text()
    for name in re.findall(
        r"`((?:tuner|tests|wrappers|workloads|campaigns|studies|docs)/[\w./]*)`", text
    ):
        if not re.search(r"\bx(_y)?\.|test_x", name):
            assert (ROOT / name).exists(), name


def test_every_test_that_continuous_integration_names_exists() -> None:
    script = (ROOT / ".ci" / "run").read_text()
    files = dict(re.findall(r"(\w+)=(tests/\S+\.py)", script))
    named = re.findall(r"\$(\w+)::(test_\w+)", script)
    assert named
    for variable, test in named:
        assert f"def {test}(" in (ROOT / files[variable]).read_text(), test
