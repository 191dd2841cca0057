"""The agent in real interpreters: that it hooks on, and that nobody who does not ask notices it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.live_bench import Supervisor, run_rank

Run = Callable[..., "subprocess.CompletedProcess[str]"]

#: As much of Chainer and PyTorch as the hooks touch.
CHAINER = """
class StandardUpdater:
    def update(self):
        "Updates."
"""
OPTIMIZER = """
hooks = []
register_optimizer_step_post_hook = hooks.append
class Optimizer:
    def step(self):
        for hook in hooks:
            hook(self, (), {})
"""

FILES = {
    "chainer/training/updaters/standard_updater.py": CHAINER,
    "torch/__init__.py": "get_num_threads, set_num_threads = (lambda: 1), print\n",
    "torch/optim/optimizer.py": OPTIMIZER,
}

#: Loops whose updater or optimizer is replaced halfway, while another one runs beside it. At the
#: end the thread in the rank has connected.
LOOP = """
import time
from {module} import {made}
other = {made}()
for _ in "12":
    one = {made}()
    for _ in "1234": one.{method}(); other.{method}()
time.sleep(0.5)
"""
UPDATER = ("chainer.training.updaters.standard_updater", "StandardUpdater", "update")
OPTIMIZER_STEP = ("torch.optim.optimizer", "Optimizer", "step")


@pytest.fixture
def run(tmp_path: Path, supervisor: Supervisor) -> Run:
    """Run a program as the only rank, beside what looks like Chainer and PyTorch."""
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        for folder in list(path.relative_to(tmp_path).parents)[:-1]:
            (tmp_path / folder / "__init__.py").touch()

    return lambda code, **environ: run_rank(
        tmp_path, code, **{"TUNE_LIVE_FILE": str(supervisor.path), **environ}
    )


@pytest.mark.parametrize(
    ("hook", "first", "names"), [("chainer", 2, UPDATER), ("torch", 3, OPTIMIZER_STEP)]
)
def test_iterations_are_seen(
    run: Run, supervisor: Supervisor, hook: str, first: int, names: tuple[str, str, str]
) -> None:
    module, made, method = names
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run, LOOP.format(module=module, made=made, method=method))
        assert supervisor.hello().hook == hook
        supervisor.wait_for_end()
        ran = running.result()
    assert (ran.stdout, ran.stderr, ran.returncode) == ("", "", 0)
    assert supervisor.counted() == list(range(first, 9))
    assert supervisor.marks() == [5]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("chainer/training/updaters/standard_updater.py", "print('another version')"),
        ("torch/optim/optimizer.py", "print('another version')"),
        ("torch/optim/optimizer.py", "raise ImportError('broken')"),
    ],
)
def test_another_version_is_no_obstacle(run: Run, tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    module = name.removesuffix(".py").replace("/", ".")
    code = f"import {module} as it; print(it.__spec__.loader.__dict__.keys())"
    ours, without = run(code), run(code, TUNE_LIVE_FILE="")
    assert (ours.stdout, ours.returncode) == (without.stdout, without.returncode)
    assert ours.stderr.splitlines()[-1:] == without.stderr.splitlines()[-1:]


def test_nothing_of_it_is_loaded_where_nobody_asks(run: Run) -> None:
    code = (
        "import sys; print(sorted(sys.modules),"
        " [type(f).__name__ for f in sys.meta_path if 'Tuner' not in str(f)])"
    )
    without = run(code, PYTHONPATH="", TUNE_LIVE_FILE="").stdout
    for variable in ("TUNE_LIVE_FILE", "OMPI_COMM_WORLD_RANK"):
        ours = run(code, **{variable: ""}).stdout
        assert "rank_" not in ours
        assert "json" not in ours
        assert ours.partition("]")[2] == without.partition("]")[2]
    asked = run(code).stdout
    assert "'tune_rank_live'" in asked
    assert "'rank_live" not in asked


LOOK = "import sys; print('tune_rank_live' in sys.modules)"


@pytest.mark.parametrize(
    ("code", "is_the_rank"),
    [
        # A helper that steps before the rank does took the connection.
        (f"subprocess.run([sys.executable, '-c', {LOOK!r}], start_new_session=True)", False),
        # As `poetry run python` does.
        (f"os.execv(sys.executable, [sys.executable, '-c', {LOOK!r}])", True),
    ],
)
def test_a_python_that_the_rank_starts_does_not_take_its_place_but_may_become_it(
    run: Run, code: str, is_the_rank: bool
) -> None:
    ran = run(f"import os, subprocess, sys\n{code}")
    assert (ran.stdout, ran.stderr) == (f"{is_the_rank}\n", "")
