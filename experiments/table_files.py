"""The files of a table: Markdown, CSV, and its study with every run."""

import math
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from experiments import cells, tables
from jaxelim.files import write_whole

ENDINGS = (".md", ".csv", ".nc")
"""Endings of the files that hold a table."""
_PROBLEMS = {"bai": "BAI", "topm": "Top-m", "osi": "OSI"}


def _number(value: float, form: str, unit: str = "", before: str = "") -> str:
    return "" if math.isnan(value) else before + format(value, form) + unit


def shown(lines: Sequence[dict]) -> list[dict[str, str]]:
    """The measures as strings; a dagger marks restricted means."""
    return [
        {
            "problem": _PROBLEMS[line["problem"]],
            "algorithm": line["algorithm"],
            "elimination": line["column"],
            "samples (k)": f"{line['samples_k']:.2f}" + _number(line["sd_k"], ".1f", before=" ± ")
            + "†" * bool(line["truncated"]),
            "paper (k)": _number(line["paper_samples_k"], ".2f", f" ± {line['paper_sd_k']:.1f}"),
            "z": _number(line["z"], "+.2f"),
            "cut off": f"{line['truncated']}/{line['runs']}" if line["truncated"] else "0",
            "errors [95%]": f"{line['errors']}/{line['stopped']}"
            + (f" [{line['error_low']:.3f}, {line['error_high']:.3f}]" if line["stopped"] else ""),
            "samples saved": _number(line["samples_saved"], ".1f", "%"),
            "paper's": _number(line["paper_samples_saved"], ".1f", "%"),
            "tests/sample stopping": f"{line['tests_stopping']:.2f}",
            "sampling": f"{line['tests_sampling']:.2f}",
            "tests saved": _number(line["tests_saved"], ".0f", "%"),
            "paper's time saved": _number(line["paper_time_saved"], ".0f", "%"),
            "us/sample here": _number(line["us_per_sample"], ".2f"),
            "ms/sample there": _number(line["paper_ms_per_sample"], ".2f"),
        }
        for line in lines
    ]


def notes(lines: Sequence[dict], options: tables.TableOptions) -> list[str]:
    """Notes below the table."""
    told = [
        f"delta = {options.delta:g}, threshold {_formula(options)}, {options.runs} runs a cell, "
        f"seed {options.seed}, cap {options.max_samples} samples. Samples in thousands, "
        "mean ± sd over runs; the paper's are over 100 runs.",
        "z = (ours - paper)/sqrt(sd_paper^2/100 + sd^2/n). Errors: wrong answers among the runs "
        "that stopped, with the Clopper-Pearson interval.",
        "Tests: half-spaces looked at per sample drawn, for stopping and for sampling (the "
        "paper's measure of cost). Saved: percent of what the same rule needs without "
        "elimination; the paper's time is its milliseconds per iteration.",
        "us/sample here: wall time of one device over samples drawn, compilation apart; columns "
        "that watch the same runs share it.",
    ]
    if not options.papers:
        told.append(
            f"These are not the paper's numbers: it has delta = 0.01, threshold "
            f"log((1 + t)/delta) and ridge 1; the ridge here is {options.ridge:g}."
        )
    if any(not math.isnan(line["paper_samples_k"]) for line in lines):
        told.append(tables.agreement(lines))
    cut = sum(line["truncated"] for line in lines)
    if cut:
        told.append(
            f"† {cut} runs were cut off at {options.max_samples} samples. Such a cell shows the "
            "restricted mean E[min(tau, cap)], and the sd of min(tau, cap); without its dagger a "
            "mean is of runs that all stopped."
        )
    return told


def _formula(options: tables.TableOptions) -> str:
    """The threshold, as a formula where it has a short one."""
    own = {"heuristic": "log((1 + t)/delta)", "gk16": "log((1 + log t)/delta)"}
    return own.get(options.threshold, options.threshold)


def markdown(table: str, lines: Sequence[dict], options: tables.TableOptions) -> str:
    """The table as a Markdown page."""
    parts = [f"# {tables.LAYOUTS[table].title}\n"]
    for problem in dict.fromkeys(line["problem"] for line in lines):
        mine = [
            {k: v for k, v in one.items() if k != "problem"}
            for one in shown([x for x in lines if x["problem"] == problem])
        ]
        parts.append(
            f"## {_PROBLEMS[problem]}, {tables.LAYOUTS[table].instances[problem]}\n\n"
            f"{cells.markdown(mine)}\n"
        )
    return "\n".join(parts + [f"- {note}" for note in notes(lines, options)]) + "\n"


def make(table: str, options: tables.TableOptions) -> None:
    """Run the missing blocks of a table's cells; write .md, .csv and .nc, and print the page."""
    found, stem = tables.rows(table, options), Path(options.output) / table
    files = [stem.with_suffix(ending) for ending in ENDINGS]
    held = cells.studied(options, files, tables.jobs(found))
    if held is None:
        return
    lines = tables.measures(found, held)
    page = markdown(table, lines, options)
    write_whole(files[0], page.encode())
    write_whole(files[1], pd.DataFrame(lines).to_csv(index=False).encode())
    held.save(files[2])
    print(f"{page}\n{stem}.md, .csv, and .nc with every run")
