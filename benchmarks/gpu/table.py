"""The table of a run, as Markdown and JSON: `python -m benchmarks.gpu.table FOLDER PART ...`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.programs import table

HEADERS = (*table.HEADERS, "samples/s", "GPU busy", "GPU power")


def line(folder: Path) -> dict[str, Any]:
    """Return what a part came to; ``cells`` are its line of the table."""
    try:
        document = json.loads((folder / "result.json").read_text())
        explained = json.loads((folder / "explained.json").read_text())
    except (OSError, ValueError):
        cells = [folder.name, "", "", "no result: see its output.log"]
        return {"part": folder.name, "cells": cells + [""] * (len(HEADERS) - len(cells))}
    result = document["result"]
    measured = {"baseline": result["baseline"], "best": result["candidate"]}
    hosts = {run["name"]: run["figures"]["host"] for run in explained["runs"]}
    sides = {
        name: {"samples_per_s": _samples_per_s(measurement, document["study"]["items"])}
        | {key: hosts.get(name, {}).get(key) for key in ("gpu_share", "gpu_power_w")}
        for name, measurement in measured.items()
    }
    patterns = {"samples_per_s": "{:.0f}", "gpu_share": "{:.0%}", "gpu_power_w": "{:.0f} W"}
    cells = []
    for key, pattern in patterns.items():
        values = [side[key] for side in sides.values()]
        cells += [" → ".join("?" if v is None else pattern.format(v) for v in values)]
    return {
        "part": folder.name,
        **{key: result[key] for key in ("verdict", "finding", "ratio", "export", "candidate")},
        "machine": document["study"]["machine"],
        **sides,
        "cells": [*table.row(folder.name, document, explained), *cells],
    }


def _samples_per_s(measurement: dict[str, Any] | None, items: float) -> float | None:
    """Return the rate of a side; one that was only ever stopped has that of its projection."""
    if measurement is None:
        return None
    stopped: dict[str, float] | None = measurement["stopped"]
    rate: float | None = measurement["items_per_s"]
    return items / stopped["projection_s"] if stopped else rate


def main(folder: Path, names: list[str]) -> None:
    """Write ``table.md`` and ``table.json``."""
    lines = [line(folder / name) for name in names]
    rows = [HEADERS, ("---",) * len(HEADERS), *(line["cells"] for line in lines)]
    (folder / "table.md").write_text("".join(f"| {' | '.join(row)} |\n" for row in rows))
    (folder / "table.json").write_text(json.dumps(lines, indent=2) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
