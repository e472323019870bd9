"""The paper's example in two dimensions: `python -m experiments two_dimensional`.

Source: section "An example" and its appendix. An oracle that tracks w* runs on
instances whose arm 2 is eps-close to the best and whose arms 3 .. K are bad. It prints
and draws:

- elimination times of arms 3 .. K, simulated and bounded by the theorem, against eps
  and delta;
- half-spaces tested per sample against K, eps and delta, beside the paper's laws;
- the unstructured twin (the same means, arms e_1 .. e_K), where elimination is late.

Two figures are written as PNG and PDF: OUTPUT (times and tests) and OUTPUT-bounds.
Finished runs are stored in RESULTS.
"""

import dataclasses
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

import jaxelim as je
from experiments import cells
from experiments.elimination_bounds import elimination_bounds, regret_of
from jaxelim import checks, figures
from jaxelim.figures.style import GREY, panels, style_of
from jaxelim.instances import two_dimensional
from jaxelim.simulation.results.summaries import BIASED
from jaxelim.tables import aligned

STOPPING = (je.LLR(), je.SelectiveElimination(), je.FullElimination())
SELECTIVE, FULL = 1, 2
FIRST = np.s_[:, 0]
"""All instances, at the first delta."""
Pair = tuple[np.ndarray, np.ndarray]
"""Means and standard errors."""


@dataclasses.dataclass(frozen=True)
class TwoDimensional(cells.Options):
    """The oracle on the two-dimensional example: bounds, costs, unstructured twin."""

    runs: int = 40
    """Runs per instance."""
    arms: int = 5
    """K of the figures of times."""
    eps: tuple[float, ...] = (0.3, 0.2, 0.1, 0.05, 0.03, 0.02, 0.01)
    """Distances of arm 2 in the figures of times."""
    delta: tuple[float, ...] = (1e-1, 1e-2, 1e-3, 1e-5, 1e-7, 1e-9)
    """Error probabilities in the figures against delta, all on one trajectory."""
    test_arms: tuple[int, ...] = (5, 10, 20, 50, 100)
    """K of the figures of tests."""
    test_eps: tuple[float, ...] = (0.3, 0.2, 0.1, 0.05)
    """eps of the figure of tests against eps."""
    at_arms: int = 50
    """K of the figures of tests against eps and delta."""
    at_eps: float = 0.1
    """eps where the others vary."""
    at_delta: float = 0.01
    """delta where the others vary."""
    max_samples: int = 10_000_000
    """Cap on a run's samples; runs that reach it are in no mean."""
    output: Path = Path("results/two_dimensional")
    """Path of the figures, without ending."""
    results: Path = Path("results")
    """Folder of the finished blocks of runs."""

    def __post_init__(self):
        super().__post_init__()
        checks.integer("runs", self.runs, low=2)
        if not self.output.name:
            allowed = "the path of a figure, without ending"
            raise je.errors.ArgumentError("output", str(self.output), allowed)
        for name in ("eps", "delta", "test_arms", "test_eps"):
            if not getattr(self, name):
                raise je.errors.ArgumentError(name, getattr(self, name), "at least one value")


class Panel(NamedTuple):
    """One panel of `scaling_figure`, on two logarithmic axes.

    Args:
        title: of the panel.
        xlabel, ylabel: with their units.
        x: [n], above 0.
        measured: by name, means [n] and standard errors [n]; NaN where there is none.
        references: by name, values [n] to compare with: bounds and laws.
    """

    title: str
    xlabel: str
    ylabel: str
    x: np.ndarray
    measured: Mapping[str, Pair]
    references: Mapping[str, np.ndarray]


class Observed(NamedTuple):
    """Arrays [instance, stopping, delta, run] of a batch; elimination times [.., K]."""

    samples: np.ndarray
    stopped: np.ndarray
    elimination_times: np.ndarray
    tests_stopping: np.ndarray

    @staticmethod
    def of(held: je.Study, name: str) -> "Observed":
        """The arrays of an experiment, of which a study has each instance apart."""
        parts = [one for key, one in held.results.items() if key[0] == name]
        return Observed(*(np.stack([getattr(one, x) for one in parts]) for x in Observed._fields))


def cell(
    config: TwoDimensional, kind: str, batch: je.Instance, eps: Sequence[float],
    delta: Sequence[float],
) -> tuple[str, je.Experiment]:  # fmt: skip
    """The oracle on a batch, without ridge: the theorem is about the plain LLR."""
    told = "/".join(f"{word}={','.join(format(value, 'g') for value in values)}"
                    for word, values in (("eps", eps), ("delta", delta)))  # fmt: skip
    name = config.named(f"two-dimensional/{kind}/K={batch.K}/{told}")
    return name, je.Experiment(batch, je.BestArm(), je.Oracle(), stopping=STOPPING, delta=delta,
                               ridge=0.0, **config.settings)  # fmt: skip


def moments(values: np.ndarray) -> Pair:
    """Mean and standard error over the last axis, without NaN."""
    n = np.isfinite(values).sum(-1)
    mean = np.nanmean(values, -1)
    return mean, np.sqrt(np.nansum((values - mean[..., None]) ** 2, -1) / np.maximum(n - 1, 1) / n)


def stopping_times(result: Observed, stopping: int) -> np.ndarray:
    """tau [instance, delta, run], NaN for runs cut off."""
    return np.where(result.stopped, result.samples, np.nan)[:, stopping]


def falls(result: Observed, stopping: int) -> np.ndarray:
    """Elimination times of the far arms (3 ..), [instance, delta, run, K - 2]; NaN if cut off."""
    times = result.elimination_times[:, stopping, :, :, 2:].astype(float)
    return np.where(result.stopped[:, stopping, :, :, None] & (times > 0), times, np.nan)


def tests_per_sample(result: Observed, stopping: int) -> np.ndarray:
    """Half-spaces tested per sample [instance, delta, run], NaN for runs cut off."""
    return result.tests_stopping[:, stopping] / stopping_times(result, stopping)


def nested_tests_per_sample(result: Observed) -> np.ndarray:
    """Tests per sample of full elimination as the paper's appendix counts them.

    Both loops run over the active arms: sum_t A_t (A_t - 1)/tau. The library also tests
    an active arm against eliminated ones, hence A_t (K - 1).
    """
    tau = stopping_times(result, FULL)
    times = result.elimination_times[:, FULL].astype(float)
    K = times.shape[-1]
    # the check at t tests the arms eliminated at t or later
    until = np.sort(np.where(times > 0, times, tau[..., None]), -1)
    # From check K on; between two eliminations A_t is constant.
    length = np.diff(np.concatenate([np.full((*tau.shape, 1), K - 1.0), until], -1), axis=-1)
    active = K - np.arange(K)
    return (length * active * (active - 1)).sum(-1) / tau


def slope(x, y) -> float:
    """Least-squares slope of log y in log x."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def worst_arm(result: Observed, stopping: int) -> Pair:
    """Elimination time of the far arm that is eliminated last on average, by instance."""
    mean, error = moments(np.moveaxis(falls(result, stopping)[:, 0], 1, -1))
    last = mean.argmax(-1)[:, None]
    return np.take_along_axis(mean, last, 1)[:, 0], np.take_along_axis(error, last, 1)[:, 0]


def bounds_of(config: TwoDimensional, batch: je.Instance) -> dict[str, np.ndarray]:
    """Bounds on tau and the far arms' elimination times by name, [eps]. R is the oracle's own."""
    rows = []
    for one in batch.unbatched:
        R = regret_of(one, je.Oracle(), 2000)  # its pulls are periodic long before
        found = elimination_bounds(one, je.BestArm(), config.at_delta, regret=R)
        lower = float(je.bounds.sample_bound(config.at_delta, found.value))
        rows.append({"value": found.value, "regret": R(10**9) / found.value, "lower": lower,
                     "llr": found.llr, "selective": found.selective[1:].max(),
                     "full": found.full[1:].max()})  # fmt: skip
    return {name: np.array([row[name] for row in rows], float) for name in rows[0]}


def bounds_rows(
    config: TwoDimensional, measured: dict[str, Pair], result: Observed, curves: dict
) -> list[dict]:
    """Means, bounds, and bounds over means, by eps."""
    rows = []
    for i, eps in enumerate(config.eps):
        row = {"eps": eps, "H*": curves["value"][i], "R/H*": curves["regret"][i],
               "lower bound": f"{curves['lower'][i]:.0f}"}  # fmt: skip
        for name, (mean, error) in measured.items():
            bound = curves[name][i]
            row |= {name: f"{mean[i]:.1f} ± {error[i]:.1g}", f"bound {name}": f"{bound:.0f}",
                    f"over {name}": bound / mean[i]}  # fmt: skip
        rows.append(row | {"cut off": int((~result.stopped[i]).any((0, 1)).sum())})
    return rows


def times(found: Observed, at: Any) -> dict[str, Pair]:
    """Mean tau, and mean elimination times of the far arms, at an index of [instance, delta]."""
    far = {f"arms 3.., {name}": moments(falls(found, s)[at].mean(-1))
           for name, s in (("selective", SELECTIVE), ("full", FULL))}  # fmt: skip
    return {"tau, LLR stopping": moments(stopping_times(found, 0)[at]), **far}


def panels_of_times(
    config: TwoDimensional, by_eps: Observed, by_delta: Observed, twins: Observed
) -> list[Panel]:
    """Panels of times against eps and delta, and of the twin."""
    eps, logs = np.array(config.eps), np.log(1 / np.array(config.delta))
    in_eps, in_delta, in_twins = times(by_eps, FIRST), times(by_delta, 0), times(twins, FIRST)
    steep, first = (eps / eps.max()) ** -2.0, eps.argmax()
    word, sizes = "time (samples)", f"K = {config.arms}, "
    delta = f"delta = {config.at_delta:g}"
    return [
        Panel(f"{sizes}{delta}: far arms fall early", "eps", word, eps, in_eps,
              {"slope -2": in_eps["tau, LLR stopping"][0][first] * steep,
               "slope 0": np.full(eps.shape, in_eps["arms 3.., full"][0].mean())}),
        Panel(f"{sizes}eps = {config.at_eps:g}: against delta", "log(1/delta)", word, logs,
              in_delta, {"slope 1": in_delta["arms 3.., full"][0][-1] * logs / logs[-1]}),
        Panel(f"unstructured twin, {delta}: nothing falls early", "eps", word, eps, in_twins,
              {"slope -2": in_twins["tau, LLR stopping"][0][first] * steep}),
    ]  # fmt: skip


def tests(found: Observed, at: Any) -> dict[str, Pair]:
    """Half-space tests per sample by observer, at an index of [instance, delta]."""
    costs = {"LLR": tests_per_sample(found, 0), "full": tests_per_sample(found, FULL),
             "full, nested loops": nested_tests_per_sample(found),
             "selective": tests_per_sample(found, SELECTIVE)}  # fmt: skip
    return {name: moments(cost[at]) for name, cost in costs.items()}


def laws(K: Any, eps: Any, logs: Any) -> dict[str, np.ndarray]:
    """The paper's laws of tests per sample, plus those of the last pair."""
    one = np.ones(np.broadcast_shapes(np.shape(K), np.shape(eps), np.shape(logs)))
    return {
        "2 + K² eps²": 2 + K**2 * eps**2 * one,
        "1 + K eps² + K/log(1/delta)": 1 + (K * eps**2 + K / logs) * one,
    }


def panels_of_tests(
    config: TwoDimensional, by_arms: list[Observed], by_eps: Observed, by_delta: Observed
) -> list[Panel]:
    """Panels of tests per sample against K, eps and delta."""
    K, eps = np.array(config.test_arms), np.array(config.test_eps)
    logs, log = np.log(1 / np.array(config.delta)), np.log(1 / config.at_delta)
    each = [tests(found, FIRST) for found in by_arms]
    of_K = {name: tuple(map(np.concatenate, zip(*(one[name] for one in each), strict=True)))
            for name in each[0]}  # fmt: skip
    arms, near = f"K = {config.at_arms}", f"eps = {config.at_eps:g}"
    level, word = f"delta = {config.at_delta:g}", "half-space tests per sample"
    return [
        Panel(f"{near}, {level}", "K (arms)", word, K, of_K, laws(K, config.at_eps, log)),
        Panel(f"{arms}, {level}", "eps", word, eps, tests(by_eps, FIRST),
              laws(config.at_arms, eps, log)),
        Panel(f"{arms}, {near}", "log(1/delta)", word, logs, tests(by_delta, 0),
              laws(config.at_arms, config.at_eps, logs)),
    ]  # fmt: skip


def panels_of_bounds(
    config: TwoDimensional, measured: dict[str, Pair], curves: dict[str, np.ndarray]
) -> list[Panel]:
    """Panels of simulated times between their bounds."""
    eps, word = np.array(config.eps), "elimination time (samples)"
    return [
        Panel(f"LLR stopping, K = {config.arms}, delta = {config.at_delta:g}", "eps",
              "tau (samples)", eps, {"simulated": measured["llr"]},
              {"theorem, t-bar + 2": curves["llr"], "lower bound": curves["lower"]}),
        *(Panel(f"arms 3.., {name} elimination", "eps", word, eps,
                {"simulated, worst arm": measured[name]},
                {"theorem, min(t-bar_p, t-bar) + 2": curves[name]})
          for name in ("selective", "full")),
    ]  # fmt: skip


def scaling_figure(drawn: Sequence[Panel]) -> Figure:
    """Draw simulated quantities against a parameter, with bounds and laws: three panels a row."""
    across = min(3, len(drawn))
    rows = -(-len(drawn) // across)
    figure, places = panels((4.6 * across, 4.4 * rows), across, rows)
    for axes, panel in zip(places.flat, drawn, strict=False):
        for place, (name, (mean, bar)) in enumerate(panel.measured.items()):
            axes.errorbar(panel.x, mean, bar, linewidth=1.5, capsize=2.5, markersize=5, label=name,
                          **style_of(place))  # fmt: skip
        for place, (name, values) in enumerate(panel.references.items()):
            dash = (":", "--", "-.", (0, (1, 3)))[place % 4]
            axes.plot(panel.x, values, color=GREY, linestyle=dash, linewidth=1.3, label=name)
        axes.set(xscale="log", yscale="log", xlabel=panel.xlabel, ylabel=panel.ylabel)
        axes.set_xticks(panel.x, [f"{value:.3g}" for value in panel.x])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_title(panel.title, fontsize=10)
        # Below the panel, as curves may be anywhere inside.
        axes.legend(frameon=False, fontsize=7.5, loc="upper center", bbox_to_anchor=(0.5, -0.17),
                    ncols=2)  # fmt: skip
    for axes in figure.axes[len(drawn) :]:
        axes.remove()
    return figure


def run(config: TwoDimensional) -> None:
    """Run the missing runs; print the tables and draw the figures."""
    began = time.perf_counter()
    paths = [config.output, config.output.with_name(f"{config.output.name}-bounds")]
    files = []
    if cells.parse_shard(config.shard) == (1, 1):  # shards draw nothing
        files = [one.with_name(f"{one.name}.{end}") for one in paths for end in ("png", "pdf")]
    batch = two_dimensional(config.arms, config.eps)
    one_eps, one_delta = [config.at_eps], [config.at_delta]
    twin = je.Instance(np.tile(np.eye(batch.K), (batch.size, 1, 1)), batch.means)

    def example(K: int, eps: Sequence[float], delta: Sequence[float]) -> tuple[str, je.Experiment]:
        return cell(config, "example", two_dimensional(K, eps), eps, delta)

    asked = {
        "by eps": example(config.arms, config.eps, one_delta),
        "by delta": example(config.arms, one_eps, config.delta),
        "twins": cell(config, "twin", twin, config.eps, one_delta),
        **{f"K = {K}": example(K, one_eps, one_delta) for K in config.test_arms},
        "tests by eps": example(config.at_arms, config.test_eps, one_delta),
        "tests by delta": example(config.at_arms, one_eps, config.delta),
    }
    options = config.as_in(cells.Options, output=config.results)
    held = cells.studied(options, files, dict(asked.values()))
    if held is None:
        return
    found = {key: Observed.of(held, name) for key, (name, _) in asked.items()}
    by_eps, twins = found["by eps"], found["twins"]
    measured = {"llr": moments(stopping_times(by_eps, 0)[:, 0]),
                "selective": worst_arm(by_eps, SELECTIVE),
                "full": worst_arm(by_eps, FULL)}  # fmt: skip
    curves = bounds_of(config, batch)
    print(
        f"Oracle, K = {config.arms}, delta = {config.at_delta:g}, {config.runs} runs, "
        "mean ± s.e.: llr is tau under LLR stopping, selective and full are when the worst\n"
        "of arms 3.. falls; bounds of the theorem on elimination times, R the oracle's own; "
        "'over' is bound over mean"
    )
    print("\n".join(aligned(bounds_rows(config, measured, by_eps, curves))))
    of_times = panels_of_times(config, by_eps, found["by delta"], twins)
    for panel in of_times:
        slopes = [f"{name} {slope(panel.x, mean):+.2f}"
                  for name, (mean, _) in panel.measured.items() if len(panel.x) > 1]  # fmt: skip
        print(f"{panel.title}; slopes in {panel.xlabel}: {', '.join(slopes)}")
    for name, one in (("the example", by_eps), ("its unstructured twin", twins)):
        far, whole = moments(falls(one, FULL)[:, 0].mean(-1)), moments(stopping_times(one, 0)[:, 0])
        share = far[0] / whole[0]
        print(f"{name}: arms 3.. fall at {share.min():.1e} to {share.max():.1e} of tau, "
              "full elimination")  # fmt: skip
    by_arms = [found[f"K = {K}"] for K in config.test_arms]
    of_tests = panels_of_tests(config, by_arms, found["tests by eps"], found["tests by delta"])
    for panel in of_tests:
        columns = {name: pair[0] for name, pair in panel.measured.items()} | dict(panel.references)
        rows = [{panel.xlabel: f"{x:.3g}", **{name: float(y[i]) for name, y in columns.items()}}
                for i, x in enumerate(panel.x)]  # fmt: skip
        print(f"half-space tests per sample, {panel.title}:", *aligned(rows), sep="\n")
    written = []
    drawn = [*of_times, *of_tests], panels_of_bounds(config, measured, curves)
    for path, some in zip(paths, drawn, strict=True):
        written += figures.save(scaling_figure(some), path, endings=("png", "pdf"))
    cut = sum(int((~one.stopped).sum()) for one in found.values())
    told = f" and in no mean: {BIASED}" if cut else ""
    print(f"{', '.join(map(str, written))}; {cut} observations cut off{told}; "
          f"{time.perf_counter() - began:.0f} s in all")  # fmt: skip
