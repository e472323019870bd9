"""What a file is that `jaxelim show` opens, and the table of an experiment's file."""

from pathlib import Path
from typing import Any

import xarray as xr

from jaxelim.errors import StoreError
from jaxelim.simulation.results.loading import opened
from jaxelim.simulation.results.summary import BIASED, Summary, row

_MEASURED = ("samples", "stopped", "correct", "tests_stopping")


def kind_of(path: Path) -> tuple[str, Any]:
    """The kind of a file, "study", "table" or "result", and the arrays of a table.

    What is none of these counts as a result, whose reader says what is wrong.
    """
    try:
        data = opened(path, xr.load_dataset)
    except StoreError:
        return "result", None
    if "jaxelim_study" in data.attrs:
        return "study", None
    if "jaxelim_result" not in data.attrs and {"row", "run"} <= set(data.sizes):
        return "table", data
    return "result", None


def table_of(data: xr.Dataset, name: str) -> Summary:
    """The means of a table's file, which has arrays [row, run]."""
    rows = []
    for n, label in enumerate(data["row"].values):
        rows.append({"row": str(label), **row(*(data[of].values[n] for of in _MEASURED))})
    cut = sum(line["cut off"] for line in rows)
    notes = [f"{cut} runs were cut off and are in no mean, and {BIASED}."] if cut else []
    settings = ("runs", "seed", "max_samples")
    notes.append("; ".join(f"{key} {data.attrs[key]}" for key in settings if key in data.attrs))
    return Summary(str(data.attrs.get("title", name)), tuple(rows), tuple(notes))
