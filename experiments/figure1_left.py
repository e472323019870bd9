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
    seen: dict[str, dict[str, je.Result]] = {"none": {}, "selective": {}}
    for (algorithm, column), row in rows.items():
        if column in seen:
            seen[column][algorithm] = held[row.name].select(row.stopping)
    plain = seen["none"]
    drawn = (
        figures.active_arms_figure(seen["selective"]),
        figures.tau_figure(plain),
        figures.survival_figure(plain),
        figures.pulls_figure(plain),
    )
    for name, figure in zip(DRAWN, drawn, strict=True):
        print(*figures.save(figure, options.output / name))


def main(arguments: list[str] | None = None) -> int:
    """Run the script and return its exit code."""
    return cells.script(Left, draw, arguments)


if __name__ == "__main__":
    sys.exit(main())
