"""The paper's Tables 1, 3 and 4: their cells, measures and files.

A row of a table (problem, algorithm, column) is an observer of a cell. "none" and
"stopping" (Table 3: "none", "selective" and "full") observe the same runs of one cell.
Elimination at sampling, and rules with a native test, have a cell each.
"""

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import xarray as xr

import jaxelim as je
from experiments import cells, paper
from jaxelim import catalogue, checks
from jaxelim.errors import ArgumentError
from jaxelim.files import write_whole
from jaxelim.instances import describe
from jaxelim.simulation.results.confidence import rate

EXACT = "Oracle, exact w*"
"""The oracle's second row; the paper's oracle tracks an approximation of w*."""


@dataclasses.dataclass(frozen=True)
class Layout:
    """One table: the instance of each problem, and the columns in the paper's order."""

    name: str
    title: str
    instances: dict[str, str]
    columns: tuple[str, ...]
    about: str


_AT = "LLR, selective elimination at stopping, and at stopping and sampling"
LAYOUTS = {
    one.name: one
    for one in (
        Layout("table1", "Table 1: linear instances, K = 50, d = 20",
               {"bai": "linear-d20", "topm": "linear-d20", "osi": "linear-d20-osi"},
               ("none", "stopping", "stopping+sampling"),
               f"Table 1: linear instances, K = 50, d = 20; {_AT}."),
        Layout("table3",
               "Table 3: linear instances, K = 52 and 51, d = 10, selective against full "
               "elimination",
               {"bai": "linear-d10", "topm": "linear-d10-topm"}, ("none", "selective", "full"),
               "Table 3: linear instances, d = 10; selective against full elimination."),
        Layout("table4", "Table 4: unstructured instances, K = 40",
               {"bai": "unstructured-k40", "topm": "unstructured-k40",
                "osi": "unstructured-k40-osi"},
               ("none", "stopping", "stopping+sampling"),
               f"Table 4: unstructured instances, K = 40; {_AT}."),
    )
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class TableOptions(cells.Options):
    """Options of the tables."""

    told: ClassVar[tuple[str, ...]] = (*cells.Options.told, "delta", "threshold", "ridge")
    delta: float = 0.01
    """Error probability; with another than the paper's 0.01 the numbers are not the paper's."""
    threshold: str = "heuristic"
    """A threshold by its name, as in `jaxelim run`; the paper's is heuristic."""
    ridge: float = 1.0
    """The ridge lambda of the design matrix; the paper's is 1."""
    rules: tuple[str, ...] = ()
    """Sampling rules, by their names, such as lingape; by default all."""
    problems: tuple[str, ...] = ()
    """Problems: bai, topm, osi; by default all."""

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.real("delta", self.delta, low=0, high=1, open=True)
        checks.choice("threshold", self.threshold, catalogue.names("threshold"))
        checks.real("ridge", self.ridge, low=0)

    @property
    def papers(self) -> bool:
        """Whether delta, threshold and ridge are the paper's."""
        return (self.delta, self.threshold, self.ridge) == (0.01, "heuristic", 1.0)


@dataclasses.dataclass(frozen=True)
class Row:
    """One observer of one cell, and the paper's numbers for it."""

    problem: str
    algorithm: str
    column: str
    name: str  # of the experiment, which several rows may observe
    experiment: je.Experiment
    stopping: str  # the observer's name
    paper: dict[str, float]  # empty for a row that the paper lacks

    @property
    def reproduces(self) -> bool:
        """Whether this is one of the paper's rows; the exact oracle is not."""
        return self.algorithm != EXACT


def rows(table: str, options: TableOptions) -> list[Row]:
    """All rows of a table that the options select, in the paper's order.

    Rules that the paper's table lacks follow where the options name them, without the
    paper's numbers.

    Raises:
        ArgumentError: an unknown rule or problem, or no row is left.
    """
    layout, found = LAYOUTS[table], []
    wanted = {catalogue.find_rule(name) for name in options.rules}
    problems = {checks.choice("problems", name, layout.instances) for name in options.problems}
    published: set[tuple[str, Any]] = set()
    for (of_table, problem, algorithm, column), numbers in paper.cells().items():
        if of_table != table:
            continue
        kind = _kind(algorithm)
        published.add((problem, kind))
        if (wanted and kind not in wanted) or (problems and problem not in problems):
            continue
        for name in (algorithm, EXACT) if kind is je.Oracle else (algorithm,):
            theirs = numbers if options.papers else {}
            observed = _experiment(layout, problem, name, column, options)
            found.append(Row(problem, name, column, *observed, theirs))
    for problem in problems or layout.instances:
        for kind in sorted(wanted, key=catalogue.name_of):
            if (problem, kind) not in published:
                found += _unpublished(layout, problem, kind, options)
    if not found:
        asked = (*options.rules, *options.problems)
        raise ArgumentError("rules", asked, f"rules and problems that {table} has")
    # The oracle's two rows follow each other, not column by column.
    order = list(dict.fromkeys((row.problem, row.algorithm) for row in found))
    return sorted(found, key=lambda row: order.index((row.problem, row.algorithm)))


def _unpublished(
    layout: Layout, problem: str, kind: type[je.contracts.SamplingRule], options: TableOptions
) -> list[Row]:
    """The rows that a rule would have in a table that lacks it, where they apply to the rule."""
    traits, found = kind.traits, []
    structure = je.load_instance(layout.instances[problem]).structure
    if not traits.defined_for(_problem(layout, problem).name) or structure not in traits.structures:
        return []
    plain = catalogue.name_of(kind)
    # Table 3 has elimination at sampling in rows of its own, the others in a column.
    beside = "stopping+sampling" not in layout.columns and traits.elimination
    for algorithm in (plain, f"{plain} + elim") if beside else (plain,):
        for column in layout.columns:
            observer = {"none": "llr", "full": "full"}.get(column, "selective")
            if observer not in traits.stopping or (column == "none" and algorithm != plain):
                continue
            if column == "stopping+sampling" and not traits.elimination:
                continue
            observed = _experiment(layout, problem, algorithm, column, options)
            found.append(Row(problem, algorithm, column, *observed, {}))
    return found


def _plain(algorithm: str) -> str:
    """The sampling rule's name, without "+ elim" for elimination at sampling."""
    return algorithm.removesuffix(" + elim")


def _kind(algorithm: str) -> type[je.contracts.SamplingRule]:
    return catalogue.find_rule(_plain(algorithm).lower().replace(" ", "-"))


def _problem(layout: Layout, problem: str) -> je.contracts.Problem:
    if problem == "topm":
        return je.TopM(describe(layout.instances[problem]).m or 1)
    return je.BestArm() if problem == "bai" else je.Thresholding()


def _experiment(
    layout: Layout, problem: str, algorithm: str, column: str, options: TableOptions
) -> tuple[str, je.Experiment, str]:
    """The experiment of a row, by its name, and the name of its stopping rule."""
    name = layout.instances[problem]
    if algorithm == EXACT:
        rule: Any = je.Oracle()
    else:
        kind = _kind(algorithm)
        rule = je.Oracle(paper.oracle_weights(name, problem)) if kind is je.Oracle else kind()
    selective, full = je.SelectiveElimination(), je.FullElimination()
    observers: dict[str, Any] = {"none": je.LLR(), "stopping": selective, "selective": selective,
                                 "full": full}  # fmt: skip
    elimination = None
    if rule.traits.stopping == ("native",):
        stopping, variant = (je.Native(),), "native"
    elif column == "stopping+sampling" or algorithm != _plain(algorithm):
        elimination = observers.get(column, selective)
        stopping, variant = (elimination,), f"{elimination.name}-at-both"
    else:
        stopping = tuple(observers[one] for one in layout.columns if one in observers)
        variant = "watched"
    instance, asked = je.load_instance(name), _problem(layout, problem)
    experiment = je.Experiment(
        instance, asked, rule, stopping=stopping, elimination=elimination, delta=options.delta,
        threshold=catalogue.made("threshold", options.threshold), ridge=options.ridge,
        **options.settings,
    )  # fmt: skip
    name = options.named(f"{layout.name}/{problem}/{_plain(algorithm)}/{variant}")
    observer = stopping[0] if len(stopping) == 1 else observers[column]
    return name, experiment, observer.name


def jobs(found: Sequence[Row]) -> dict[str, je.Experiment]:
    """The distinct experiments of rows, the paper's longest first: devices idle less."""
    dearest = sorted(found, key=lambda row: -row.paper.get("mean", 0) * row.paper.get("ms", 0))
    return {row.name: row.experiment for row in dearest}


def observed(row: Row, held: je.Study) -> xr.Dataset:
    """The runs of a row: variables [run], and [run, arm]."""
    return held[row.name].to_xarray().isel(delta=0).sel(stopping=row.stopping)


def measures(found: Sequence[Row], held: je.Study) -> list[dict[str, Any]]:
    """Measures of each row, NaN if undefined; the paper's begin with paper_.

    samples_k and sd_k are in thousands: with truncated runs of min(tau, cap). z is NaN if runs
    were truncated at another cap than the paper's. errors are among the runs that stopped, with
    the Clopper-Pearson interval of level 0.95. tests_stopping and tests_sampling are half-space
    tests per sample. What is saved is in percent of the same rule without elimination; the
    paper's time is its milliseconds per iteration, us_per_sample the wall time of one device.
    """
    lines: list[dict[str, Any]] = []
    without: dict[tuple[str, str], dict] = {}
    for row in found:
        data, work = observed(row, held), held[row.name].timings
        tau, stopped = data["samples"].values.astype(float), data["stopped"].values
        wrong, n = int((~data["correct"].values[stopped]).sum()), int(stopped.sum())
        _, low, high = rate(wrong, n) if n else (math.nan,) * 3
        # The paper's means include runs cut off at its cap.
        comparable = n == tau.size or row.experiment.max_samples == paper.CAP
        comparable = comparable and bool(row.paper) and tau.size > 1
        theirs = {name: row.paper.get(name, math.nan) for name in ("mean", "sd", "ms")}
        tests = {name: float(data[name].values.sum() / tau.sum())
                 for name in ("tests_stopping", "tests_sampling")}  # fmt: skip
        line = {
            "problem": row.problem, "algorithm": row.algorithm, "column": row.column,
            "runs": tau.size, "samples_k": tau.mean() / 1000,
            "sd_k": tau.std(ddof=1) / 1000 if tau.size > 1 else math.nan,
            "truncated": tau.size - n,
            "paper_samples_k": theirs["mean"], "paper_sd_k": theirs["sd"],
            "z": paper.z_score(tau, row.paper) if comparable else math.nan,
            "errors": wrong, "stopped": n, "error_low": low, "error_high": high, **tests,
            "us_per_sample": 1e6 * work["seconds"] / work["samples_drawn"],
            "paper_ms_per_sample": theirs["ms"], "reproduces": row.reproduces,
        }  # fmt: skip
        lines.append(line)
        if row.column == "none":
            without[row.problem, row.algorithm] = line
    for line in lines:
        base = without.get((line["problem"], _plain(line["algorithm"])), line)
        for name, of in (
            ("samples_saved", lambda one: one["samples_k"]),
            ("tests_saved", lambda one: one["tests_stopping"] + one["tests_sampling"]),
            ("paper_samples_saved", lambda one: one["paper_samples_k"]),
            ("paper_time_saved", lambda one: one["paper_ms_per_sample"]),
        ):
            alone = base is line or not of(base)
            line[name] = math.nan if alone else 100 * (1 - of(line) / of(base))
    return lines


def agreement(lines: Sequence[dict]) -> str:
    """Counts of the paper's rows by standard errors; names those beyond three."""
    scores = [line for line in lines if line["reproduces"] and not math.isnan(line["z"])]
    far = [f"{line['problem']} {line['algorithm']}, {line['column']} ({line['z']:+.1f})"
           for line in scores if abs(line["z"]) > 3]  # fmt: skip
    near = sum(abs(line["z"]) <= 2 for line in scores)
    text = (
        f"{len(scores)} of the paper's cells: |z| <= 2 in {near}, 2 < |z| <= 3 in "
        f"{len(scores) - near - len(far)}, |z| > 3 in {len(far)}."
    )
    return f"{text} The last: {'; '.join(far)}." if far else text


# The files of a table: Markdown, CSV, and its study with every run.

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


def notes(lines: Sequence[dict], options: TableOptions) -> list[str]:
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
        told.append(agreement(lines))
    cut = sum(line["truncated"] for line in lines)
    if cut:
        told.append(
            f"† {cut} runs were cut off at {options.max_samples} samples. Such a cell shows the "
            "restricted mean E[min(tau, cap)], and the sd of min(tau, cap); without its dagger a "
            "mean is of runs that all stopped."
        )
    return told


def _formula(options: TableOptions) -> str:
    """The threshold, as a formula where it has a short one."""
    own = {"heuristic": "log((1 + t)/delta)", "gk16": "log((1 + log t)/delta)"}
    return own.get(options.threshold, options.threshold)


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
            f"{cells.markdown(mine)}\n"
        )
    return "\n".join(parts + [f"- {note}" for note in notes(lines, options)]) + "\n"


def make(table: str, options: TableOptions) -> None:
    """Run the missing blocks of a table's cells; write .md, .csv and .nc, and print the page."""
    found, stem = rows(table, options), Path(options.output) / table
    files = [stem.with_suffix(ending) for ending in ENDINGS]
    held = cells.studied(options, files, jobs(found))
    if held is None:
        return
    lines = measures(found, held)
    page = markdown(table, lines, options)
    write_whole(files[0], page.encode())
    write_whole(files[1], pd.DataFrame(lines).to_csv(index=False).encode())
    held.save(files[2])
    print(f"{page}\n{stem}.md, .csv, and .nc with every run")
