"""Exports of studies, which other hosts and people may have written."""

from __future__ import annotations

import json
import math

from tests.parsers.strategies import DEEP, LONG, holds, texts, trees
from tests.study_samples import SPEC, study
from tuner.model import BASELINE, JsonDict
from tuner.model.errors import UsageError
from tuner.results.compare import compare, read
from tuner.results.exporters.json import dumps, export

_EXPORT = json.loads(export(study({BASELINE: 8.316}, SPEC)).text)
_OTHER = read("other.json", json.dumps(_EXPORT))
#: Without what is not read, so that more of the changes are of what is.
_LAUNCH: JsonDict = {"setting": {}, "samples": [{"figure": 8.4}], "window": None, "counts_for": {}}
_LAUNCH |= {"purpose": "confirm", "observation": {"ranks": [{"packages": [["numpy", "2.0"]]}]}}
_RESULT = {key: _EXPORT["result"][key] for key in ("unit", "direction", "best")}
_READ = _EXPORT | {"result": _RESULT, "launches": [_LAUNCH]}
_DEEP_DICT = b'{"a":' * 480 + b"1" + b"}" * 480


@holds(
    trees(_READ) | texts(json.dumps(_READ).encode()),
    DEEP,
    LONG,
    json.dumps(_READ).encode().replace(b'"Some CPU"', _DEEP_DICT),
    json.dumps(_READ).encode().replace(b'"last"', _DEEP_DICT),
)
def test_an_export(data: bytes) -> None:
    try:
        found = read("main.json", data.decode(errors="replace"))
        pair = compare(found, _OTHER), compare(_OTHER, found)
    except UsageError as error:
        assert error.message.strip() and error.hint and len(error.message) < 50_000
        return
    for each in pair:
        assert json.loads(dumps(each.json(0.05)))["verdict"] == each.verdict(0.05)
        assert all(math.isfinite(row.gain.ratio) for row in each.rows)
        assert len(each.table()) == len(each.rows) >= 1
