"""The paper's Tables 1, 3 and 4: their cells, measures and files.

A row of a table (problem, algorithm, column) is an observer of a cell. "none" and
"stopping" (Table 3: "none", "selective" and "full") observe the same runs of one cell.
Elimination at sampling, and rules with a native test, have a cell each.
"""

import csv
import dataclasses
import io
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from scipy import stats

import jaxelim as je
from experiments import cells, paper
from jaxelim import catalogue
from jaxelim.errors import ArgumentError
from jaxelim.instances import describe
from jaxelim.store import Held, write_whole

EXACT = "Oracle, exact w*"
"""The oracle's second row; the paper's oracle tracks an approximation of w*."""
ENDINGS = (".md", ".tex", ".csv", ".nc")
"""Endings of the files that hold a table."""
LEVEL = 0.95
"""Confidence level of the Clopper-Pearson intervals."""
_PROBLEMS = {"bai": "BAI", "topm": "Top-m", "osi": "OSI"}
_HEADS = {
    "none": "No elimination (LLR)",
    "stopping": "Elim. stopping",
    "stopping+sampling": "Elim. stopping + sampling",
    "selective": "Selective elim.",
    "full": "Full elim.",
}


@dataclasses.dataclass(frozen=True)
class Layout:
    """One table: the instance of each problem, and the columns in the paper's order."""

    name: str
    title: str
    instances: dict[str, str]
    columns: tuple[str, ...]


LAYOUTS = {
    "table1": Layout(
        "table1",
        "Table 1: linear instances, K = 50, d = 20",
        {"bai": "linear-d20", "topm": "linear-d20", "osi": "linear-d20-osi"},
        ("none", "stopping", "stopping+sampling"),
    ),
    "table3": Layout(
        "table3",
        "Table 3: linear instances, K = 52 and 51, d = 10, selective against full elimination",
        {"bai": "linear-d10", "topm": "linear-d10-topm"},
        ("none", "selective", "full"),
    ),
    "table4": Layout(
        "table4",
        "Table 4: unstructured instances, K = 40",
        {"bai": "unstructured-k40", "topm": "unstructured-k40", "osi": "unstructured-k40-osi"},
        ("none", "stopping", "stopping+sampling"),
    ),
}


@dataclasses.dataclass(frozen=True)
class TableOptions(cells.Options):
    """Options of the tables."""

    rules: tuple[str, ...] = ()
    """Sampling rules, by the names that `jaxelim rules` lists; by default all."""
    problems: tuple[str, ...] = ()
    """Problems: bai, topm, osi; by default all."""


@dataclasses.dataclass(frozen=True)
class Row:
    """One observer of one cell, and the paper's numbers for it."""

    problem: str
    algorithm: str
    column: str
    cell: cells.Cell
    stopping: str  # the observer's name
    paper: dict[str, float]  # empty for a row that the paper lacks

    @property
    def reproduces(self) -> bool:
        """Whether this is one of the paper's rows; the exact oracle is not."""
        return self.algorithm != EXACT


def rows(table: str, options: TableOptions) -> list[Row]:
    """All rows of a table that the options select, in the paper's order.

    Raises:
        UnknownNameError: an unknown rule or problem.
        ArgumentError: no row is left.
    """
    layout = LAYOUTS[table]
    wanted = {catalogue.find_rule(name) for name in options.rules}
    problems = {
        catalogue.find("problems", name, layout.instances) and name for name in options.problems
    }
    found = []
    for (of_table, problem, algorithm, column), numbers in paper.cells().items():
        kind = _kind(algorithm)
        if (
            of_table != table
            or (wanted and kind not in wanted)
            or (problems and problem not in problems)
        ):
            continue
        for name in (algorithm, EXACT) if kind is je.Oracle else (algorithm,):
            cell, stopping = _cell(layout, problem, name, column, options)
            found.append(Row(problem, name, column, cell, stopping, numbers))
    if not found:
        raise ArgumentError(
            "rules", (*options.rules, *options.problems), f"rules and problems that {table} has"
        )
    # The oracle's two rows follow each other, not column by column.
    order = {
        key: place
        for place, key in reversed(list(enumerate((row.problem, row.algorithm) for row in found)))
    }
    return sorted(found, key=lambda row: order[row.problem, row.algorithm])


def rules_of(table: str, problem: str) -> set[type[je.SamplingRule]]:
    """The sampling rules that the paper's table has."""
    return {
        _kind(algorithm) for of, one, algorithm, _ in paper.cells() if (of, one) == (table, problem)
    }


def unpublished(
    table: str, problem: str, kind: type[je.SamplingRule], options: TableOptions
) -> list[Row]:
    """The rows that a rule would have in a table that lacks it.

    Columns that do not apply to the rule give no row.
    """
    found = []
    plain = catalogue.name_of(kind)
    for algorithm in (plain, f"{plain} + elim") if kind.traits.elimination else (plain,):
        for column in LAYOUTS[table].columns:
            observer = {"none": "llr", "full": "full"}.get(column, "selective")
            if observer not in kind.traits.stopping or (column == "none" and algorithm != plain):
                continue
            cell, stopping = _cell(LAYOUTS[table], problem, algorithm, column, options)
            found.append(Row(problem, algorithm, column, cell, stopping, {}))
    return found


def _plain(algorithm: str) -> str:
    """The sampling rule's name, without "+ elim" for elimination at sampling."""
    return algorithm.removesuffix(" + elim")


def _kind(algorithm: str) -> type[je.SamplingRule]:
    return catalogue.find_rule(_plain(algorithm).lower().replace(" ", "-"))


def _cell(
    layout: Layout, problem: str, algorithm: str, column: str, options: TableOptions
) -> tuple[cells.Cell, str]:
    """The cell of a row, and the name of its stopping rule."""
    name = layout.instances[problem]
    if algorithm == EXACT:
        rule: Any = je.Oracle()
    else:
        kind = _kind(algorithm)
        rule = je.Oracle(paper.oracle_weights(name, problem)) if kind is je.Oracle else kind()
    selective, full = je.SelectiveElimination(), je.FullElimination()
    observers: dict[str, Any] = {
        "none": je.LLR(),
        "stopping": selective,
        "selective": selective,
        "full": full,
    }
    at_sampling = column == "stopping+sampling" or algorithm != _plain(algorithm)
    elimination = None
    if rule.traits.stopping == ("native",):
        stopping, variant = (je.Native(),), "native"
    elif at_sampling:
        elimination = observers.get(column, selective)
        stopping, variant = (elimination,), f"{elimination.name}-at-both"
    else:
        stopping, variant = (
            tuple(observers[one] for one in layout.columns if one in observers),
            "watched",
        )
    problems = {
        "bai": je.BestArm,
        "topm": lambda: je.TopM(describe(name).m or 1),
        "osi": je.Thresholding,
    }
    cell = cells.Cell(
        options.named(f"{layout.name}/{problem}/{_plain(algorithm)}/{variant}"),
        je.load_instance(name),
        problems[problem](),
        rule,
        stopping,
        elimination,
        seed=options.seed,
        max_samples=options.max_samples,
    )
    return cell, stopping[0].name if len(stopping) == 1 else observers[column].name


def jobs(found: Sequence[Row]) -> list[cells.Cell]:
    """The distinct cells of rows, the paper's longest first: devices idle less."""
    dearest = sorted(found, key=lambda row: -row.paper.get("mean", 0) * row.paper.get("ms", 0))
    return list({row.cell.name: row.cell for row in dearest}.values())


def observed(row: Row, held: dict[str, Held]) -> xr.Dataset:
    """The runs of a row: variables [run], and [run, arm]."""
    data = held[row.cell.name].data
    assert data is not None
    return data.isel(delta=0).sel(stopping=row.stopping)


def measures(found: Sequence[Row], held: dict[str, Held]) -> list[dict[str, Any]]:
    """Measures of each row, NaN if undefined.

    - problem, algorithm, column: the row. Table 3's algorithm contains "+ elim".
    - runs, truncated, stopped: counts of runs.
    - samples_k, sd_k: thousands. With truncated runs, the restricted mean
      E[min(tau, cap)] and the sd of min(tau, cap).
    - paper_samples_k, paper_sd_k: the paper's.
    - z: NaN if runs were truncated at another cap than the paper's.
    - errors: wrong answers among the runs that stopped.
    - error_low, error_high: Clopper-Pearson interval, level 0.95.
    - tests_stopping, tests_sampling: half-space tests per sample.
    - samples_saved, tests_saved: percent of the samples without elimination, and of its
      tests per sample.
    - paper_samples_saved, paper_time_saved: the paper's, the latter of its milliseconds
      per iteration.
    - us_per_sample: wall time of one device here.
    - paper_ms_per_sample: the paper's milliseconds per iteration.
    - reproduces: see `Row`.
    """
    lines = []
    for row in found:
        data, whole = observed(row, held), held[row.cell.name]
        tau, stopped = data["samples"].values.astype(float), data["stopped"].values
        wrong, n = int((~data["correct"].values[stopped]).sum()), int(stopped.sum())
        low, high = clopper_pearson(wrong, n)
        drawn = whole.work("samples_drawn")
        # The paper's means include runs cut off at its cap.
        comparable = n == tau.size or row.cell.max_samples == paper.CAP
        lines.append({
            "problem": row.problem,
            "algorithm": row.algorithm,
            "column": row.column,
            "runs": tau.size,
            "samples_k": tau.mean() / 1000,
            "sd_k": tau.std(ddof=1) / 1000 if tau.size > 1 else math.nan,
            "truncated": tau.size - n,
            "paper_samples_k": row.paper["mean"],
            "paper_sd_k": row.paper["sd"],
            "z": paper.z_score(tau, row.paper) if comparable and tau.size > 1 else math.nan,
            "errors": wrong,
            "stopped": n,
            "error_low": low,
            "error_high": high,
            "tests_stopping": float(data["tests_stopping"].values.sum() / tau.sum()),
            "tests_sampling": float(data["tests_sampling"].values.sum() / tau.sum()),
            "us_per_sample": 1e6 * whole.work("seconds") / drawn if drawn else math.nan,
            "paper_ms_per_sample": row.paper["ms"],
            "reproduces": row.reproduces,
        })
    without = {
        (line["problem"], line["algorithm"]): line for line in lines if line["column"] == "none"
    }
    for line in lines:
        base = (
            without.get((line["problem"], _plain(line["algorithm"])))
            if line["column"] != "none"
            else None
        )
        line["samples_saved"] = _saved(line, base, lambda one: one["samples_k"])
        line["tests_saved"] = _saved(
            line, base, lambda one: one["tests_stopping"] + one["tests_sampling"]
        )
        line["paper_samples_saved"] = _saved(line, base, lambda one: one["paper_samples_k"])
        line["paper_time_saved"] = _saved(line, base, lambda one: one["paper_ms_per_sample"])
    return lines


def _saved(line: dict, base: dict | None, of: Any) -> float:
    return math.nan if base is None or not of(base) else 100 * (1 - of(line) / of(base))


def clopper_pearson(wrong: int, n: int) -> tuple[float, float]:
    """The exact interval of a probability after `wrong` of n; (NaN, NaN) for n = 0."""
    if n == 0:
        return math.nan, math.nan
    interval = stats.binomtest(wrong, n).proportion_ci(LEVEL, method="exact")
    return float(interval.low), float(interval.high)


def agreement(lines: Sequence[dict]) -> str:
    """Counts of the paper's rows by standard errors; names those beyond three."""
    scores = [line for line in lines if line["reproduces"] and not math.isnan(line["z"])]
    near = sum(abs(line["z"]) <= 2 for line in scores)
    within = sum(2 < abs(line["z"]) <= 3 for line in scores)
    far = [line for line in scores if abs(line["z"]) > 3]
    text = (
        f"{len(scores)} of the paper's cells: |z| <= 2 in {near}, 2 < |z| <= 3 in {within}, "
        f"|z| > 3 in {len(far)}."
    )
    if far:
        named = [
            f"{line['problem']} {line['algorithm']}, {line['column']} ({line['z']:+.1f})"
            for line in far
        ]
        text += " The last: " + "; ".join(named) + "."
    return text


def _number(value: float, form: str, unit: str = "") -> str:
    return "" if math.isnan(value) else format(value, form) + unit


def shown(lines: Sequence[dict]) -> list[dict[str, str]]:
    """The measures as strings; a dagger marks restricted means."""
    return [{
        "problem": _PROBLEMS[line["problem"]],
        "algorithm": line["algorithm"],
        "elimination": line["column"],
        "samples (k)": _samples(line) + ("†" if line["truncated"] else ""),
        "paper (k)": f"{line['paper_samples_k']:.2f} ± {line['paper_sd_k']:.1f}",
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
        "ms/sample there": f"{line['paper_ms_per_sample']:.2f}",
    } for line in lines]


def _samples(line: dict, sign: str = "±") -> str:
    spread = "" if math.isnan(line["sd_k"]) else f" {sign} {line['sd_k']:.1f}"
    return f"{line['samples_k']:.2f}{spread}"


def notes(lines: Sequence[dict], options: TableOptions) -> list[str]:
    """Notes below the table."""
    told = [
        f"delta = 0.01, threshold log((1 + t)/delta), {options.runs} runs a cell, "
        f"seed {options.seed}, cap {options.max_samples} samples. Samples in thousands, "
        "mean ± sd over runs; the paper's are over 100 runs.",
        "z = (ours - paper)/sqrt(sd_paper^2/100 + sd^2/n). Errors: wrong answers among the runs "
        "that stopped, with the Clopper-Pearson interval.",
        "Tests: half-spaces looked at per sample drawn, for stopping and for sampling (the "
        "paper's measure of cost). Saved: percent of what the same rule needs without "
        "elimination; the paper's time is its milliseconds per iteration.",
        "us/sample here: wall time of one device over samples drawn, compilation apart; columns "
        "that watch the same runs share it.",
        agreement(lines),
    ]
    cut = sum(line["truncated"] for line in lines)
    if cut:
        told.append(
            f"† {cut} runs were cut off at {options.max_samples} samples. Such a cell shows the "
            "restricted mean E[min(tau, cap)], and the sd of min(tau, cap); without its dagger a "
            "mean is of runs that all stopped."
        )
    return told


def markdown(table: str, lines: Sequence[dict], options: TableOptions) -> str:
    """The table as a Markdown page."""
    parts = [f"# {LAYOUTS[table].title}\n"]
    for problem in dict.fromkeys(line["problem"] for line in lines):
        mine = [
            {k: v for k, v in one.items() if k != "problem"}
            for one in shown([x for x in lines if x["problem"] == problem])
        ]
        parts.append(
            f"## {_PROBLEMS[problem]}, {LAYOUTS[table].instances[problem]}\n\n"
            f"{catalogue.markdown(mine)}\n"
        )
    return "\n".join(parts + [f"- {note}" for note in notes(lines, options)]) + "\n"


def latex(table: str, lines: Sequence[dict], options: TableOptions) -> str:
    """The table in the paper's form, for the LaTeX packages booktabs and multirow.

    Each column has samples and microseconds per sample.
    """
    layout = LAYOUTS[table]
    columns = layout.columns
    heads = " & ".join(f"\\multicolumn{{2}}{{c}}{{{_HEADS[column]}}}" for column in columns)
    out = [
        "% needs \\usepackage{booktabs, multirow, graphicx}",
        "\\begin{table*}[t]",
        "\\centering",
        "\\small",
        f"\\begin{{tabular}}{{@{{}}cl{'cc' * len(columns)}@{{}}}}",
        "\\toprule",
        f" & & {heads} \\\\",
        f"\\cmidrule(r){{3-{2 + 2 * len(columns)}}}",
        " & Algorithm" + " & Samples & Time" * len(columns) + " \\\\",
    ]
    for problem in dict.fromkeys(line["problem"] for line in lines):
        mine = {
            (line["algorithm"], line["column"]): line
            for line in lines
            if line["problem"] == problem
        }
        algorithms = list(dict.fromkeys(algorithm for algorithm, _ in mine))
        m = describe(layout.instances[problem]).m
        label = f"Top-m ($m={m}$)" if problem == "topm" else _PROBLEMS[problem]
        out += [
            "\\midrule",
            f"\\multirow{{{len(algorithms)}}}{{*}}{{\\rotatebox[origin=c]{{90}}{{{label}}}}}",
        ]
        for algorithm in algorithms:
            entries = []
            for column in columns:
                line = mine.get((algorithm, column))
                if line is None:
                    entries.append(" & ")
                    continue
                mark = f"^{{\\dagger{line['truncated']}}}" if line["truncated"] else ""
                entries.append(
                    f"${_samples(line, chr(92) + 'pm')}{mark}$ & "
                    f"${_number(line['us_per_sample'], '.2f')}$"
                )
            out.append(f"& {algorithm.replace('w*', '$w^*$')} & {' & '.join(entries)} \\\\")
    caption = (
        f"{layout.title}, $\\delta = 0.01$. Samples in thousands, mean $\\pm$ standard deviation "
        f"over {options.runs} runs (the cap at "
        + f"{options.max_samples} samples); time in microseconds per sample, "
        "the wall time of one device."
    )
    if any(line["truncated"] for line in lines):
        caption += (
            " $\\dagger n$: $n$ runs were cut off at the cap; the entry is the restricted mean "
            "$E[\\min(\\tau, \\mathrm{cap})]$ and the standard deviation of "
            "$\\min(\\tau, \\mathrm{cap})$."
        )
    return (
        "\n".join(
            [*out, "\\bottomrule", "\\end{tabular}", f"\\caption{{{caption}}}", "\\end{table*}"]
        )
        + "\n"
    )


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


def every_run(found: Sequence[Row], held: dict[str, Held]) -> xr.Dataset:
    """One dataset of all runs, [row, run] and [row, run, arm], padded with 0.

    Rows are named problem/algorithm/column. Top m has no elimination times: they would
    be one per pair of arms.
    """
    parts = [observed(row, held) for row in found]
    arms = max(part.sizes["arm"] for part in parts)

    def stacked(name: str) -> np.ndarray:
        return np.stack([part[name].values for part in parts])

    def padded(name: str) -> np.ndarray:
        def one(part: xr.Dataset) -> np.ndarray:
            if name not in part:
                return np.zeros((part.sizes["run"], arms), np.int32)
            values = part[name].values
            return np.pad(values, ((0, 0), (0, arms - values.shape[-1])))

        return np.stack([one(part) for part in parts])

    flat = ("row", "run")
    data: dict[str, Any] = {
        name: (flat, stacked(name), {"units": unit} if unit else {})
        for name, unit in (
            ("samples", "samples"),
            ("stopped", ""),
            ("correct", ""),
            ("tests_stopping", "half-space tests"),
            ("tests_sampling", "half-space tests"),
        )
    }
    data["pulls"] = ((*flat, "arm"), padded("pulls"), {"units": "samples"})
    data["answer"] = ((*flat, "arm"), padded("answer"))
    data["elimination_times"] = (
        (*flat, "arm"),
        padded("elimination_times"),
        {"units": "samples", "note": "0: never, or not recorded"},
    )
    data["arms"] = ("row", np.array([part.sizes["arm"] for part in parts]))
    for name in ("problem", "algorithm", "column"):
        data[name] = ("row", [getattr(row, name) for row in found])
    labels = [f"{row.problem}/{row.algorithm}/{row.column}" for row in found]
    return xr.Dataset(data, {"row": labels, "run": parts[0]["run"].values})


def write(table: str, found: Sequence[Row], held: dict[str, Held], options: TableOptions) -> str:
    """Write a table as .md, .tex, .csv and .nc; return the Markdown page."""
    lines = measures(found, held)
    page = markdown(table, lines, options)
    data = every_run(found, held)
    data.attrs = {
        "title": LAYOUTS[table].title,
        "runs": options.runs,
        "seed": options.seed,
        "max_samples": options.max_samples,
    }
    packed = {
        str(name): {"zlib": True, "complevel": 4}
        for name in data.data_vars
        if data[name].dtype.kind in "biuf"
    }
    contents = (
        page.encode(),
        latex(table, lines, options).encode(),
        comma_separated(lines).encode(),
        bytes(data.to_netcdf(engine="h5netcdf", encoding=packed)),
    )
    for ending, one in zip(ENDINGS, contents, strict=True):
        write_whole(Path(options.output) / f"{table}{ending}", one)
    return page


def make(table: str, options: TableOptions) -> None:
    """Run the missing blocks of a table's cells, and write the table."""
    found = rows(table, options)
    files = [Path(options.output) / f"{table}{ending}" for ending in ENDINGS]
    held = cells.run_and_load(jobs(found), options, files)
    if held is not None:
        print(write(table, found, held, options))
        print(f"{Path(options.output) / table}.md, .tex, .csv, and .nc with every run")


def script(table: str, about: str) -> Callable[..., int]:
    """The main function of a table's script; `about` begins its --help."""

    def main(arguments: list[str] | None = None) -> int:
        """Run the script and return its exit code."""
        return cells.script(TableOptions, lambda options: make(table, options), arguments, about)

    return main


__all__ = ["LAYOUTS", "Row", "TableOptions", "make", "measures", "rows", "script", "write"]
