"""What a study of each kind says, whole, as it was reviewed: `make snapshots` renews the files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests import study_samples as samples
from tests.study_samples import everything
from tuner.cli import printed
from tuner.results.exporters import tables

FOLDER = Path(__file__).parent / "snapshots"

STUDIES = {
    **everything(),
    "study": samples.study(),
    "live": samples.measured_live(),
    "capped": samples.capped_study(),
    "inconclusive": samples.inconclusive(),
}

#: The next commands differ by what is handed over: a setting, the defaults, or nothing.
WITH_NEXT = ("study", "capped", "not_pursued", "nothing", "only_failures", "hostile")

#: The Markdown of all others has the same lines and cells in it as what is printed before it.
IN_MARKDOWN = ("no_gain", "failing", "live", "hostile")


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_says_what_was_reviewed(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    data, path = STUDIES[name], FOLDER / f"{name}.txt"
    printed.print_result(data, summary=True)
    if name in WITH_NEXT:
        printed.print_next(data, "postgresql://me:s3cret@host/tune")
    printed.print_settings(data)
    printed.print_failures(data)
    if name in IN_MARKDOWN:
        print("\n--- the table, in Markdown\n")
        print(tables.markdown(data).text)
    text = capsys.readouterr().out
    if "TUNE_SNAPSHOTS" in os.environ:
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
    assert "s3cret" not in text
