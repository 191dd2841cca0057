"""The rules of the layout in CONTRIBUTING.md that can be read from the source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "tuner"
TREES = {path: ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}

#: From the bottom up. A package imports from itself and from the rows before its own.
LAYERS = (
    "model | knobs | stats | search hosts | launch | store live | config | study | results"
    " | cli api"
)
LEVEL = {name: level for level, row in enumerate(LAYERS.split("|")) for name in row.split()}

#: Each effect has one place: the packages that may import a library.
USERS = {
    "click": {"cli"},
    "rich": {"cli"},
    "jinja2": {"results"},
    "optuna": {"search", "study"},
    "optuna_dashboard": {"results"},
    "numpy": {"search"},
    "plotly": {"results"},
    "sqlalchemy": {"store", "study"},
    "subprocess": {"hosts"},
    "tqdm": {"api"},
    "mpi4py": set(),  # a parent that has imported it breaks the mpirun that it starts
}

#: What in `hosts` is a program of its own.
PROGRAMS = {"supervisor", "dial.py"}

#: What opens only files that no program under test can have written.
OPENERS = {"kinds.py", "server.py"}


def imports(tree: ast.Module) -> Iterator[str]:
    """Every name that a file imports when it runs, as ``package.module.name``."""
    checks = [n for n in ast.walk(tree) if isinstance(n, ast.If)]
    for check in checks:
        if "TYPE_CHECKING" in ast.unparse(check.test):
            check.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_packages_import_downwards_only_and_each_library_has_its_users() -> None:
    assert [path.name for path in PACKAGE.glob("*.py")] == ["__init__.py"]
    for path, tree in TREES.items():
        own, *_ = path.relative_to(PACKAGE).parts
        for first, second, *_ in (f"{name}.".split(".") for name in imports(tree)):
            assert own in USERS.get(first, {own}), f"{path} imports {first}"
            if first == "tuner" and second in LEVEL and own in LEVEL and own != second:
                assert LEVEL[second] < LEVEL[own], f"{path} imports {second} from above"


def test_every_package_has_a_layer_and_is_installed_and_no_other_is_listed() -> None:
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    there = {path.parent.relative_to(ROOT).parts for path in PACKAGE.rglob("__init__.py")}
    data = {("tuner", name) for name in ("workloads", "wrappers", "studies")}
    assert {".".join(p) for p in there | data} == set(setup["options"]["packages"].split())
    assert {package[1] for package in there if len(package) > 1} == set(LEVEL)


def test_only_cli_prints_and_what_a_program_wrote_is_opened_with_care() -> None:
    for path, tree in TREES.items():
        assert not re.search(r"/root/|/home/", path.read_text()), f"{path}: a path of one machine"
        calls = {ast.unparse(n.func) for n in ast.walk(tree) if isinstance(n, ast.Call)}
        if not {"cli", *PROGRAMS} & set(path.parts):
            assert not calls & {"print", "exit", "sys.exit", "os._exit"}, path
        parts = set(path.relative_to(PACKAGE).parts)
        if {"launch", "live", "study", "probe.py"} & parts and path.name not in OPENERS:
            opens = {
                c
                for c in calls
                if re.search(r"(^|\.)(?<!Store.)((read|write)_(text|bytes)|open)$", c)
            }
            assert not opens, f"{path}: {opens}: use tuner.hosts.untrusted_files"
