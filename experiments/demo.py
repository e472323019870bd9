"""A slice of the paper's Table 1, on its own instance: `make demo`."""

import dataclasses
import sys
import time
from pathlib import Path

import tyro

import jaxelim as je
from experiments import tables
from jaxelim import cli, figures
from jaxelim.parallel import use_all_cores
from jaxelim.tables import aligned

_SHOWN = {
    "rule": "algorithm", "elimination at": "elimination", "samples (k)": "samples (k)",
    "paper (k)": "paper (k)", "z": "z", "errors": "errors [95%]", "cut off": "cut off",
    "us/sample here": "us/sample here", "ms/sample there": "ms/sample there",
}  # fmt: skip
"""The columns, and those of the table's own page."""


@dataclasses.dataclass(frozen=True)
class Demo:
    """LinGapE, LinGame and the authors' oracle, beside the paper's Table 1."""

    runs: int = 200
    """Runs per rule and column."""
    seed: int = 0
    """Seed of the noise."""
    figure: Path = Path("demo.png")
    """File of the figure."""


def main(config: Demo) -> None:
    began = time.perf_counter()
    figures.figure_file("figure", config.figure)
    options = tables.TableOptions(runs=config.runs, seed=config.seed, problems=("bai",),
                                  rules=("lingape", "lingame", "oracle"))  # fmt: skip
    rows = [row for row in tables.rows("table1", options) if row.reproduces]
    named = {name: one.replace(engine=je.Engine()) for name, one in tables.jobs(rows).items()}
    study = je.study(named, progress=True)
    lines = tables.shown(tables.measures(rows, study))
    print(
        f"\nTable 1, linear-d20 (K = 50, d = 20), best arm, delta = 0.01, {config.runs} runs; "
        "± is the sd over runs,\nz = (ours - paper)/sqrt(sd_paper^2/100 + sd^2/runs); "
        "none and stopping are two observers of the same runs."
    )
    print("\n".join(aligned(
        [{name: line[of].partition(" [")[0] for name, of in _SHOWN.items()} for line in lines]
    )))  # fmt: skip
    if any(line["cut off"] != "0" for line in lines):
        print("†: runs were cut off, and the mean is of min(tau, cap).")
    watched = {row.algorithm: study[row.name] for row in rows if row.column == "stopping"}
    figure = figures.active_arms_figure(watched)
    title = f"linear-d20, best arm, selective elimination at stopping, {config.runs} runs"
    figure.axes[0].set_title(title)
    figures.save(figure, config.figure)
    took = f"{time.perf_counter() - began:.0f} s in all, compilation included."
    print(f"\n{config.figure}: active arms against time. {took}")


if __name__ == "__main__":
    use_all_cores()
    sys.exit(cli.guarded("demo", lambda: main(tyro.cli(Demo, description=Demo.__doc__))))
