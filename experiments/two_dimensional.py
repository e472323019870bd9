"""The paper's example in two dimensions: `python -m experiments.two_dimensional`.

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
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np

import jaxelim as je
from experiments import cells
from experiments.elimination_bounds import elimination_bounds, regret_of
from experiments.figures import Panel, scaling_figure
from jaxelim import checks, figures
from jaxelim.instances import two_dimensional
from jaxelim.simulation.results.summary import BIASED
from jaxelim.tables import aligned

STOPPING = (je.LLR(), je.SelectiveElimination(), je.FullElimination())
SELECTIVE, FULL = 1, 2


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
    dpi: int = 150
    """Dots per inch of the PNGs."""
    endings: tuple[Literal["png", "pdf"], ...] = ("png", "pdf")
    """Kinds of files to write."""

    def __post_init__(self):
        super().__post_init__()
        checks.integer("runs", self.runs, low=2)
        if not self.output.name:
            raise je.errors.ArgumentError(
                "output", str(self.output), "the path of a figure, without ending"
            )
        for name in ("eps", "delta", "test_arms", "test_eps"):
            if not getattr(self, name):
                raise je.errors.ArgumentError(name, getattr(self, name), "at least one value")


@dataclasses.dataclass(frozen=True)
class Observed:
    """Arrays [instance, stopping, delta, run] of a batch; elimination times [.., K]."""

    samples: np.ndarray
    stopped: np.ndarray
    elimination_times: np.ndarray
    tests_stopping: np.ndarray

    @staticmethod
    def of(held: je.Study, name: str) -> "Observed":
        """The arrays of an experiment, of which a study has each instance apart."""
        parts = [one for key, one in held.results.items() if key[0] == name]
        names = [field.name for field in dataclasses.fields(Observed)]
        return Observed(*(np.stack([getattr(one, name) for one in parts]) for name in names))


def cell(
    config: TwoDimensional,
    kind: str,
    batch: je.Instance,
    eps: Sequence[float],
    delta: Sequence[float],
) -> tuple[str, je.Experiment]:
    """The oracle on a batch, without ridge: the theorem is about the plain LLR."""
    listed = {"eps": eps, "delta": delta}
    told = "/".join(
        f"{word}={','.join(format(value, 'g') for value in values)}"
        for word, values in listed.items()
    )
    name = config.named(f"two-dimensional/{kind}/K={batch.K}/{told}")
    return name, je.Experiment(batch, je.BestArm(), je.Oracle(), stopping=STOPPING, delta=delta,
                               ridge=0.0, **config.settings)  # fmt: skip


def twin(batch: je.Instance) -> je.Instance:
    """The unstructured instances with the same means."""
    return je.Instance(
        np.broadcast_to(np.eye(batch.K), (batch.size, batch.K, batch.K)), batch.means
    )


def moments(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard error over the last axis, without NaN."""
    n = np.isfinite(values).sum(-1)
    mean = np.nanmean(values, -1)
    return mean, np.sqrt(np.nansum((values - mean[..., None]) ** 2, -1) / np.maximum(n - 1, 1) / n)


def stopping_times(result: Observed, stopping: int) -> np.ndarray:
    """tau [instance, delta, run], NaN for runs cut off."""
    return np.where(result.stopped, result.samples, np.nan)[:, stopping]


def falls(result: Observed, stopping: int) -> np.ndarray:
    """Elimination times of the far arms (3 ..), [instance, delta, run, K - 2].

    NaN for runs cut off.
    """
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


def worst_arm(result: Observed, stopping: int) -> tuple[np.ndarray, np.ndarray]:
    """Elimination time of the far arm that is eliminated last on average.

    Returns:
        Mean and standard error, [instance] each.
    """
    mean, error = moments(np.moveaxis(falls(result, stopping)[:, 0], 1, -1))
    last = mean.argmax(-1)[:, None]
    return np.take_along_axis(mean, last, 1)[:, 0], np.take_along_axis(error, last, 1)[:, 0]


def bounds_of(config: TwoDimensional, batch: je.Instance) -> dict[str, np.ndarray]:
    """Bounds by name, [eps]: on tau and on the far arms' elimination times.

    R is the oracle's own.
    """
    curves = {name: [] for name in ("value", "regret", "lower", "llr", "selective", "full")}
    for one in batch.unbatched:
        R = regret_of(one, je.Oracle(), 2000)  # its pulls are periodic long before
        found = elimination_bounds(one, je.BestArm(), config.at_delta, regret=R)
        lower = je.bounds.sample_bound(config.at_delta, found.value)
        each = (
            found.value,
            R(10**9) / found.value,
            lower,
            found.llr,
            found.selective[1:].max(),
            found.full[1:].max(),
        )
        for curve, number in zip(curves.values(), each, strict=True):
            curve.append(float(number))
    return {name: np.array(values) for name, values in curves.items()}


def bounds_rows(
    config: TwoDimensional, result: Observed, curves: dict[str, np.ndarray]
) -> list[dict]:
    """Means, bounds, and bounds over means, by eps."""
    measured = {
        "llr": moments(stopping_times(result, 0)[:, 0]),
        "selective": worst_arm(result, SELECTIVE),
        "full": worst_arm(result, FULL),
    }
    rows = []
    for i, eps in enumerate(config.eps):
        row = {
            "eps": eps,
            "H*": curves["value"][i],
            "R/H*": curves["regret"][i],
            "lower bound": f"{curves['lower'][i]:.0f}",
        }
        for name, (mean, error) in measured.items():
            row |= {
                name: f"{mean[i]:.1f} ± {error[i]:.1g}",
                f"bound {name}": f"{curves[name][i]:.0f}",
                f"over {name}": curves[name][i] / mean[i],
            }
        rows.append(row | {"cut off": int((~result.stopped[i]).any((0, 1)).sum())})
    return rows


def panels_of_times(
    config: TwoDimensional, by_eps: Observed, by_delta: Observed, twins: Observed
) -> list[Panel]:
    """Panels of times against eps and delta, and of the twin."""
    eps, logs = np.array(config.eps), np.log(1 / np.array(config.delta))

    def measured(found, at):
        far = {
            name: moments(falls(found, s)[at].mean(-1))
            for name, s in (("selective", SELECTIVE), ("full", FULL))
        }
        return {"tau, LLR stopping": moments(stopping_times(found, 0)[at])} | {
            f"arms 3.., {name}": pair for name, pair in far.items()
        }

    in_eps, in_delta, in_twins = (
        measured(by_eps, np.s_[:, 0]),
        measured(by_delta, 0),
        measured(twins, np.s_[:, 0]),
    )
    steep = (eps / eps.max()) ** -2.0
    first = eps.argmax()
    return [
        Panel(
            f"K = {config.arms}, delta = {config.at_delta:g}: far arms fall early",
            "eps",
            "time (samples)",
            eps,
            in_eps,
            {
                "slope -2": in_eps["tau, LLR stopping"][0][first] * steep,
                "slope 0": np.full(eps.shape, in_eps["arms 3.., full"][0].mean()),
            },
        ),
        Panel(
            f"K = {config.arms}, eps = {config.at_eps:g}: against delta",
            "log(1/delta)",
            "time (samples)",
            logs,
            in_delta,
            {"slope 1": in_delta["arms 3.., full"][0][-1] * logs / logs[-1]},
        ),
        Panel(
            f"unstructured twin, delta = {config.at_delta:g}: nothing falls early",
            "eps",
            "time (samples)",
            eps,
            in_twins,
            {"slope -2": in_twins["tau, LLR stopping"][0][first] * steep},
        ),
    ]


def panels_of_tests(
    config: TwoDimensional, by_arms: list[Observed], by_eps: Observed, by_delta: Observed
) -> list[Panel]:
    """Panels of tests per sample against K, eps and delta.

    The laws are the paper's, plus those of the last pair.
    """
    K, eps, logs = (
        np.array(config.test_arms),
        np.array(config.test_eps),
        np.log(1 / np.array(config.delta)),
    )

    def measured(found, at):
        costs = {
            "LLR": tests_per_sample(found, 0),
            "full": tests_per_sample(found, FULL),
            "full, nested loops": nested_tests_per_sample(found),
            "selective": tests_per_sample(found, SELECTIVE),
        }
        return {name: moments(cost[at]) for name, cost in costs.items()}  # fmt: skip

    each = [measured(found, np.s_[:, 0]) for found in by_arms]
    of_K = {
        name: tuple(np.concatenate([one[name][j] for one in each]) for j in (0, 1))
        for name in each[0]
    }

    def laws(K, eps, logs):
        one = np.ones(np.broadcast_shapes(np.shape(K), np.shape(eps), np.shape(logs)))
        return {
            "2 + K² eps²": 2 + K**2 * eps**2 * one,
            "1 + K eps² + K/log(1/delta)": 1 + (K * eps**2 + K / logs) * one,
        }

    word, log = "half-space tests per sample", np.log(1 / config.at_delta)
    return [
        Panel(
            f"eps = {config.at_eps:g}, delta = {config.at_delta:g}",
            "K (arms)",
            word,
            K,
            of_K,
            laws(K, config.at_eps, log),
        ),
        Panel(
            f"K = {config.at_arms}, delta = {config.at_delta:g}",
            "eps",
            word,
            eps,
            measured(by_eps, np.s_[:, 0]),
            laws(config.at_arms, eps, log),
        ),
        Panel(
            f"K = {config.at_arms}, eps = {config.at_eps:g}",
            "log(1/delta)",
            word,
            logs,
            measured(by_delta, 0),
            laws(config.at_arms, config.at_eps, logs),
        ),
    ]


def panels_of_bounds(
    config: TwoDimensional, result: Observed, curves: dict[str, np.ndarray]
) -> list[Panel]:
    """Panels of simulated times between their bounds."""
    eps = np.array(config.eps)
    return [
        Panel(
            f"LLR stopping, K = {config.arms}, delta = {config.at_delta:g}",
            "eps",
            "tau (samples)",
            eps,
            {"simulated": moments(stopping_times(result, 0)[:, 0])},
            {"theorem, t-bar + 2": curves["llr"], "lower bound": curves["lower"]},
        ),
        Panel(
            "arms 3.., selective elimination",
            "eps",
            "elimination time (samples)",
            eps,
            {"simulated, worst arm": worst_arm(result, SELECTIVE)},
            {"theorem, min(t-bar_p, t-bar) + 2": curves["selective"]},
        ),
        Panel(
            "arms 3.., full elimination",
            "eps",
            "elimination time (samples)",
            eps,
            {"simulated, worst arm": worst_arm(result, FULL)},
            {"theorem, min(t-bar_p, t-bar) + 2": curves["full"]},
        ),
    ]


def main(config: TwoDimensional) -> None:
    began = time.perf_counter()
    paths = [config.output, config.output.with_name(f"{config.output.name}-bounds")]
    files = []
    if cells.parse_shard(config.shard) == (1, 1):  # shards draw nothing
        files = [one.with_name(f"{one.name}.{end}") for one in paths for end in config.endings]
    batch, one_eps, one_delta = (
        two_dimensional(config.arms, config.eps),
        [config.at_eps],
        [config.at_delta],
    )

    def example(K: int, eps: Sequence[float], delta: Sequence[float]) -> tuple[str, je.Experiment]:
        return cell(config, "example", two_dimensional(K, eps), eps, delta)

    asked = {
        "by eps": example(config.arms, config.eps, one_delta),
        "by delta": example(config.arms, one_eps, config.delta),
        "twins": cell(config, "twin", twin(batch), config.eps, one_delta),
        **{f"K = {K}": example(K, one_eps, one_delta) for K in config.test_arms},
        "tests by eps": example(config.at_arms, config.test_eps, one_delta),
        "tests by delta": example(config.at_arms, one_eps, config.delta),
    }
    shared = {
        field.name: getattr(config, field.name) for field in dataclasses.fields(cells.Options)
    }
    options = cells.Options(**{**shared, "output": config.results})
    held = cells.studied(options, files, dict(asked.values()))
    if held is None:
        return
    found = {key: Observed.of(held, name) for key, (name, _) in asked.items()}
    by_eps, by_delta, twins = found["by eps"], found["by delta"], found["twins"]
    by_arms = [found[f"K = {K}"] for K in config.test_arms]
    costs_by_eps, costs_by_delta = found["tests by eps"], found["tests by delta"]
    curves = bounds_of(config, batch)
    print(
        f"Oracle, K = {config.arms}, delta = {config.at_delta:g}, {config.runs} runs, "
        "mean ± s.e.: llr is tau under LLR stopping, selective and full are when the worst\n"
        "of arms 3.. falls; bounds of the theorem on elimination times, R the oracle's own; "
        "'over' is bound over mean"
    )
    print("\n".join(aligned(bounds_rows(config, by_eps, curves))))
    times = panels_of_times(config, by_eps, by_delta, twins)
    for panel in times:
        slopes = (
            {name: slope(panel.x, mean) for name, (mean, _) in panel.measured.items()}
            if len(panel.x) > 1
            else {}
        )
        print(
            f"{panel.title}; slopes in {panel.xlabel}: "
            + ", ".join(f"{name} {s:+.2f}" for name, s in slopes.items())
        )
    for name, one in (("the example", by_eps), ("its unstructured twin", twins)):
        share = (
            moments(falls(one, FULL)[:, 0].mean(-1))[0] / moments(stopping_times(one, 0)[:, 0])[0]
        )
        print(
            f"{name}: arms 3.. fall at {share.min():.1e} to {share.max():.1e} of tau, "
            "full elimination"
        )
    tests = panels_of_tests(config, by_arms, costs_by_eps, costs_by_delta)
    for panel in tests:
        columns = {name: pair[0] for name, pair in panel.measured.items()} | dict(panel.references)
        print(f"half-space tests per sample, {panel.title}:")
        print(
            "\n".join(
                aligned(
                    [
                        {panel.xlabel: f"{x:.3g}"}
                        | {name: float(column[i]) for name, column in columns.items()}
                        for i, x in enumerate(panel.x)
                    ]
                )
            )
        )
    written = []
    drawn = [*times, *tests], panels_of_bounds(config, by_eps, curves)
    for path, panels in zip(paths, drawn, strict=True):
        written += figures.save(scaling_figure(panels), path, config.dpi, config.endings)
    cut = sum(
        int((~one.stopped).sum())
        for one in (by_eps, by_delta, twins, *by_arms, costs_by_eps, costs_by_delta)
    )
    told = f" and in no mean: {BIASED}" if cut else ""
    print(f"{', '.join(map(str, written))}; {cut} observations cut off{told}; "
          f"{time.perf_counter() - began:.0f} s in all")  # fmt: skip


if __name__ == "__main__":
    sys.exit(cells.script(TwoDimensional, main))
