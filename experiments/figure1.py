"""The paper's Figure 1 on linear-d10, best arm: `python -m experiments figure1_left`.

- left: active arms over time, elimination at stopping. Also figure1_left_tau
  (distributions of tau under LLR stopping, with bounds), figure1_left_survival, and
  figure1_left_pulls (against w*).
- middle: selective against full elimination of one rule, at stopping and at both.
- right: mean tau_LLR/tau_elimination against log(1/delta). Both observe one trajectory;
  for rules that ignore delta, all deltas do. The numbers are written as CSV too.

The runs of the first two are those of Table 3, and are shared with it. Each figure is
written as PNG and PDF.
"""

import dataclasses
from collections.abc import Mapping
from typing import Literal

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import jaxelim as je
from experiments import cells, paper, tables
from jaxelim import catalogue, checks, figures
from jaxelim.errors import UnsupportedError
from jaxelim.figures.arms import drawn_active
from jaxelim.figures.drawn import Entry
from jaxelim.files import write_whole

INSTANCE = "linear-d10"
STOPPING = (je.LLR(), je.SelectiveElimination())
LEFT = ("figure1_left", "figure1_left_tau", "figure1_left_survival", "figure1_left_pulls")
RULES = ("lingape", "lingame", "fws", "lazy-tas", "oracle")


@dataclasses.dataclass(frozen=True)
class Left(cells.Options):
    """Figure 1, left: how fast sampling rules eliminate arms, and how long they run."""

    rules: tuple[str, ...] = RULES
    """Sampling rules, by their names, such as lingape."""


@dataclasses.dataclass(frozen=True)
class Middle(cells.Options):
    """Figure 1, middle: active arms over time, selective and full elimination."""

    rule: str = "lingame"
    """Sampling rule, by its name, such as lingape."""


@dataclasses.dataclass(frozen=True)
class Right(Left):
    """Figure 1, right: samples saved by elimination at stopping as delta decreases."""

    delta: tuple[float, ...] = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9)
    """Error probabilities."""
    error: Literal["se", "sd"] = "se"
    """Error bars: standard error (authors' program) or deviation (paper's caption)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.deltas(list(self.delta))


def chosen(
    options: cells.Options, rules: tuple[str, ...], at_sampling: bool = False
) -> dict[tuple[str, str], tables.Row]:
    """Rows of Table 3, best arm, by (algorithm, column); the oracle is the paper's own."""
    shared = options.as_in(tables.TableOptions, problems=("bai",))
    rows = [row for name in rules
            for row in tables.rows("table3", dataclasses.replace(shared, rules=(name,)))
            if row.reproduces and (at_sampling or " + elim" not in row.algorithm)]  # fmt: skip
    return {(row.algorithm, row.column): row for row in rows if row.stopping != "native"}


def left(options: Left) -> None:
    """Run the missing runs and draw the figures."""
    rows = chosen(options, options.rules)
    files = [options.output / f"{name}.{ending}" for name in LEFT for ending in ("png", "pdf")]
    held = cells.studied(options, files, tables.jobs(list(rows.values())))
    if held is None:
        return
    plain, selective = (
        {algorithm: held[row.name].select(row.stopping)
         for (algorithm, column), row in rows.items() if column == wanted}
        for wanted in ("none", "selective")
    )  # fmt: skip
    drawn = (figures.active_arms_figure(selective), figures.tau_figure(plain),
             figures.survival_figure(plain), figures.pulls_figure(plain))  # fmt: skip
    for name, figure in zip(LEFT, drawn, strict=True):
        print(*figures.save(figure, options.output / name))


def full_selective_figure(results: Mapping[tuple[str, str], je.Result]) -> Figure:
    """Draw selective and full elimination, at stopping only and at stopping and sampling.

    Each elimination has a colour, and each curve its own dashes. Selective elimination
    has lines, dashed with sampling. Full elimination has dots, dash-dots with sampling.
    Half of the runs are inside the bands.

    Args:
        results: of one sampling rule, by (elimination, place): elimination "selective"
            or "full", place "stopping" or "both". Any of the four may be missing.
    """
    (selective, _), (full, _), *_ = figures.STYLES
    styles = {
        ("selective", "stopping"): dict(color=selective, linestyle="-"),
        ("selective", "both"): dict(color=selective, linestyle=(0, (5, 2))),
        ("full", "stopping"): dict(color=full, linestyle=(0, (1, 1))),
        ("full", "both"): dict(color=full, linestyle=(0, (5, 1, 1, 1))),
    }
    words = {"stopping": "at stopping", "both": "at stopping and sampling"}
    return drawn_active([
        Entry(f"{elimination}, {words[place]}", one, n, styles[elimination, place])
        for n, ((elimination, place), one) in enumerate(results.items())
    ], 0.5)  # fmt: skip


def middle(options: Middle) -> None:
    """Run the missing runs and draw the figure."""
    kind = catalogue.find_rule(options.rule)
    rows = chosen(options, (options.rule,), at_sampling=True)
    rows = {key: row for key, row in rows.items() if key[1] != "none"}
    if not rows:
        raise UnsupportedError("rule", options.rule, "a rule that elimination can stop")
    path = options.output / f"figure1_middle_{catalogue.name_of(kind)}"
    files = [path.with_name(f"{path.name}.{ending}") for ending in ("png", "pdf")]
    held = cells.studied(options, files, tables.jobs(list(rows.values())))
    if held is None:
        return
    curves = {
        (column, "both" if algorithm.endswith(" + elim") else "stopping"):
            held[row.name].select(row.stopping)
        for (algorithm, column), row in rows.items()
    }  # fmt: skip
    figure = full_selective_figure(curves)
    title = f"{kind.__name__}, linear-d10, best arm, delta = 0.01, {options.runs} runs"
    figure.axes[0].set_title(title, fontsize=10)
    print(*figures.save(figure, path))


def rules_of(options: Right) -> dict[str, je.contracts.SamplingRule]:
    """The rules by their names; the oracle once more, with the authors' approximation of w*."""
    found: dict[str, je.contracts.SamplingRule] = {}
    for name in options.rules:
        kind = catalogue.find_rule(name)
        found[kind.__name__] = kind()
        if kind is je.Oracle:
            found["Oracle, authors' w"] = je.Oracle(paper.oracle_weights(INSTANCE, "bai"))
    return found


def ratios(result: je.Result) -> np.ndarray:
    """tau_LLR/tau_elimination [delta, run], NaN if either was cut off."""
    llr, selective = result.samples
    return np.where(result.stopped.all(0), llr / np.maximum(selective, 1), np.nan)


def right(options: Right) -> None:
    """Run the missing runs and draw the figure; the CSV has a row per rule and delta."""
    files = [options.output / f"figure1_right.{ending}" for ending in ("csv", "png", "pdf")]
    grid = INSTANCE, je.BestArm(), rules_of(options)
    study = cells.studied(options, files, *grid, delta=options.delta, stopping=STOPPING, ridge=1.0)
    if study is None:
        return
    rows = []
    for rule in study.rules:
        for level, row in zip(options.delta, ratios(study[rule]), strict=True):
            kept = pd.Series(row[np.isfinite(row)])
            rows.append({"rule": rule, "delta": level, "runs": kept.size,
                         "cut_off": row.size - kept.size, "mean_ratio": kept.mean(),
                         "se": kept.sem(), "sd": kept.std(), "least": kept.min()})  # fmt: skip
    write_whole(files[0], pd.DataFrame(rows).to_csv(index=False).encode())
    figure = figures.ratio_figure(study, error=options.error)
    print(*figures.save(figure, options.output / "figure1_right"), files[0])
