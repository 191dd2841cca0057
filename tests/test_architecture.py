"""The rules of the layout in CONTRIBUTING.md that can be read from the source."""

from __future__ import annotations

import ast
import re
from configparser import ConfigParser
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib.util import resolve_name
from pathlib import Path

import pytest

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
    "rich": {"api", "cli"},
    "jinja2": {"results"},
    "optuna": {"search", "study", "store"},
    "optuna_dashboard": {"results"},
    "numpy": {"search", "live"},
    "sqlalchemy": {"store", "study"},
    "subprocess": {"hosts"},
    "mpi4py": set(),  # a parent that has imported it breaks the mpirun that it starts
}

#: What in `hosts` is a program of its own.
PROGRAMS = {"supervisor", "dial.py"}


@cache
def imports(path: Path, *, for_types: bool) -> list[tuple[str, str]]:
    """Return each import of a file as a module and a name in it, empty for the module itself.

    Functions count as the file does. What stands under ``TYPE_CHECKING`` counts if `for_types`.
    """
    package, tree = ".".join(path.relative_to(ROOT).parent.parts), TREES[path]
    checks = [n for n in ast.walk(tree) if isinstance(n, ast.If)]
    checks = [check for check in checks if "TYPE_CHECKING" in ast.unparse(check.test)]
    typing = {node for check in checks for line in check.body for node in ast.walk(line)}
    names = []
    for node in ast.walk(tree):
        if node in typing and not for_types:
            continue
        if isinstance(node, ast.Import):
            names += [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = resolve_name("." * node.level + (node.module or ""), package)
            names += [(module, alias.name) for alias in node.names]
    return names


@cache
def definitions(path: Path) -> frozenset[str]:
    """Return the names that a file itself gives a value, function or class."""
    names: set[str] = set()
    for statement in TREES[path].body:
        if isinstance(statement, ast.ClassDef | ast.FunctionDef):
            names.add(statement.name)
        else:
            stored = (n for n in ast.walk(statement) if isinstance(n, ast.Name))
            names |= {n.id for n in stored if isinstance(n.ctx, ast.Store)}
    return frozenset(names)


def file_of(module: str) -> Path | None:
    """Return the file of a module of ours; ``None`` for a library's."""
    place = ROOT.joinpath(*module.split("."))
    files = place.with_suffix(".py"), place / "__init__.py"
    return next((path for path in files if path in TREES), None)


def origin(module: str, name: str) -> Path | None:
    """Return the file of ours that defines a name which is imported from a module.

    A package that only hands the name on is not its origin.
    """
    path = file_of(f"{module}.{name}") or file_of(module)
    if path is None or path.name != "__init__.py" or name in definitions(path):
        return path
    for source, handed_on in imports(path, for_types=True):
        candidate = origin(source, name) if handed_on in {name, "*"} else None
        if candidate and (handed_on == name or name in definitions(candidate)):
            return candidate
    return path


def test_packages_import_downwards_only_and_each_library_has_its_users() -> None:
    assert [path.name for path in PACKAGE.glob("*.py")] == ["__init__.py"]
    for path in TREES:
        own, *_ = path.relative_to(PACKAGE).parts
        names = [f"{module}.{name}" for module, name in imports(path, for_types=False)]
        for first, second, *_ in (name.split(".") for name in names):
            assert own in USERS.get(first, {own}), f"{path} imports {first}"
            if first == "tuner" and second in LEVEL and own in LEVEL and own != second:
                assert LEVEL[second] < LEVEL[own], f"{path} imports {second} from above"


def test_no_files_import_each_other_not_even_for_types() -> None:
    graph = {
        path: {origin(module, name) for module, name in imports(path, for_types=True)}
        for path in TREES
    }
    try:
        TopologicalSorter({path: graph[path] - {None, path} for path in graph}).prepare()
    except CycleError as error:
        circle = ", ".join(str(path.relative_to(PACKAGE)) for path in error.args[1])
        pytest.fail(f"each imports the one before it: merge them or move what they share: {circle}")


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
        if {"launch", "live", "study", "probe.py"} & parts:
            opens = {
                c
                for c in calls
                if re.search(r"(^|\.)(?<!Store.)((read|write)_(text|bytes)|open)$", c)
            }
            assert not opens, f"{path}: {opens}: use tuner.hosts.untrusted_files"
