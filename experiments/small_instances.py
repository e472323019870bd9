"""Error rates of every rule, problem and elimination on small random instances.

`python -m experiments.small_instances` checks that none is above delta.
"""

import dataclasses
import sys

import numpy as np
from scipy import stats

import jaxelim as je
from experiments import cells
from jaxelim import catalogue
from jaxelim.files import write_whole
from jaxelim.simulation.results.summary import BIASED
from jaxelim.tables import aligned

LEVEL = 0.999
"""Confidence level of the Clopper-Pearson intervals."""


@dataclasses.dataclass(frozen=True)
class Small(cells.Options):
    """Error rates of all rules on small random instances, linear and unstructured."""

    runs: int = 100
    """Runs of every instance."""
    instances: int = 20
    """Random instances of each structure; every run counts once."""
    delta: float = 0.05
    """Allowed error probability."""
    rules: tuple[str, ...] = ()
    """Sampling rules, by their names, such as lingape; by default all."""


def instance(structure: str, count: int) -> je.Instance:
    """`count` random instances, [count, 6, 3] or [count, 6, 6].

    Means differ from each other and from 0 by more than 0.15.
    """
    rng = np.random.default_rng(20221128)
    arms, theta = [], []
    while len(arms) < count:
        phi = rng.normal(size=(6, 3)) if structure == "linear" else np.eye(6)
        one = rng.normal(size=phi.shape[1])
        means = np.sort([*(phi @ one), 0.0])
        if np.diff(means).min() > 0.15:
            arms.append(phi)
            theta.append(one)
    return je.Instance(np.stack(arms), np.stack(theta))


def jobs(config: Small) -> dict[str, tuple[cells.Cell, dict[str, str]]]:
    """Cells by name, each with the table's column of each of its stopping rules."""
    selective, problems = je.SelectiveElimination(), (je.BestArm(), je.TopM(2), je.Thresholding())
    wanted = {catalogue.find_rule(name) for name in config.rules}
    found = {}
    for structure in ("linear", "unstructured"):
        drawn = instance(structure, config.instances)
        for problem in problems:
            for kind in catalogue.rules().values():
                defined = structure in kind.traits.structures and kind.traits.defined_for(
                    problem.name
                )
                if not defined or (wanted and kind not in wanted):
                    continue
                ways = [(None, (je.LLR(), selective), {"llr": "none", "selective": "stopping"})]
                if kind.traits.elimination:
                    ways.append((selective, (selective,), {"selective": "stopping + sampling"}))
                if kind.traits.stopping == ("native",):
                    ways = [(None, (je.Native(),), {"native": "native"})]
                for elimination, stopping, columns in ways:
                    way = next(iter(columns.values())) if len(columns) == 1 else "watched"
                    name = config.named(
                        f"small/{structure}/{problem!r}/{kind.__name__}/{way}/"
                        f"{config.instances}/{config.delta}"
                    )
                    cell = cells.Cell(
                        name,
                        drawn,
                        problem,
                        kind(),
                        stopping,
                        elimination,
                        (config.delta,),
                        config.seed,
                        config.max_samples,
                    )
                    found[name] = cell, columns
    return found


def row(cell: cells.Cell, column: str, stopping: str, held: je.Result, delta: float) -> dict:
    """One line of the table, from outcomes [instance, run] under one stopping rule.

    Means and rates exclude runs that were cut off.
    """
    of = held.to_xarray().sel(stopping=stopping).isel(delta=0)
    stopped = of["stopped"].values
    tau, wrong = of["samples"].values[stopped], ~of["correct"].values[stopped]
    interval = stats.binomtest(int(wrong.sum()), wrong.size).proportion_ci(LEVEL, "exact")
    return {
        "structure": cell.instance.structure,
        "problem": cell.problem.name,
        "rule": type(cell.rule).__name__,
        "elimination at": column,
        "runs": stopped.size,
        "cut off": int((~stopped).sum()),
        "mean tau": f"{tau.mean():.1f}",
        "errors": int(wrong.sum()),
        "rate": f"{wrong.mean():.4f}",
        "99.9% interval": f"[{interval.low:.4f}, {interval.high:.4f}]",
        "above delta": "YES" if interval.low > delta else "",
    }


def main(config: Small) -> None:
    """Run all cells, print the table and write it as Markdown."""
    found = jobs(config)
    path = config.output / "small_instances.md"
    held = cells.run_and_load([cell for cell, _ in found.values()], config, [path])
    if held is None:
        return
    rows = [
        row(cell, column, stopping, held[name], config.delta)
        for name, (cell, columns) in found.items()
        for stopping, column in columns.items()
    ]
    print("\n".join(aligned(rows)))
    if any(one["cut off"] for one in rows):
        print(f"\nRuns that were cut off are in no mean and in no rate, and {BIASED}.")
    bad = sum(one["above delta"] != "" for one in rows)
    print(
        f"\n{len(rows)} rows; in {bad} of them the lower end of the interval "
        f"(Clopper-Pearson) is above {config.delta}."
    )
    write_whole(path, (catalogue.markdown(rows) + "\n").encode())
    print(f"wrote {path}")


if __name__ == "__main__":
    sys.exit(cells.script(Small, main))
