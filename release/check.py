"""`make release-check`: everything that must hold before a release is tagged and uploaded.

A line is printed for each item: `ok`, or what is wrong with the next step.
"""

from __future__ import annotations

import configparser
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

#: Where else the version stands, and how.
VERSIONS = {
    "CITATION.cff": r"(?m)^version: (\S+)$",
    "release/conda/recipe.yaml": r"(?m)^  version: (\d\S*)$",
    "release/spack/package.py": r'version\("([^"]+)"',
    "docs/tune.1": r'"\S+ (\d[^"]*)" "User Commands"',
}

#: An item prints nothing if it holds, else what is wrong and the next step.
Item = Callable[[Path], str]


def metadata(root: Path) -> configparser.SectionProxy:
    """Return the metadata of the distribution."""
    setup = configparser.ConfigParser()
    setup.read(root / "setup.cfg")
    return setup["metadata"]


def run(root: Path, *words: str | Path) -> str:
    """Run a command; return the end of its output if it failed, else nothing."""
    done = subprocess.run(words, cwd=root, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else (done.stdout + done.stderr)[-1500:] or str(words[0])


def clean_tree(root: Path) -> str:
    status = ("git", "status", "--porcelain")
    changes = subprocess.run(status, cwd=root, capture_output=True, text=True, check=True).stdout
    return f"these files are not committed; next: git commit\n{changes}" if changes else ""


def changelog(root: Path) -> str:
    version, text = metadata(root)["version"], (root / "CHANGELOG.md").read_text()
    heading = rf"(?m)^## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)$"
    if "## Unreleased" in text or not re.search(heading, text):
        section = f"`## {version} (YYYY-MM-DD)`"
        return f"no dated section of {version}; next: write {section} in place of `## Unreleased`"
    return ""


def same_version(root: Path) -> str:
    version = metadata(root)["version"]
    for name, pattern in VERSIONS.items():
        match = re.search(pattern, (root / name).read_text())
        if match is None or match[1] != version:
            stated = match[1] if match else "no version"
            mend = "make docs" if name.startswith("docs") else f"edit {name}"
            return f"{name} has {stated}, setup.cfg {version}; next: {mend}"
    return ""


def reference(root: Path) -> str:
    code = "from make_reference import DOCS, FILES\n"
    code += "print(*[name for name in FILES if FILES[name]() != (DOCS / name).read_text()])"
    words = (sys.executable, "-c", code)
    done = subprocess.run(words, cwd=root / "docs", capture_output=True, text=True, check=True)
    stale = done.stdout.strip()
    return f"docs: {stale} is not what the program says; next: make docs" if stale else ""


def site(root: Path) -> str:
    failure = run(root, "make", "site")
    return failure and f"the site cannot be built; next: make site\n{failure}"


def wheel(root: Path) -> str:
    """Build twice from the last commit, alone in a folder, and let twine check the result."""
    date = ("git", "log", "-1", "--format=%ct")
    epoch = subprocess.run(date, cwd=root, capture_output=True, text=True, check=True).stdout
    os.environ["SOURCE_DATE_EPOCH"] = epoch.strip()
    with tempfile.TemporaryDirectory() as name:
        wheels = []
        for folder in (Path(name, "first"), Path(name, "second")):
            folder.mkdir()
            failure = (
                run(root, "git", "archive", "-o", folder / "sources.tar", "HEAD")
                or run(folder, "tar", "-xf", "sources.tar")
                or run(folder, sys.executable, "-m", "build")
                or run(folder, sys.executable, "-m", "twine", "check", "--strict", "dist/*")
            )
            if failure:
                return f"the wheel cannot be built and checked; next: python -m build\n{failure}"
            wheels.append(next(folder.glob("dist/*.whl")).read_bytes())
    return "" if wheels[0] == wheels[1] else "built twice, the wheel differs; next: compare both"


ITEMS: dict[str, Item] = {
    "everything is committed": clean_tree,
    "the changelog has a section of this version": changelog,
    "the version is the same everywhere": same_version,
    "reference, man page and schema are current": reference,
    "the documentation can be built": site,
    "the wheel has the same bytes twice, and twine finds nothing": wheel,
}


def main(root: Path = ROOT) -> int:
    failures = {}
    for title, item in ITEMS.items():
        failure = failures[title] = item(root)
        print(f"wrong: {title}: {failure}" if failure else f"ok: {title}", flush=True)
    return int(any(failures.values()))


if __name__ == "__main__":
    sys.exit(main())
