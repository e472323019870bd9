"""The paper's example in two dimensions (section "An example" and its appendix): `python -m experiments.two_dimensional`.

An oracle that tracks w* runs on instances where arm 2 is eps-close to the best and arms 3 .. K are bad. Printed and drawn:

- when arms 3 .. K fall, simulated and bounded by the theorem on elimination times, against eps and delta;
- half-spaces tested per sample against K, eps and delta, beside the paper's laws;
- the unstructured twin (the same means, arms e_1 .. e_K), where nothing falls early.

Two figures, each PNG and PDF: OUTPUT (times and tests) and OUTPUT-bounds.
"""

import dataclasses
import time
from pathlib import Path

import numpy as np
import tyro

import jaxelim as je
from jaxelim import checks, cli, figures
from jaxelim.figures import Panel
from jaxelim.instances import two_dimensional
from jaxelim.result import aligned

STOPPING = (je.LLR(), je.SelectiveElimination(), je.FullElimination())
SELECTIVE, FULL = 1, 2


@dataclasses.dataclass(frozen=True)
class TwoDimensional:
    """The oracle on the paper's two-dimensional example, its bounds, its costs, and the unstructured twin."""

    runs: int = 40
    """Runs per instance."""
    seed: int = 0
    """Seed of the noise."""
    arms: int = 5
    """K of the figures on times."""
    eps: tuple[float, ...] = (0.3, 0.2, 0.1, 0.05, 0.03, 0.02, 0.01)
    """Distances of arm 2, for the figures on times."""
    delta: tuple[float, ...] = (1e-1, 1e-2, 1e-3, 1e-5, 1e-7, 1e-9)
    """Error probabilities; all are read off one trajectory."""
    test_arms: tuple[int, ...] = (5, 10, 20, 50, 100)
    """The K of the figures on tests."""
    test_eps: tuple[float, ...] = (0.3, 0.2, 0.1, 0.05, 0.03)
    """The eps of the figure on tests against eps."""
    at_arms: int = 50
    """K where tests are drawn against eps and delta."""
    at_eps: float = 0.1
    """eps where the others vary; one of eps and of test_eps."""
    at_delta: float = 0.01
    """delta where the others vary; one of delta."""
    max_samples: int = 10_000_000
    """A run that has drawn so many is cut off, and left out of every mean."""
    output: Path = Path("results/two_dimensional")
    """Where the figures go, without ending."""

    def __post_init__(self):
        for name, value, known in (("at_eps", self.at_eps, self.eps), ("at_eps", self.at_eps, self.test_eps),
                                   ("at_delta", self.at_delta, self.delta)):  # fmt: skip
            if value not in known:
                raise je.ArgumentError(name, value, f"one of {known}")
        checks.integer("runs", self.runs, low=2)


def simulate(config: TwoDimensional, instance: je.Instance, delta) -> je.Result:
    """The oracle on a batch, no ridge: the theorem is about the plain likelihood ratio."""
    return je.simulate(
        instance, je.BestArm(), je.Oracle(), stopping=STOPPING, delta=delta, runs=config.runs, seed=config.seed,
        max_samples=config.max_samples, ridge=0,
    )  # fmt: skip


def twin(batch: je.Instance) -> je.Instance:
    """The unstructured instances with the same means."""
    return je.Instance(np.broadcast_to(np.eye(batch.K), (batch.size, batch.K, batch.K)), batch.means)


def moments(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard error over the last axis, NaN left out."""
    n = np.isfinite(values).sum(-1)
    mean = np.nanmean(values, -1)
    return mean, np.sqrt(np.nansum((values - mean[..., None]) ** 2, -1) / np.maximum(n - 1, 1) / n)


def stopping_times(result: je.Result, stopping: int) -> np.ndarray:
    """tau [instance, delta, run], NaN for runs cut off."""
    return np.where(result.stopped, result.samples, np.nan)[:, stopping]


def falls(result: je.Result, stopping: int) -> np.ndarray:
    """When the far arms (3 ..) fell, [instance, delta, run, K - 2], NaN for runs cut off."""
    times = result.elimination_times[:, stopping, :, :, 2:].astype(float)
    return np.where(result.stopped[:, stopping, :, :, None] & (times > 0), times, np.nan)


def tests_per_sample(result: je.Result, stopping: int) -> np.ndarray:
    """Half-spaces tested per sample [instance, delta, run], NaN for runs cut off."""
    return result.tests_stopping[:, stopping] / stopping_times(result, stopping)


def nested_tests_per_sample(result: je.Result) -> np.ndarray:
    """Full elimination as the paper's appendix counts it, both loops over the active arms: sum_t A_t (A_t - 1)/tau.

    The library also tests an active arm against the arms that were dropped, hence A_t (K - 1).
    """
    tau = stopping_times(result, FULL)
    times = result.elimination_times[:, FULL].astype(float)
    K = times.shape[-1]
    until = np.sort(np.where(times > 0, times, tau[..., None]), -1)  # check t is made with the arms that fell at t or later
    # From check K on; between two falls A_t is constant.
    length = np.diff(np.concatenate([np.full((*tau.shape, 1), K - 1.0), until], -1), axis=-1)
    active = K - np.arange(K)
    return (length * active * (active - 1)).sum(-1) / tau


def never(t, delta):
    """A threshold that no run reaches, for when only the pulls are wanted."""
    return 1e9 + 0 * t


def regret_of_the_oracle(instance: je.Instance, length: int = 2000):
    """R(t) of the oracle's own pulls, which no reward sways; they settle into turns long before `length`."""
    trace = je.trace(instance, je.BestArm(), je.Oracle(), ridge=0, max_samples=length, threshold=never)
    return je.information_regret(trace, instance, je.BestArm(), times=np.arange(1, length + 1))


def slope(x, y) -> float:
    """The least-squares slope of log y in log x."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def bounds_table(config: TwoDimensional, batch: je.Instance, result: je.Result, place: int):
    """Means, bounds and their ratios by eps; the worst of the far arms stands for all."""
    rows, curves = [], {name: [] for name in ("llr", "selective", "full", "lower", "regret")}
    for i, eps in enumerate(config.eps):
        R = regret_of_the_oracle(batch[i])
        found = je.elimination_bounds(batch[i], je.BestArm(), config.at_delta, regret=R)
        for name, bound in (("llr", found.llr), ("selective", found.selective[1:].max()), ("full", found.full[1:].max()),
                            ("lower", je.sample_bound(config.at_delta, found.value)), ("regret", R(10**9) / found.value)):
            curves[name].append(float(bound))
        row = {"eps": eps, "H*": f"{found.value:.4g}", "R/H*": f"{curves['regret'][-1]:.3g}",
               "lower bound": f"{curves['lower'][-1]:.0f}"}  # fmt: skip
        measured = {"llr": moments(stopping_times(result, 0)[i, place])}
        for name, s in (("selective", SELECTIVE), ("full", FULL)):
            mean, error = moments(np.moveaxis(falls(result, s)[i, place], 0, -1))
            measured[name] = mean.max(), error[mean.argmax()]
        for name, label in (("llr", "tau, LLR"), ("selective", "selective"), ("full", "full")):
            row |= {label: f"{measured[name][0]:.1f} ± {measured[name][1]:.1g}", f"bound {name}": f"{curves[name][-1]:.0f}",
                    f"ratio {name}": f"{curves[name][-1] / measured[name][0]:.2f}"}  # fmt: skip
        row["cut off"] = int((~result.stopped[i, :, place]).any(0).sum())
        rows.append(row)
    return rows, {name: np.array(values) for name, values in curves.items()}


def panels_of_times(config: TwoDimensional, result: je.Result, twins: je.Result) -> list[Panel]:
    """Times against eps and delta, and the twin's."""
    place, row = config.delta.index(config.at_delta), config.eps.index(config.at_eps)
    eps, logs = np.array(config.eps), np.log(1 / np.array(config.delta))

    def far(found, stopping):
        return moments(falls(found, stopping).mean(-1))

    def against(index, found):
        return {"tau, LLR stopping": tuple(x[index] for x in moments(stopping_times(found, 0))),
                "arms 3.., selective": tuple(x[index] for x in far(found, SELECTIVE)),
                "arms 3.., full": tuple(x[index] for x in far(found, FULL))}  # fmt: skip

    by_eps, by_delta = against(np.s_[:, place], result), against(np.s_[row], result)
    of_twins = against(np.s_[:, place], twins)
    anchor = {name: values[0][0] for name, values in by_eps.items()}
    tau, sharp = anchor["tau, LLR stopping"], by_delta["arms 3.., full"][0]
    at = f"K = {config.arms}, delta = {config.at_delta:g}"
    return [
        Panel(f"{at}: far arms fall early", "eps", "time (samples)", eps, by_eps,
              {"slope -2 (stopping)": tau * (eps / eps[0]) ** -2.0,
               "slope 0 (full elimination)": np.full(eps.shape, anchor["arms 3.., full"])}),
        Panel(f"K = {config.arms}, eps = {config.at_eps:g}: against delta", "log(1/delta)", "time (samples)", logs, by_delta,
              {"slope 1": sharp[-1] * logs / logs[-1]}),
        Panel(f"unstructured twin, {at}: nothing falls early", "eps", "time (samples)", eps, of_twins,
              {"slope -2": of_twins["tau, LLR stopping"][0][0] * (eps / eps[0]) ** -2.0}),
    ]  # fmt: skip


def panels_of_tests(config: TwoDimensional, by_arms: list[je.Result], result: je.Result) -> list[Panel]:
    """Half-space tests per sample against K, eps and delta; laws as the paper states them, plus those of the last pair."""
    place, row = config.delta.index(config.at_delta), config.test_eps.index(config.at_eps)
    K, eps, logs = np.array(config.test_arms), np.array(config.test_eps), np.log(1 / np.array(config.delta))

    def measured(found, index):
        return {"LLR": tuple(x[index] for x in moments(tests_per_sample(found, 0))),
                "full": tuple(x[index] for x in moments(tests_per_sample(found, FULL))),
                "full, nested loops": tuple(x[index] for x in moments(nested_tests_per_sample(found))),
                "selective": tuple(x[index] for x in moments(tests_per_sample(found, SELECTIVE)))}  # fmt: skip

    each = [measured(found, np.s_[0, 0]) for found in by_arms]
    of_K = {name: tuple(np.array([one[name][j] for one in each]) for j in (0, 1)) for name in each[0]}

    def laws(K, eps, logs):
        one = np.ones(np.broadcast_shapes(np.shape(K), np.shape(eps), np.shape(logs)))
        return {"2 + K² eps²": 2 + K**2 * eps**2 * one, "1 + K eps² + K/log(1/delta)": 1 + (K * eps**2 + K / logs) * one}

    word, log = "half-space tests per sample", np.log(1 / config.at_delta)
    return [
        Panel(f"eps = {config.at_eps:g}, delta = {config.at_delta:g}", "K (arms)", word, K, of_K,
              laws(K, config.at_eps, log)),
        Panel(f"K = {config.at_arms}, delta = {config.at_delta:g}", "eps", word, eps, measured(result, np.s_[:, place]),
              laws(config.at_arms, eps, log)),
        Panel(f"K = {config.at_arms}, eps = {config.at_eps:g}", "log(1/delta)", word, logs, measured(result, np.s_[row]),
              laws(config.at_arms, config.at_eps, logs)),
    ]  # fmt: skip


def panels_of_bounds(config: TwoDimensional, result: je.Result, curves: dict) -> list[Panel]:
    """Simulated times between their bounds."""
    place, eps = config.delta.index(config.at_delta), np.array(config.eps)
    worst = {}
    for name, s in (("selective", SELECTIVE), ("full", FULL)):
        mean, error = moments(np.moveaxis(falls(result, s)[:, place], 1, -1))
        best = mean.argmax(-1)[:, None]
        worst[name] = tuple(np.take_along_axis(x, best, 1)[:, 0] for x in (mean, error))
    at = f"K = {config.arms}, delta = {config.at_delta:g}"
    llr = tuple(x[:, place] for x in moments(stopping_times(result, 0)))
    return [
        Panel(f"LLR stopping, {at}", "eps", "tau (samples)", eps, {"simulated": llr},
              {"theorem, t-bar + 2": curves["llr"], "lower bound": curves["lower"]}),
        Panel("arms 3.., selective elimination", "eps", "elimination time (samples)", eps,
              {"simulated, worst arm": worst["selective"]}, {"theorem, min(t-bar_p, t-bar) + 2": curves["selective"]}),
        Panel("arms 3.., full elimination", "eps", "elimination time (samples)", eps,
              {"simulated, worst arm": worst["full"]}, {"theorem, min(t-bar_p, t-bar) + 2": curves["full"]}),
    ]  # fmt: skip


def main(config: TwoDimensional) -> None:
    began = time.perf_counter()
    delta, place = list(config.delta), config.delta.index(config.at_delta)
    batch = two_dimensional(config.arms, config.eps)
    result = simulate(config, batch, delta)
    rows, curves = bounds_table(config, batch, result, place)
    print(f"Oracle, K = {config.arms}, delta = {config.at_delta:g}, {config.runs} runs,\n"
          "mean ± s.e.: tau under LLR stopping, and when the worst of arms 3.. falls;\n"
          "bounds of the theorem on elimination times, R the oracle's own")
    print("\n".join(aligned(rows)))
    twins = simulate(config, twin(batch), delta)
    times = panels_of_times(config, result, twins)
    for panel in times:
        print(f"{panel.title}: slopes in {panel.xlabel}: " + ", ".join(
            f"{name} {slope(panel.x, mean):+.2f}" for name, (mean, _) in panel.measured.items()))  # fmt: skip
    for name, found in (("the example", result), ("its unstructured twin", twins)):
        share = moments(falls(found, FULL)[:, place].mean(-1))[0] / moments(stopping_times(found, 0))[0][:, place]
        print(f"{name}: arms 3.. fall at {share.min():.1e} to {share.max():.1e} of tau, full elimination")
    by_arms = [simulate(config, two_dimensional(K, [config.at_eps]), config.at_delta) for K in config.test_arms]
    many = simulate(config, two_dimensional(config.at_arms, config.test_eps), delta)
    tests = panels_of_tests(config, by_arms, many)
    print("\n".join(aligned([
        {"K": K, **{name: f"{mean[i]:.2f}" for name, (mean, _) in tests[0].measured.items()},
         **{name: f"{law[i]:.2f}" for name, law in tests[0].references.items()}} for i, K in enumerate(config.test_arms)
    ])))  # fmt: skip
    config.output.parent.mkdir(parents=True, exist_ok=True)
    written = [*figures.save(figures.scaling_figure([*times, *tests]), config.output),
               *figures.save(figures.scaling_figure(panels_of_bounds(config, result, curves)),
                             config.output.with_name(config.output.name + "-bounds"))]  # fmt: skip
    cut = sum(int((~one.stopped).sum()) for one in (result, twins, many, *by_arms))
    print(f"{', '.join(map(str, written))}; {cut} observations cut off; {time.perf_counter() - began:.0f} s in all")


if __name__ == "__main__":
    cli.use_all_cores()
    main(tyro.cli(TwoDimensional, description=TwoDimensional.__doc__))
