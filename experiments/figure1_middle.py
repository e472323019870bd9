"""The paper's Figure 1, middle: selective against full elimination, for one rule.

`python -m experiments.figure1_middle --rule lingame --runs 1000`: linear d = 10, best
arm, elimination at stopping and at both. The runs are those of Table 3 and are shared
with it; a rule that the table lacks is run here. Written as PNG and PDF.
"""

import dataclasses
import sys

from experiments import cells, tables
from experiments.figure1_left import chosen
from experiments.figures import full_selective_figure
from jaxelim import catalogue, figures
from jaxelim.errors import UnsupportedError


@dataclasses.dataclass(frozen=True)
class Middle(cells.Options):
    """Figure 1, middle: active arms over time, selective and full elimination."""

    rule: str = "lingame"
    """Sampling rule, by its name, such as lingape."""


def draw(options: Middle) -> None:
    """Run the missing runs and draw the figure."""
    kind = catalogue.find_rule(options.rule)
    rows = {
        key: row
        for key, row in chosen(options, (options.rule,), at_sampling=True).items()
        if key[1] != "none"
    }
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
    figure.axes[0].set_title(
        f"{kind.__name__}, linear-d10, best arm, delta = 0.01, {options.runs} runs", fontsize=10
    )
    print(*figures.save(figure, path))


def main(arguments: list[str] | None = None) -> int:
    """Run the script and return its exit code."""
    return cells.script(Middle, draw, arguments)


if __name__ == "__main__":
    sys.exit(main())
