"""The paper's Figure 1, left: active arms over time, elimination at stopping.

`python -m experiments.figure1_left --runs 1000`: linear d = 10, best arm. The runs are
those of Table 3 and are shared with it. They also give figure1_left_tau (distributions
of tau under LLR stopping, with bounds), figure1_left_survival, and figure1_left_pulls
(against w*). Each is written as PNG and PDF.
"""

import dataclasses
import sys

import jaxelim as je
from experiments import cells, tables
from jaxelim import figures
from jaxelim.figures.entries import left_out

DRAWN = ("figure1_left", "figure1_left_tau", "figure1_left_survival", "figure1_left_pulls")


@dataclasses.dataclass(frozen=True)
class Left(cells.Options):
    """Figure 1, left: how fast sampling rules eliminate arms, and how long they run."""

    rules: tuple[str, ...] = ("lingape", "lingame", "fws", "lazy-tas", "oracle")
    """Sampling rules, by their names, such as lingape."""


def chosen(
    options: cells.Options, rules: tuple[str, ...], at_sampling: bool = False
) -> dict[tuple[str, str], tables.Row]:
    """Rows of Table 3, best arm, by (algorithm, column).

    The oracle is the paper's own. Rules that the table lacks get the rows that they
    would have in it.
    """
    fields = {
        field.name: getattr(options, field.name) for field in dataclasses.fields(cells.Options)
    }
    rows = []
    for name in rules:
        one = tables.TableOptions(**fields, rules=(name,), problems=("bai",))
        rows += tables.rows("table3", one)
    kept = tuple(
        row for row in rows if row.reproduces and (at_sampling or " + elim" not in row.algorithm)
    )
    return {(row.algorithm, row.column): row for row in kept if row.stopping != "native"}


def draw(options: Left) -> None:
    """Run the missing runs and draw the figures."""
    rows = chosen(options, options.rules)
    files = [options.output / f"{name}.{ending}" for name in DRAWN for ending in ("png", "pdf")]
    held = cells.studied(options, files, tables.jobs(list(rows.values())))
    if held is None:
        return
    seen = {key: tables.observed(row, held) for key, row in rows.items()}
    selective = {
        algorithm: data for (algorithm, column), data in seen.items() if column == "selective"
    }
    plain = {algorithm: data for (algorithm, column), data in seen.items() if column == "none"}
    instance = next(iter(rows.values())).experiment.instance
    solved = je.complexity(instance, je.BestArm())
    lower, practical = (
        je.bounds.sample_bound(0.01, solved),
        je.bounds.practical_time(0.01, solved),
    )
    tau = {name: tables.stopping_times(data) for name, data in plain.items()}
    active, pulls = {}, {}
    for name, data in selective.items():
        stop = tables.stopping_times(data)
        counts = figures.active_counts(data["elimination_times"].values, stop)
        active[name + left_out(stop)] = counts
    for name, data in plain.items():
        pulls[name + left_out(tau[name])] = data["pulls"].values[data["stopped"].values]
    drawn = (
        figures.active_arms_figure(active),
        figures.tau_figure(tau, float(lower), float(practical)),
        figures.survival_figure(tau, float(lower)),
        figures.pulls_figure(pulls, solved.allocation),
    )
    for name, figure in zip(DRAWN, drawn, strict=True):
        print(*figures.save(figure, options.output / name))


def main(arguments: list[str] | None = None) -> int:
    """Run the script and return its exit code."""
    return cells.script(Left, draw, arguments)


if __name__ == "__main__":
    sys.exit(main())
