"""The house rules that can be read from the imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "tuner"

#: From the ground up: a module imports from its own layer or from one below it.
LAYERS: tuple[frozenset[str], ...] = (
    frozenset({"errors", "live", "model", "plugins", "procfs"}),
    frozenset(
        {
            "elastic",
            "forecast",
            "plausible",
            "probe_thread",
            "shortage",
            "stall",
            "tracing",
            "wilcoxon",
        }
    ),
    frozenset({"conditions", "found"}),
    frozenset(
        {
            "break_even",
            "clocks",
            "confirm",
            "drift",
            "knobs",
            "machine",
            "pace",
            "profiles",
            "racing",
            "stats",
        }
    ),
    frozenset(
        {
            "claims",
            "demand",
            "figures",
            "neighbours",
            "price",
            "quiet",
            "secrets",
            "supervisor",
            "units",
            "windowing",
            "wording",
        }
    ),
    frozenset({"command", "domains", "space", "pooling", "search"}),
    frozenset(
        {
            "process",
            "launchers",
            "objectives",
            "observe",
            "effects",
            "crash",
            "phases",
            "probe",
            "explain",
        }
    ),
    frozenset({"activity", "stacks", "telemetry"}),
    frozenset({"render"}),
    frozenset({"applies"}),
    frozenset({"exporters", "retune", "trial", "study_file", "spec", "store", "lock"}),
    frozenset({"study"}),
    frozenset({"report"}),
    frozenset({"dashboard", "replay"}),
    frozenset({"cli"}),
)
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}

#: Each effect has one home: who may import what.
HOMES = {
    "click": {"cli"},
    "rich": {"cli"},
    "jinja2": {"report"},
    "optuna": {"study"},
    "optuna_dashboard": {"dashboard"},
    "numpy": {"search"},
    "plotly": {"dashboard", "report"},
    "sqlalchemy": {"store", "study"},
    "subprocess": {"process", "supervisor"},
}


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def room(path: Path) -> str:
    """The module or package directly below ``tuner`` that a file belongs to."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """Every absolute module name that a file imports, and whether only for the type checker."""
    tree = ast.parse(path.read_text())
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, id(node) in typing_only
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            assert node.module is not None
            for alias in node.names:
                joined = f"{node.module}.{alias.name}" if node.module == "tuner" else node.module
                yield joined, id(node) in typing_only


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_one_way(path: Path) -> None:
    own = room(path)
    if own == "__init__":
        return
    assert own in LEVEL, f"{own} has no layer: give it one in {__file__}"
    for name, _ in imports(path):
        parts = name.split(".")
        if (
            parts[0] != "tuner"
            or len(parts) == 1
            or parts[1] in {"workloads", "wrappers", "studies"}
        ):
            continue
        if parts[1].startswith("__"):  # tuner.__version__
            continue
        assert LEVEL[parts[1]] <= LEVEL[own], f"{own} imports {name} from above"


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(ROOT)))
def test_each_effect_has_one_home(path: Path) -> None:
    for name, typing_only in imports(path):
        homes = HOMES.get(name.split(".")[0])
        if homes is not None and not typing_only:
            assert room(path) in homes, f"{path.name} imports {name}; its home is {sorted(homes)}"


def test_the_tool_never_imports_mpi() -> None:
    """A parent that has imported mpi4py.MPI breaks the mpirun that it starts."""
    for path in modules():
        assert not any(name.split(".")[0] == "mpi4py" for name, _ in imports(path)), path


def test_only_the_command_line_prints_or_exits() -> None:
    for path in modules():
        if room(path) in {"cli", "supervisor"}:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                assert called not in {"print", "sys.exit", "exit", "os._exit"}, f"{path}: {called}"


def test_every_module_has_a_test_of_its_name() -> None:
    known = {path.name for path in (ROOT / "tests").rglob("test_*.py")}
    for path in PACKAGE.glob("*.py"):
        if path.stem in {"__init__", "errors", "model", "supervisor"}:
            continue
        assert f"test_{path.stem}.py" in known, f"{path.stem} has no test file"


def test_every_package_is_installed() -> None:
    """An editable install has them all anyway; ``pip install .`` has what is listed."""
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    listed = setup["options"]["packages"].split()
    for path in PACKAGE.rglob("__init__.py"):
        assert ".".join(path.parent.relative_to(ROOT).parts) in listed


def test_nothing_reads_outside_the_project() -> None:
    """What the project needs lies in it: no path of somebody's own machine."""
    words = ("/root/", "/home/")
    for folder in ("tuner", "workloads", "wrappers", "studies", "benchmarks", "docs"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in {".py", ".sh", ".toml", ".md"}:
                text = path.read_text()
                assert not any(word in text for word in words), path
