"""A slice of the paper's Table 1, on its own instance: `make demo`."""

import dataclasses
import sys
import time
from pathlib import Path

import tyro

import jaxelim as je
from experiments import paper
from jaxelim import cli, figures
from jaxelim.simulation.results.summary import BIASED
from jaxelim.tables import aligned


@dataclasses.dataclass(frozen=True)
class Demo:
    """LinGapE, LinGame and the authors' oracle, beside the paper's Table 1."""

    runs: int = 200
    """Runs per rule and column."""
    seed: int = 0
    """Seed of the noise."""
    figure: Path = Path("demo.png")
    """File of the figure."""


def row(name: str, column: str, result: je.Result, place: int) -> dict:
    """One line of the table."""
    stopped = result.stopped[place, 0]
    tau = result.samples[place, 0][stopped]
    cell = paper.cells()["table1", "bai", name, column]
    work = result.timings
    return {
        "rule": name,
        "elimination at": column,
        "samples (k)": f"{tau.mean() / 1000:.2f} ± {tau.std(ddof=1) / 1000:.1f}",
        "paper (k)": f"{cell['mean']:.2f} ± {cell['sd']:.1f}",
        "z": f"{paper.z_score(tau, cell):+.2f}",
        "errors": f"{(~result.correct[place, 0][stopped]).sum()}/{tau.size}",
        "cut off": int((~stopped).sum()),
        "us/sample here": f"{1e6 * work['seconds'] / work['samples_drawn']:.2f}",
        "ms/sample there": f"{cell['ms']:.2f}",
    }


def main(config: Demo) -> None:
    began = time.perf_counter()
    figures.figure_file("figure", config.figure)
    instance, selective = je.load_instance("linear-d20"), je.SelectiveElimination()
    weights = paper.oracle_weights("linear-d20", "bai")
    rules = {"LinGapE": je.LinGapE(), "LinGame": je.LinGame(), "Oracle": je.Oracle(weights)}
    rows, shown = [], {}
    for name, rule in rules.items():
        print(f"{name} ...", flush=True)
        common = dict(
            delta=0.01, runs=config.runs, seed=config.seed, ridge=1.0, max_samples=paper.CAP,
            progress=True,
        )  # fmt: skip
        watched = je.simulate(
            instance, je.BestArm(), rule, stopping=(je.LLR(), selective), **common
        )
        rows += [row(name, "none", watched, 0), row(name, "stopping", watched, 1)]
        shown[name] = watched
        if rule.traits.elimination:
            both = je.simulate(
                instance, je.BestArm(), rule, stopping=selective, elimination=selective, **common
            )
            rows.append(row(name, "stopping+sampling", both, 0))
    print(
        f"\nTable 1, linear-d20 (K = 50, d = 20), best arm, delta = 0.01, {config.runs} runs; "
        "± is the sd over runs,"
    )
    print(
        "z = (ours - paper)/sqrt(sd_paper^2/100 + sd^2/runs); "
        "none and stopping are two observers of the same runs."
    )
    print("\n".join(aligned(rows)))
    if any(one["cut off"] for one in rows):
        print(f"Runs that were cut off are in no mean, and {BIASED}.")
    figure = figures.active_arms_figure(shown)
    figure.axes[0].set_title(
        f"linear-d20, best arm, selective elimination at stopping, {config.runs} runs"
    )
    figures.save(figure, config.figure)
    print(
        f"\n{config.figure}: active arms against time. "
        f"{time.perf_counter() - began:.0f} s in all, compilation included."
    )


if __name__ == "__main__":
    cli.use_all_cores()
    sys.exit(cli.guarded("demo", lambda: main(tyro.cli(Demo, description=Demo.__doc__))))
