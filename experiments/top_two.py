"""Top-two rules beside others: `python -m experiments.top_two --runs 2000`.

Mean draws on five instances of the literature, and the leader's share of the pulls as
delta falls from 1e-2 to 1e-9. Written as top_two.md, top_two.csv and
top_two_shares.csv, and figures of the stopping times and of the shares, .png and .pdf.
"""

import dataclasses
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import jaxelim as je
from experiments import cells, pages
from jaxelim import catalogue, figures
from jaxelim.errors import ArgumentError
from jaxelim.files import write_whole


@dataclasses.dataclass(frozen=True)
class Setting:
    """An instance, and the delta of its table.

    Args:
        means: [K].
        family: of the rewards.
        delta: error probability.
        source: where it is from.
    """

    means: tuple[float, ...]
    family: je.contracts.Family
    delta: float
    source: str

    def instance(self, name: str) -> je.Instance:
        """The instance, with a name."""
        return je.Instance.unstructured(self.means, self.family, name=f"top-two-{name}")


_SHANG = (0.5, 0.9, 0.4, 0.45, 0.44999), (1.0, 0.8, 0.75, 0.7)
INSTANCES = {
    "gk16": Setting((0.3, 0.21, 0.2, 0.19, 0.18), je.Bernoulli(), 0.1, "Garivier & Kaufmann 2016"),
    "menard": Setting((1.0, 0.85, 0.8, 0.7), je.Gaussian(), 0.1, "Menard 2019"),
    "shang-1-gaussian": Setting(_SHANG[0], je.Gaussian(), 0.01, "Shang et al. 2020"),
    "shang-1-bernoulli": Setting(_SHANG[0], je.Bernoulli(), 0.01, "Shang et al. 2020"),
    "shang-2-gaussian": Setting(_SHANG[1], je.Gaussian(), 0.01, "Shang et al. 2020"),
    "shang-2-bernoulli": Setting(_SHANG[1], je.Bernoulli(), 0.01, "Shang et al. 2020"),
}
"""The instances, by the names that --instances takes."""

RULES: dict[str, je.contracts.SamplingRule] = {
    "eb-tc": je.EBTC(),
    "eb-tci": je.EBTCI(),
    "eb-tci, ids": je.EBTCI("ids", "tracking"),
    "ttucb": je.TTUCB(),
    "ttucb, ids": je.TTUCB("ids"),
    "t3c": je.T3C(),
    "t3c, ids": je.T3C("ids"),
    "ts-tci": je.TSTCI(),
    "ttts": je.TTTS(),
    "tas": je.TrackAndStop(),
    "kl-lucb": je.LUCB(),
    "uniform": je.Uniform(),
}
"""The rows, by the names that --rules takes. `TSTC` is t3c."""

OTHER = {
    "eb-tci": (1555, 31), "eb-tci, ids": (1426, 32), "ttucb": (1687, 35), "t3c": (1426, 33),
    "tas": (1338, 34), "kl-lucb": (1430, 35), "uniform": (2284, 56),
}  # fmt: skip
"""Mean draws and standard errors of a NumPy program on gk16, 500 runs."""

DELTAS = tuple(10.0**-n for n in range(2, 10))
SHARED = ("eb-tci", "eb-tci, ids", "ttucb", "ttucb, ids", "t3c", "t3c, ids", "tas", "uniform")
"""The rules whose shares are shown, as far as they are asked for: they ignore delta."""


@dataclasses.dataclass(frozen=True)
class Table(cells.Options):
    """Top-two rules beside Track-and-Stop, KL-LUCB and uniform sampling."""

    runs: int = 2000
    """Runs of every cell, indexes 0 .. runs - 1; finished runs are not repeated."""
    rules: tuple[str, ...] = tuple(RULES)
    """Rows of the table; by default all."""
    instances: tuple[str, ...] = tuple(INSTANCES)
    """Instances; by default all."""
    shares: str = "menard"
    """The instance whose shares are followed over delta; "none" for no such table."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for argument, given, known in (
            ("rules", self.rules, RULES), ("instances", self.instances, INSTANCES),
        ):  # fmt: skip
            for name in given:
                catalogue.find(argument, name, dict(known))
            if not given or len(set(given)) < len(given):
                raise ArgumentError(argument, given, f"some of {', '.join(known)}, each once")
        catalogue.find("shares", self.shares, {**INSTANCES, "none": None})


def _cell(options: Table, name: str, row: str, kind: str, deltas: tuple[float, ...]) -> cells.Cell:
    return cells.Cell(
        options.named(f"top_two/{name}/{row.replace(', ', '-')}/{kind}"),
        INSTANCES[name].instance(name),
        je.BestArm(),
        RULES[row],
        (je.LLR(),),
        delta=deltas,
        seed=options.seed,
        max_samples=options.max_samples,
        threshold=je.GK16(),
        ridge=None,
    )


def jobs(options: Table) -> dict[tuple[str, str], cells.Cell]:
    """A cell per instance and row, by (instance, row)."""
    return {
        (name, row): _cell(options, name, row, "times", (INSTANCES[name].delta,))
        for name in options.instances
        for row in options.rules
    }


def share_jobs(options: Table) -> dict[str, cells.Cell]:
    """The cells of the table of shares: all deltas on one trajectory, a cell per row."""
    if options.shares == "none":
        return {}
    rows = [row for row in options.rules if row in SHARED]
    return {row: _cell(options, options.shares, row, "shares", DELTAS) for row in rows}


def half_allocation(means: tuple[float, ...], family: je.contracts.Family) -> np.ndarray:
    """w^{1/2} [K]: the weights that maximise the least H_p with 1/2 for the best arm.

    At a common value y of all H_p the weights of the others are found by bisection, and y
    by another, until they sum to 1/2.
    """
    mu, best = np.array(means), int(np.argmax(means))
    d = _divergence(family)

    def value(a: float, w: float) -> float:
        u = a + (mu[best] - a) * 0.5 / (0.5 + w)
        return 0.5 * d(mu[best], u) + w * d(a, u)

    def weight(a: float, y: float) -> float:
        return _root(lambda w: value(a, w) - y, 0.0, 1.0)

    def weights(y: float) -> np.ndarray:
        return np.array([0.5 if k == best else weight(a, y) for k, a in enumerate(mu)])

    most = min(value(a, 1.0) for k, a in enumerate(mu) if k != best)
    found = weights(_root(lambda y: weights(y).sum() - 1, 0.0, most))
    return found / found.sum()


def _divergence(family: je.contracts.Family) -> Callable[[float, float], float]:
    """d(x, y), in the textbook's form."""
    if isinstance(family, je.Gaussian):
        return lambda x, y: (x - y) ** 2 / 2
    part = lambda x, y: x * math.log(x / y) if x > 0 else 0.0  # noqa: E731
    return lambda x, y: part(x, y) + part(1 - x, 1 - y)


def _root(f: Callable[[float], float], low: float, high: float) -> float:
    """Where an increasing function is 0; an end if it is nowhere."""
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if f(middle) > 0 else (middle, high)
    return (low + high) / 2


def measures(found: dict[tuple[str, str], cells.Cell], held: dict[str, je.Result]) -> list[dict]:
    """Measures of each cell, NaN if undefined.

    - instance, rule: the cell. runs, truncated, stopped: counts of runs.
    - mean, se, median: draws. With truncated runs, of min(tau, cap).
    - bound: T* kl(delta, 1 - delta), a lower bound on the mean.
    - other, other_se: another program's mean. z: (mean - other)/sqrt(se^2 + other_se^2);
      NaN with truncated runs.
    - leader: the best arm's share of all pulls.
    - errors, error_low, error_high: wrong answers among the runs that stopped, and the
      Clopper-Pearson interval, level 0.95.
    - us_per_sample: wall time of one device here.
    """
    lines, bounds = [], {}
    for (name, row), cell in found.items():
        whole, setting = held[cell.name], INSTANCES[name]
        if name not in bounds:
            value = je.complexity(cell.instance, je.BestArm()).value
            bounds[name] = float(je.bounds.kl_bound(setting.delta, value))
        data = whole.to_xarray().isel(delta=0, stopping=0)
        other, error = OTHER.get(row, (math.nan,) * 2) if name == "gk16" else (math.nan,) * 2
        pulls = data["pulls"].transpose("run", ...).values
        line = {
            "instance": name,
            "rule": row,
            **pages.times(data),
            "bound": bounds[name],
            "other": other,
            "other_se": error,
        }
        line |= {
            "z": pages.z(line),
            "leader": pulls[:, int(np.argmax(setting.means))].sum() / pulls.sum(),
            **pages.wrong_answers(data),
            "us_per_sample": pages.us_per_sample(whole.timings),
        }
        lines.append(line)
    return lines


def share_lines(
    options: Table, found: dict[str, cells.Cell], held: dict[str, je.Result]
) -> list[dict]:
    """The mean N_k/tau of each arm, by rule and delta, and its distances to w* and w^{1/2}.

    - rule, delta; runs, truncated: counts of runs; only those that stopped are averaged.
    - leader: the best arm's share. to_optimal, to_half: the largest |share - weight|.
    - w0, w1, ..: the shares.
    """
    lines = []
    for row, cell in found.items():
        data = held[cell.name].data
        assert data is not None
        setting = INSTANCES[options.shares]
        best = int(np.argmax(setting.means))
        optimal, half = limits(options.shares)
        for place, delta in enumerate(DELTAS):
            one = data.isel(delta=place, stopping=0)
            pulls = one["pulls"].transpose("run", ...).values[one["stopped"].values]
            shares = (
                (pulls / pulls.sum(1, keepdims=True)).mean(0)
                if len(pulls)
                else (np.full(len(setting.means), math.nan))
            )
            lines.append({
                "rule": row, "delta": delta, "runs": one.sizes["run"],
                "truncated": one.sizes["run"] - len(pulls), "leader": shares[best],
                "to_optimal": np.abs(shares - optimal).max(),
                "to_half": np.abs(shares - half).max(),
                **{f"w{k}": share for k, share in enumerate(shares)},
            })  # fmt: skip
    return lines


def limits(name: str) -> tuple[np.ndarray, np.ndarray]:
    """w* and w^{1/2} of an instance: [K] each."""
    setting = INSTANCES[name]
    optimal = np.asarray(je.complexity(setting.instance(name), je.BestArm()).allocation)
    return optimal, half_allocation(setting.means, setting.family)


def shown(line: dict) -> dict[str, str]:
    """A row of the page."""
    other = "" if math.isnan(line["other"]) else f"{line['other']:.0f} ± {line['other_se']:.0f}"
    return {
        "rule": line["rule"],
        "mean draws": pages.mean(line),
        "median": f"{line['median']:.0f}",
        "other program": other,
        "z": pages.number(line["z"], "+.1f"),
        "leader's share": f"{line['leader']:.3f}",
        "errors [95%]": pages.errors(line),
        "cut off": pages.cut_off(line),
        "us/sample": pages.number(line["us_per_sample"], ".2f"),
    }


def markdown(lines: list[dict], shares: list[dict], options: Table) -> str:
    """The tables as a Markdown page."""
    parts = ["# Top-two rules\n"]
    for name in dict.fromkeys(line["instance"] for line in lines):
        mine, setting = [line for line in lines if line["instance"] == name], INSTANCES[name]
        means = ", ".join(f"{mean:g}" for mean in setting.means)
        about = f"{setting.source}; delta = {setting.delta}, lower bound {mine[0]['bound']:.0f}."
        parts.append(f"## {name}: {setting.family!r}, [{means}]\n\n{about}\n")
        parts.append(catalogue.markdown([shown(line) for line in mine]) + "\n")
    if shares:
        optimal, half = limits(options.shares)
        best = int(np.argmax(INSTANCES[options.shares].means))
        rows = []
        for row in dict.fromkeys(line["rule"] for line in shares):
            mine = {line["delta"]: line for line in shares if line["rule"] == row}
            last = mine[DELTAS[-1]]
            rows.append(
                {
                    "rule": row,
                    **{f"{delta:.0e}": f"{mine[delta]['leader']:.3f}" for delta in DELTAS},
                    "to w*": f"{last['to_optimal']:.3f}",
                    "to w^1/2": f"{last['to_half']:.3f}",
                }
            )
        parts.append(f"## The leader's share as delta falls: {options.shares}\n")
        parts.append(
            f"The best arm has {optimal[best]:.3f} in w* and {half[best]:.3f} in w^1/2. The last "
            "columns are the largest distances of a share N/tau, at the least delta.\n"
        )
        parts.append(catalogue.markdown(rows) + "\n")
    notes = [
        f"LLR stopping, threshold log((1 + log t)/delta), {options.runs} runs, seed "
        f"{options.seed}, cap {options.max_samples} samples; mean ± standard error.",
        "ids: information-directed shares, else 1/2. eb and ttucb with ids, and ttucb, select by "
        "tracking; the others at random. kl-lucb: one pull a round.",
        "other program: a NumPy program, 500 runs. z = (ours - other)/sqrt(se^2 + se_other^2).",
        "Errors: wrong answers among the runs that stopped, with the Clopper-Pearson interval.",
        "A row's runs share their noise with those of the other rows of the instance.",
    ]
    return pages.page(parts, notes, lines, options.max_samples, cause=" eb-tc can starve an arm.")


def share_figure(shares: list[dict], name: str) -> Figure:
    """The leader's share against delta, a line per rule; w* and 1/2 as dashed lines."""
    figure = Figure(figsize=(5, 3.2), layout="constrained")
    axes = figure.subplots()
    for row in dict.fromkeys(line["rule"] for line in shares):
        mine = [line for line in shares if line["rule"] == row]
        axes.plot([one["delta"] for one in mine], [one["leader"] for one in mine], label=row)
    optimal, half = limits(name)
    best = int(np.argmax(INSTANCES[name].means))
    for weight in (optimal[best], half[best]):
        axes.axhline(weight, color="black", linestyle="--", linewidth=0.8)
    axes.set(xscale="log", xlabel="delta", ylabel="share of the best arm")
    axes.invert_xaxis()
    axes.legend(fontsize="small", ncols=2)
    return figure


def make(options: Table) -> None:
    """Run the missing runs; write the tables and the figures."""
    found, followed = jobs(options), share_jobs(options)
    drawn = [f"top_two_{name}" for name in options.instances]
    drawn += ["top_two_shares"] if followed else []
    files = [options.output / f"top_two.{ending}" for ending in ("md", "csv")]
    files += [options.output / "top_two_shares.csv"] if followed else []
    files += [options.output / f"{name}.{ending}" for name in drawn for ending in ("png", "pdf")]
    kept = cells.run_and_load([*found.values(), *followed.values()], options, files)
    if kept is None:
        return
    lines, shares = measures(found, kept), share_lines(options, followed, kept)
    pages.written(options.output / "top_two", markdown(lines, shares, options), lines)
    for name in options.instances:
        tau: dict[str, Any] = {
            row: pages.stopping_times(kept[cell.name].to_xarray().isel(delta=0, stopping=0))
            for (instance, row), cell in found.items()
            if instance == name
        }
        tau = {row: one for row, one in tau.items() if np.isfinite(one).any()}
        if tau:
            print(*figures.save(figures.survival_figure(tau), options.output / f"top_two_{name}"))
    if shares:
        write_whole(options.output / "top_two_shares.csv", pages.comma_separated(shares).encode())
        figure = share_figure(shares, options.shares)
        print(*figures.save(figure, options.output / "top_two_shares"))


def main(arguments: list[str] | None = None) -> int:
    """Run the script and return its exit code."""
    return cells.script(Table, make, arguments)


if __name__ == "__main__":
    sys.exit(main())
