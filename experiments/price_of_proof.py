"""What a proof costs in samples: `python -m experiments.price_of_proof`.

Mean samples of thresholds with and without a proof, over those of GK16, for five reward
families with three instances each and delta from 0.1 to 1e-6, beside the lower bound.
All thresholds of an instance see the same noise. Written as price_of_proof.md,
price_of_proof.csv and price_of_proof.png.
"""

import dataclasses
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import jaxelim as je
from experiments import cells, pages
from jaxelim import catalogue
from jaxelim.errors import ArgumentError
from jaxelim.figures import style

DELTAS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-6)
FAMILIES: dict[str, tuple[Callable[[], Any], tuple[tuple[float, ...], ...]]] = {
    "gaussian": (
        je.Gaussian, ((0.5, 0.4, 0.3, 0.2, 0.1), (1.0, 0.5, 0.0, -0.5, -1.0), (0.5, *(0.2,) * 9))
    ),
    "bernoulli": (
        je.Bernoulli, ((0.5, 0.4, 0.3, 0.2, 0.1), (0.24, 0.3, 0.2, 0.15), (0.9, 0.8, 0.7))
    ),
    "poisson": (je.Poisson, ((2.0, 1.6, 1.4, 1.0), (3.0, 1.0, 0.5), (10.0, 9.0, 8.0))),
    "exponential": (je.Exponential, ((1.0, 0.8, 0.6, 0.4), (1.0, 0.4, 0.2), (5.0, 4.0, 4.0))),
    "unknown-variance": (
        je.GaussianUnknownVariance,
        ((0.5, 0.4, 0.3, 0.2, 0.1), (1.0, 0.5, 0.0, -0.5, -1.0), (0.5, *(0.2,) * 9)),
    ),
}  # fmt: skip
"""Each family, and the means of its instances."""
THRESHOLDS = ("gk16", "heuristic", "mixture", "kaufmann-koolen")
BASE = "gk16"
PROVEN = ("mixture", "kaufmann-koolen")
RULE = "EBTCI(), for unknown variance Uniform()"


@dataclasses.dataclass(frozen=True)
class Table(cells.Options):
    """Samples of thresholds with and without a proof, for five families."""

    runs: int = 300
    """Runs of every cell, indexes 0 .. runs - 1; finished runs are not repeated."""
    families: tuple[str, ...] = tuple(FAMILIES)
    """Reward families; by default all."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.families:
            catalogue.find("families", name, dict(FAMILIES))
        if not self.families or len(set(self.families)) < len(self.families):
            raise ArgumentError("families", self.families, f"some of {', '.join(FAMILIES)}")


Key = tuple[str, tuple[float, ...], str]
"""A family, means and a threshold."""


def jobs(options: Table) -> dict[Key, cells.Cell]:
    """The cell of each (family, means, threshold); it has all deltas."""
    found: dict[Key, cells.Cell] = {}
    for family in options.families:
        make, instances = FAMILIES[family]
        rule = je.Uniform() if family == "unknown-variance" else je.EBTCI()
        for means in instances:
            instance = je.Instance.unstructured(means, make())
            for name in THRESHOLDS:
                if name == "kaufmann-koolen" and family == "unknown-variance":
                    continue  # it is not defined there
                found[family, means, name] = cells.Cell(
                    options.named(f"price_of_proof/{family}/{_text(means)}/{name}"),
                    instance,
                    je.BestArm(),
                    rule,
                    (je.LLR(),),
                    delta=DELTAS,
                    seed=options.seed,
                    max_samples=options.max_samples,
                    threshold=catalogue.made("threshold", name),
                    ridge=None,
                )
    return found


def _text(means: tuple[float, ...]) -> str:
    """The means in words, equal ones counted."""
    parts = []
    for mean in dict.fromkeys(means):
        count = means.count(mean)
        parts.append(f"{count} of {mean:g}" if count > 2 else " ".join([f"{mean:g}"] * count))
    return " ".join(parts)


def measures(found: dict[Key, cells.Cell], held: dict[str, je.Result]) -> list[dict]:
    """Measures of each cell and delta, NaN if undefined.

    - family, means, threshold, delta: the cell. runs, truncated, stopped: counts of runs.
    - mean, se, median: samples. With truncated runs, of min(tau, cap).
    - ratio: mean over that of GK16, on the same noise. bound: that of the lower bound,
      kl(delta, 1 - delta) T*.
    - errors, error_low, error_high: wrong answers among the runs that stopped, and the
      Clopper-Pearson interval, level 0.95.
    """
    lines, base = [], {}
    for (family, means, name), cell in found.items():
        whole = held[cell.name]
        time = je.complexity(cell.instance, cell.problem).time
        for place, delta in enumerate(DELTAS):
            data = whole.to_xarray().isel(delta=place, stopping=0)
            line = {"family": family, "means": _text(means), "threshold": name, "delta": delta}
            line |= pages.times(data)
            if name == BASE:
                base[family, means, delta] = line["mean"]
            reference = base[family, means, delta]
            least = (1 - 2 * delta) * math.log((1 - delta) / delta) * float(np.squeeze(time))
            line |= {"ratio": line["mean"] / reference, "bound": least / reference}
            lines.append(line | pages.wrong_answers(data))
    return lines


def markdown(lines: list[dict], options: Table) -> str:
    """The table as a Markdown page."""
    drawing = "![Mean samples over those of GK16, by delta](price_of_proof.png)\n"
    parts = ["# The price of a proof\n", summary(lines), drawing]
    for key in dict.fromkeys((line["family"], line["means"]) for line in lines):
        mine = [line for line in lines if (line["family"], line["means"]) == key]
        rows = []
        for delta in DELTAS:
            here = {line["threshold"]: line for line in mine if line["delta"] == delta}
            row = {"delta": f"{delta:g}", "lower bound": f"{here[BASE]['bound']:.2f}"}
            row["gk16, samples"] = pages.mean(here[BASE])
            row |= {name: f"{here[name]['ratio']:.2f}" for name in THRESHOLDS[1:] if name in here}
            row["errors"] = "; ".join(
                f"{name} {pages.errors(one)}" for name, one in here.items() if one["errors"]
            )
            rows.append(row)
        parts.append(f"## {key[0]}, means {key[1]}\n\n{catalogue.markdown(rows)}\n")
    notes = [
        f"{RULE}, LLR stopping, {options.runs} runs, seed {options.seed}, cap "
        f"{options.max_samples} samples; samples are mean ± standard error, and all other numbers "
        "are means over that of GK16 on the same noise.",
        "gk16 and heuristic have no proof. mixture and kaufmann-koolen have one, and "
        "kaufmann-koolen is not defined for unknown variances.",
        "lower bound: kl(delta, 1 - delta) T*, which no test with a proof can beat on average. "
        "Errors: wrong answers with the Clopper-Pearson interval; empty where there is none.",
    ]
    return pages.page(parts, notes, lines, options.max_samples)


def summary(lines: list[dict]) -> str:
    """The ranges of the mixture's samples over those of others, in a sentence."""
    mean = {
        (one["family"], one["means"], one["delta"], one["threshold"]): one["mean"] for one in lines
    }
    said = []
    for other in ("heuristic", "kaufmann-koolen"):
        ratios = [
            mean[*key, "mixture"] / mean[*key, other]
            for key in dict.fromkeys(key[:3] for key in mean)
            if (*key, other) in mean
        ]
        if ratios:
            said.append(
                f"{min(ratios):.2f} to {max(ratios):.2f} of {other}'s (median "
                f"{np.median(ratios):.2f})"
            )
    return f"The mixture takes {', and '.join(said)}.\n"


def drawn(lines: list[dict]) -> Any:
    """Samples over GK16's by delta: a panel for each family, a line for each threshold.

    Lines are means over the instances; the band is their range.
    """
    names = list(dict.fromkeys(line["family"] for line in lines))
    figure = style.Drawing(figsize=(2.6 * len(names), 3.4), layout="constrained")
    panels = figure.subplots(1, len(names), sharey=True, squeeze=False)[0]
    for axes, family in zip(panels, names, strict=True):
        for place, name in enumerate(THRESHOLDS[1:]):
            rows = [x for x in lines if (x["family"], x["threshold"]) == (family, name)]
            if not rows:
                continue
            ratio = np.array([[x["ratio"] for x in rows if x["delta"] == d] for d in DELTAS])
            label = name if name in PROVEN else f"{name}, no proof"
            dashes = "-" if name in PROVEN else "--"
            axes.plot(DELTAS, ratio.mean(1), dashes, color=f"C{place}", label=label)
            axes.fill_between(
                DELTAS, ratio.min(1), ratio.max(1), color=f"C{place}", alpha=0.15, lw=0
            )
        base = [x for x in lines if (x["family"], x["threshold"]) == (family, BASE)]
        least = [np.mean([x["bound"] for x in base if x["delta"] == d]) for d in DELTAS]
        axes.plot(DELTAS, least, ":", color="0.3", label="lower bound")
        axes.set(xscale="log", title=family, xlabel="delta")
        axes.invert_xaxis()
        axes.grid(alpha=0.25, linewidth=0.5)
    panels[0].set_ylim(bottom=0)
    panels[0].set_ylabel("mean samples over those of GK16")
    panels[0].legend(fontsize="small", frameon=False)
    return figure


def make(options: Table) -> None:
    """Run the missing runs; write the table and the figure."""
    stem = options.output / "price_of_proof"
    pages.make(options, stem, jobs(options), measures, markdown, drawn)


def main(arguments: list[str] | None = None) -> int:
    """Run the script and return its exit code."""
    return cells.script(Table, make, arguments)


if __name__ == "__main__":
    sys.exit(main())
