"""What the tables of means share: the measures of a cell, their page, and their files."""

import csv
import io
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from experiments import cells
from experiments.tables import clopper_pearson
from jaxelim import figures
from jaxelim.files import write_whole


def times(data: xr.Dataset) -> dict[str, float]:
    """Counts of runs, and their samples; with truncated runs, of min(tau, cap).

    `data` is of one delta and stopping rule, and so it is in the functions below. `se` is
    NaN for one run.
    """
    tau, n = data["samples"].values.astype(float), int(data["stopped"].values.sum())
    return {
        "runs": tau.size,
        "truncated": tau.size - n,
        "stopped": n,
        "mean": tau.mean(),
        "se": tau.std(ddof=1) / tau.size**0.5 if tau.size > 1 else math.nan,
        "median": float(np.median(tau)),
    }


def wrong_answers(data: xr.Dataset) -> dict[str, float]:
    """Errors of the runs that stopped, and the Clopper-Pearson interval, level 0.95."""
    stopped = data["stopped"].values
    wrong = int((~data["correct"].values[stopped]).sum())
    low, high = clopper_pearson(wrong, int(stopped.sum()))
    return {"errors": wrong, "error_low": low, "error_high": high}


def us_per_sample(timings: Mapping[str, float]) -> float:
    """Wall time of one device here, in microseconds."""
    return 1e6 * timings["seconds"] / timings["samples_drawn"]


def z(line: dict) -> float:
    """(mean - other)/sqrt(se^2 + other_se^2), NaN with truncated runs."""
    if line["truncated"]:
        return math.nan
    return (line["mean"] - line["other"]) / math.hypot(line["se"], line["other_se"])


def stopping_times(data: xr.Dataset) -> np.ndarray:
    """tau [run], NaN for runs that were cut off."""
    return np.where(data["stopped"].values, data["samples"].values, np.nan)


def number(value: float, form: str) -> str:
    """A formatted number, empty for NaN."""
    return "" if math.isnan(value) else format(value, form)


def mean(line: dict) -> str:
    """mean ± standard error; a dagger marks restricted means."""
    spread = "" if math.isnan(line["se"]) else f" ± {line['se']:.0f}"
    return f"{line['mean']:.0f}{spread}" + ("†" if line["truncated"] else "")


def errors(line: dict) -> str:
    """wrong/stopped [interval]."""
    interval = f" [{line['error_low']:.3f}, {line['error_high']:.3f}]" if line["stopped"] else ""
    return f"{line['errors']}/{line['stopped']}{interval}"


def cut_off(line: dict) -> str:
    """truncated/runs, or 0."""
    return f"{line['truncated']}/{line['runs']}" if line["truncated"] else "0"


def page(
    parts: Sequence[str], notes: Sequence[str], lines: Sequence[dict], cap: int,
    place: str = "cell", cause: str = "",
) -> str:  # fmt: skip
    """The Markdown of some parts and notes, with a note on the runs that were cut off.

    Args:
        parts: headings and tables.
        notes: sentences below them.
        lines: the measures shown.
        cap: samples at which runs are cut off.
        place: what shows a restricted mean, "cell" or "row".
        cause: a further sentence of the note on them.
    """
    cut = sum(line["truncated"] for line in lines)
    said = (
        f"† {cut} runs were cut off at {cap} samples. Such a {place} shows the "
        f"restricted mean E[min(tau, cap)].{cause}"
    )
    every = [*notes, *([said] if cut else [])]
    return "\n".join([*parts, *(f"- {note}" for note in every)]) + "\n"


def comma_separated(lines: Sequence[dict]) -> str:
    """All measures as CSV in full precision; empty if undefined."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(lines[0]), lineterminator="\n")
    writer.writeheader()
    for line in lines:
        writer.writerow(
            {k: "" if isinstance(v, float) and math.isnan(v) else v for k, v in line.items()}
        )
    return text.getvalue()


def written(stem: Path, page: str, lines: Sequence[dict]) -> None:
    """Write a page as STEM.md and its measures as STEM.csv; print the page."""
    write_whole(stem.with_suffix(".md"), page.encode())
    write_whole(stem.with_suffix(".csv"), comma_separated(lines).encode())
    print(page)


def make(
    options: cells.Options,
    stem: Path,
    found: Mapping[Any, cells.Cell],
    measures: Callable[[Any, Any], list[dict]],
    markdown: Callable[[list[dict], Any], str],
    drawn: Callable[[list[dict]], Any] | None = None,
) -> None:
    """Run the missing runs; write the page, the measures, and the figure where there is one.

    Args:
        options: of the command line.
        stem: path of the files, without an ending.
        found: the cells by their keys; several keys may have one cell.
        measures: the lines of the table, of the cells and of what they hold.
        markdown: the page of these lines.
        drawn: the figure of these lines.
    """
    endings = (".md", ".csv", ".png", ".pdf") if drawn else (".md", ".csv")
    once = list({cell.name: cell for cell in found.values()}.values())
    kept = cells.run_and_load(once, options, [stem.with_suffix(x) for x in endings])
    if kept is None:
        return
    lines = measures(found, kept)
    written(stem, markdown(lines, options), lines)
    if drawn:
        print(*figures.save(drawn(lines), stem))
