"""Each thing that compat adds, alone, and Chainer on top of all of them."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path

import numpy as np
import pytest

from workloads import compat

ROOT = Path(__file__).parents[2]
CHECK = "chainer._environment_check"


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """NumPy without the old names, and a process that has not met Chainer."""
    places = [(vars(np), "sctypes"), (vars(np), "float")]
    places += [(vars(sys)["modules"], CHECK), (vars(sys)["modules"], "chainer")]
    saved = [(place, name, place.pop(name, None)) for place, name in places]
    yield monkeypatch
    for place, name, value in saved:
        place.pop(name, None)
        if value is not None:
            place[name] = value


def old_numpy(monkeypatch: pytest.MonkeyPatch, missing: str = "") -> None:
    """Pretend to be NumPy 1.23 with everything there but ``missing``."""
    monkeypatch.setattr(np, "__version__", "1.23.5")
    vars(np).update(sctypes={"int": [np.int32]}, float=complex)

    def find_spec(name: str) -> ModuleSpec | None:
        return None if name == missing else ModuleSpec(name, None)

    monkeypatch.setattr(importlib.util, "find_spec", find_spec)


def test_what_numpy_2_lacks_is_added(bare: pytest.MonkeyPatch) -> None:
    bare.setattr(np, "__version__", "2.4.6")
    assert compat.install() == ("numpy.sctypes", "numpy.float", CHECK)


def test_sctypes_names_numpys_integers_and_floats_by_size(bare: pytest.MonkeyPatch) -> None:
    compat.install()
    sctypes = vars(np)["sctypes"]
    assert [kind().itemsize for kind in sctypes["int"]] == [1, 2, 4, 8]
    assert [kind().itemsize for kind in sctypes["uint"]] == [1, 2, 4, 8]
    assert sctypes["float"][:3] == [np.float16, np.float32, np.float64]
    assert np.dtype("float32") in sctypes["float"]
    assert sctypes["complex"][:2] == [np.complex64, np.complex128]


def test_the_check_is_replaced_by_an_empty_one(bare: pytest.MonkeyPatch) -> None:
    compat.install()
    assert sys.modules[CHECK].check() is None


def test_nothing_is_done_on_an_old_numpy(bare: pytest.MonkeyPatch) -> None:
    old_numpy(bare)
    assert compat.install() == ()
    assert vars(np)["float"] is complex
    assert CHECK not in sys.modules


@pytest.mark.parametrize("missing", ["numpy.distutils", "pkg_resources"])
def test_an_old_numpy_without_the_checks_imports_gets_the_empty_check(
    bare: pytest.MonkeyPatch, missing: str
) -> None:
    old_numpy(bare, missing)
    assert compat.install() == (CHECK,)


def test_a_chainer_that_is_there_keeps_its_check(bare: pytest.MonkeyPatch) -> None:
    sys.modules["chainer"] = sys
    assert CHECK not in compat.install()


PROGRAM = """
from workloads import compat
added = compat.install()
import numpy as np
import chainer, chainermn, chainer.functions as F
x = chainer.Variable(np.ones((1, 1, 4, 4), np.float32))
assert F.resize_images(x, (2, 2)).shape == (1, 1, 2, 2)  # numpy.float
x = chainer.Variable(np.ones((4, 4), np.float32))
y = F.as_strided(x, (2, 2), (1, 2), 0)  # numpy.sctypes, backwards too
F.sum(y).backward()
assert float(x.grad.sum()) == 4.0
assert compat.install() == ()
print(*added)
"""


def test_chainer_works_with_it() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", PROGRAM],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    if np.__version__.startswith("2."):
        assert done.stdout.split() == ["numpy.sctypes", "numpy.float", CHECK]
