"""What batches and delays cost in samples: `python -m experiments.batches`.

Mean samples of six rules where rewards come in batches of 1, 10, 100 and 1000, or after
delays of 10, 100 and 1000 samples. All runs of a row see the same noise. Written as
batches.md, batches.csv and batches.png.
"""

import dataclasses
import sys
from typing import Any

import jaxelim as je
from experiments import cells, pages
from jaxelim import catalogue
from jaxelim.figures import style

RULES: dict[str, Any] = {
    "EBTCI": je.EBTCI(),
    "LUCB": je.LUCB(),
    "LinGame": je.LinGame(),
    "TrackAndStop": je.TrackAndStop(),
    "FWS": je.FWS(),
    "Uniform": je.Uniform(),
}
MEANS = (0.6, 0.2, 0.1, 0.0, 0.0, 0.0, -0.1, -0.2, -0.3, -0.3)
DELTA = 0.01
BATCHES, DELAYS = (1, 10, 100, 1000), (10, 100, 1000)
SCHEDULES: dict[str, dict[str, int]] = {
    **{f"batch {b}": {"batch": b} for b in BATCHES},
    **{f"delay {d}": {"delay": d} for d in DELAYS},
}


@dataclasses.dataclass(frozen=True)
class Table(cells.Options):
    """Samples of six rules in batches and with delays."""

    runs: int = 300
    """Runs of every cell, indexes 0 .. runs - 1; finished runs are not repeated."""


def jobs(options: Table) -> dict[tuple[str, str], cells.Cell]:
    """The cell of each (rule, schedule)."""
    instance = je.Instance.unstructured(MEANS)
    threshold = je.Mixture()
    return {
        (name, words): cells.Cell(
            options.named(f"batches/{name}/{words}"), instance, je.BestArm(), rule, (je.LLR(),),
            delta=(DELTA,), seed=options.seed, max_samples=options.max_samples,
            threshold=threshold, ridge=None, **schedule,
        )
        for name, rule in RULES.items()
        for words, schedule in SCHEDULES.items()
    }  # fmt: skip


def measures(found: dict[tuple[str, str], cells.Cell], held: dict[str, je.Result]) -> list[dict]:
    """Measures of each cell: counts of runs, samples, errors, and `ratio`, over batch 1."""
    lines, base = [], {}
    for (rule, words), cell in found.items():
        whole = held[cell.name]
        data = whole.to_xarray().isel(delta=0, stopping=0)
        line = {"rule": rule, "rewards": words, **pages.times(data)}
        base.setdefault(rule, line["mean"])  # of batch 1, which comes first
        lines.append({**line, "ratio": line["mean"] / base[rule], **pages.wrong_answers(data)})
    return lines


def markdown(lines: list[dict], options: Table) -> str:
    """The table as a Markdown page."""
    rows, ratios = [], []
    for rule in RULES:
        mine = {line["rewards"]: line for line in lines if line["rule"] == rule}
        rows.append({"rule": rule, **{words: pages.mean(line) for words, line in mine.items()}})
        ratios.append(
            {"rule": rule, **{words: f"{line['ratio']:.2f}" for words, line in mine.items()}}
        )
    wrong = [f"{x['rule']}, {x['rewards']}: {pages.errors(x)}" for x in lines if x["errors"]]
    notes = [
        f"Best arm of {len(MEANS)} unit Gaussians with means {', '.join(map(str, MEANS))}; delta = "
        f"{DELTA}, `Mixture()`, LLR stopping, {options.runs} runs, seed {options.seed}.",
        "Samples are mean ± standard error. They count pulls whose rewards are pending at the end.",
        "A run ends at the end of a batch, and a delay of D leaves D rewards pending.",
        f"Wrong answers: {'; '.join(wrong) if wrong else 'none'}.",
    ]
    parts = [
        "# What batches and delays cost\n",
        "![Mean samples over those of batch 1, by batch and by delay](batches.png)\n",
        f"## Samples\n\n{catalogue.markdown(rows)}\n",
        f"## Samples over those of batch 1\n\n{catalogue.markdown(ratios)}\n",
    ]
    return pages.page(parts, notes, lines, options.max_samples)


def drawn(lines: list[dict]) -> Any:
    """Samples over those of batch 1: by batch, and by delay; a line for each rule."""
    figure = style.Drawing(figsize=(7.2, 3.3), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for axes, kind, sizes in zip(panels, ("batch", "delay"), (BATCHES, DELAYS), strict=True):
        for place, rule in enumerate(RULES):
            ratio = {x["rewards"]: x["ratio"] for x in lines if x["rule"] == rule}
            values = [ratio[f"{kind} {size}"] for size in sizes]
            axes.plot(sizes, values, "o-", ms=3.5, color=f"C{place}", label=rule)
        axes.set(xscale="log", xlabel=f"{kind}, in samples")
        axes.grid(alpha=0.25, linewidth=0.5)
    panels[0].set_ylabel("mean samples over those of batch 1")
    panels[0].legend(fontsize="small", frameon=False)
    return figure


def make(options: Table) -> None:
    """Run the missing runs; write the table and the figure."""
    stem = options.output / "batches"
    pages.make(options, stem, jobs(options), measures, markdown, drawn)


def main(arguments: list[str] | None = None) -> int:
    """Run the script and return its exit code."""
    return cells.script(Table, make, arguments)


if __name__ == "__main__":
    sys.exit(main())
