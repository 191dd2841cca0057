from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tuner.model import plugins
from tuner.model.errors import UsageError
from tuner.results.exporters import exporter_for, format_of, names

METADATA = "Metadata-Version: 2.1\nName: brings-formats\nVersion: 1.0\n"


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package with a format that works, one that does not, and one called ``sh``."""
    (tmp_path / "brings_formats.py").write_text("def export(data):\n    return data\n")
    info = tmp_path / "brings_formats-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(METADATA)
    (info / "entry_points.txt").write_text(
        "[tuner.exporters]\nzz = brings_formats:export\nbad = brings_nothing:export\n"
        "worse = brings_formats:gone\nsh = brings_formats:export\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "brings_formats", raising=False)


def test_a_format_of_another_package_replaces_none_of_ours_which_come_first() -> None:
    assert exporter_for("zz").__module__ == "brings_formats"
    assert format_of("x.zz") == "zz"
    assert exporter_for("sh").__module__ == "tuner.results.exporters.shell"
    assert names()[:2] == ("sh", "env")
    assert [name for name in names() if name in {"bad", "worse", "zz"}] == ["bad", "worse", "zz"]


def test_a_broken_package_is_one_error_and_an_unknown_name_has_the_nearest() -> None:
    for name in ("bad", "worse"):
        with pytest.raises(UsageError, match=f"tuner.exporters: {name} .* brings-formats cannot"):
            exporter_for(name)
    with pytest.raises(UsageError) as caught:
        plugins.find("tuner.none", {"alpha": "a:b"}, "alpa", what="thing")
    assert caught.value.message == "unknown thing: alpa"
    assert caught.value.hint.startswith("did you mean 'alpha'?")
