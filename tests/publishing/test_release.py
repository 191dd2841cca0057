"""The check before a release names what is wrong; the recipes need what setup.cfg needs."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from release import check

ROOT = Path(__file__).parents[2]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree that is ready: what the cheap items look at, in a repository of its own."""
    for name in ("setup.cfg", *check.VERSIONS):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    version = check.metadata(ROOT)["version"]
    (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n## {version} (2027-01-31)\n")
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run([*git, "commit", "-qm", "all"], cwd=tmp_path, check=True)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "old", "new", "item", "said"),
    [
        ("CHANGELOG.md", "", "", check.changelog, ""),
        ("CHANGELOG.md", "2027-01-31", "soon", check.changelog, "in place of `## Unreleased`"),
        ("CHANGELOG.md", "\n\n", "\n\n## Unreleased\n\n", check.changelog, "no dated section"),
        ("CITATION.cff", "", "", check.same_version, ""),
        (
            "CITATION.cff",
            "\nversion: ",
            "\nversion: 9",
            check.same_version,
            "next: edit CITATION.cff",
        ),
        ("docs/tune.1", '" "User', '9" "User', check.same_version, "next: make docs"),
        ("CHANGELOG.md", "", "", check.clean_tree, ""),
        ("CHANGELOG.md", "# C", "# c", check.clean_tree, "next: git commit\n M CHANGELOG.md"),
    ],
)
def test_what_is_not_ready_is_named_with_the_next_step(
    tree: Path, name: str, old: str, new: str, item: check.Item, said: str
) -> None:
    text = (tree / name).read_text()
    (tree / name).write_text(text.replace(old, new, 1))
    failure = item(tree)
    assert said in failure and bool(failure) == bool(said)


def test_each_item_is_a_line_and_one_failure_fails_all(
    tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(check, "ITEMS", {"version": check.same_version, "tree": check.clean_tree})
    assert check.main(tree) == 0
    assert capsys.readouterr().out == "ok: version\nok: tree\n"
    (tree / "new").touch()
    assert check.main(tree) == 1
    assert "ok: version\nwrong: tree: these files" in capsys.readouterr().out


def test_the_recipes_need_what_the_wheel_needs() -> None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    lines = setup["options"]["install_requires"].split("\n")
    needs = {line for line in lines if line and not line.startswith("#")}

    recipe = yaml.safe_load((ROOT / "release" / "conda" / "recipe.yaml").read_text())
    conda = {need.replace(" ", "") for need in recipe["requirements"]["run"]}
    assert conda == {"python>=${{python_min}}", *needs}

    package = (ROOT / "release" / "spack" / "package.py").read_text()
    spack = set()
    for name, low, high in re.findall(r'"py-([\w-]+)@([\d.]+):(\d*)", type=\("build', package):
        spack.add(f"{name}>={low}" + (f",<{int(high) + 1}" if high else ""))
    assert spack == needs
