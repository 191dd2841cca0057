"""The rules of the layout in CONTRIBUTING.md that can be read from the source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "tuner"
MODULES = sorted(PACKAGE.rglob("*.py"))

#: From the bottom up. A package imports from itself and from the rows below its own.
LAYERS = (
    {"model"},
    {"knobs"},
    {"stats"},
    {"search", "hosts"},
    {"launch"},
    {"store", "live"},
    {"config"},
    {"study"},
    {"results"},
    {"cli"},
)
LEVEL = {package: level for level, packages in enumerate(LAYERS) for package in packages}

#: Each effect has one place: the packages that may import a library.
USERS = {
    "click": {"cli"},
    "rich": {"cli"},
    "jinja2": {"results"},
    "optuna": {"study"},
    "optuna_dashboard": {"results"},
    "numpy": {"search"},
    "plotly": {"results"},
    "sqlalchemy": {"store", "study"},
    "subprocess": {"hosts"},
    "mpi4py": set(),  # a parent that has imported it breaks the mpirun that it starts
}


def imports(path: Path) -> Iterator[str]:
    """Every name that a file imports when it runs, as ``package.module.name``."""
    tree = ast.parse(path.read_text())
    checks = [
        n
        for n in ast.walk(tree)
        if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.unparse(n.test)
    ]
    typing_only = {id(inner) for check in checks for inner in ast.walk(check)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and id(node) not in typing_only:
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and id(node) not in typing_only:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_packages_import_downwards_only_and_each_effect_has_one_place() -> None:
    assert {path.name for path in PACKAGE.iterdir() if path.suffix == ".py"} == {"__init__.py"}
    for path in MODULES:
        own, *_ = path.relative_to(PACKAGE).parts
        for first, second, *_ in (f"{name}.".split(".") for name in imports(path)):
            assert own in USERS.get(first, {own}), f"{path} imports {first}"
            if first == "tuner" and second in LEVEL and own in LEVEL and own != second:
                assert LEVEL[second] < LEVEL[own], f"{path} imports {second} from above"


def test_every_package_has_a_layer_and_is_installed() -> None:
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    for path in PACKAGE.rglob("__init__.py"):
        package = path.parent.relative_to(ROOT).parts
        assert ".".join(package) in setup["options"]["packages"].split()
        assert len(package) == 1 or package[1] in LEVEL, f"{package[1]} has no layer"


def test_nothing_names_a_path_of_this_machine_and_only_cli_prints_or_exits() -> None:
    for path in MODULES:
        assert not re.search(r"/root/|/home/", path.read_text()), path
        if not {"cli", "supervisor"} & set(path.parts):
            calls = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call)]
            called = {ast.unparse(call.func) for call in calls}
            assert not called & {"print", "exit", "sys.exit", "os._exit"}, path
