"""Which of four variants converts best: a live run, and what it saves.

    python examples/ab_test.py                  one live run over a stream of visitors
    python examples/ab_test.py --table FILE     10,000 simulated tests, as a table

Every visitor gets a variant at once. Whether he converts is known after a window of
visitors. The outcome is told then, and never sooner, whatever it is: a conversion that
is told before the window ends would enter earlier than a non-conversion, and the error
probability would no longer be delta.

The fixed-horizon test beside it shows each variant to n visitors. It names a winner if
one variant beats every other by a one-sided z-test at level delta/(K - 1), so that it
names a wrong one with probability at most delta. Its n is planned for a power of
1 - delta at a smallest gap, which somebody has to guess.
"""

import argparse
import dataclasses
import math
from collections import deque
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import norm

import jaxelim as je

RATES = {"plain": 0.24, "bold": 0.30, "short": 0.20, "video": 0.15}
"""The conversion rates, which no test reads."""
DELTA = 0.05
WINDOW = 200
"""Visitors until the outcome of one is known."""


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class InTurn(je.contracts.SamplingRule):
    """Show the variants that are left in turn: the least shown of them."""

    traits = je.contracts.Traits(problems=("best-arm",), families=None, reads=("rewards", "pieces"))

    def choose(self, view, state):
        left = view.active | view.public
        return jnp.argmin(jnp.where(left, view.counts, jnp.inf)), state


def begin() -> je.LiveRun:
    """The test: drop a variant once it is refuted, stop when one is left."""
    return je.LiveRun(
        list(RATES), je.BestArm(), je.Uniform(), family=je.Bernoulli(), delta=DELTA,
        stopping=je.SelectiveElimination(), threshold=je.Mixture(),
    )  # fmt: skip


def serve(run: je.LiveRun, rng: np.random.Generator, window: int = WINDOW) -> int:
    """Serve visitors until the run stops; returns their number.

    Each gets the next of the active variants. The rewards enter when the window ends,
    so the variants that visitors got meanwhile were asked for by nobody but us.
    """
    waiting: deque[tuple[str, int]] = deque()
    visitors = 0
    while not run.stopped:
        active = [name for name, on in zip(run.names, run.active, strict=True) if on]
        variant = active[visitors % len(active)]
        converts = int(rng.random() < RATES[variant])
        waiting.append((variant, converts))
        visitors += 1
        if len(waiting) > window:
            run.tell(*waiting.popleft())
    for variant, converts in waiting:  # recorded; the answer stays
        run.tell(variant, converts)
    return visitors


def planned(gap: float, rates: np.ndarray) -> int:
    """Visitors a variant for a power of 1 - delta where the best leads by `gap`."""
    best = rates.max()
    z = norm.isf(DELTA / (rates.size - 1))
    variance = best * (1 - best) + (best - gap) * (1 - best + gap)
    return math.ceil((2 * z) ** 2 * variance / gap**2)


def fixed(n: int, rates: np.ndarray, runs: int, rng: np.random.Generator) -> np.ndarray:
    """The winners of fixed-horizon tests, [runs]; -1 for none."""
    means = rng.binomial(n, rates, (runs, rates.size)) / n
    best = means.argmax(1)
    lead = np.take_along_axis(means, best[:, None], 1) - means
    variance = means * (1 - means)
    spread = np.sqrt((np.take_along_axis(variance, best[:, None], 1) + variance) / n)
    beaten = lead > norm.isf(DELTA / (rates.size - 1)) * spread
    np.put_along_axis(beaten, best[:, None], True, 1)
    return np.where(beaten.all(1), best, -1)


def table(runs: int) -> str:
    """The rows: visitors, errors and losses of each test, `runs` simulated."""
    rates = np.array(list(RATES.values()))
    gap, right = np.sort(rates)[-1] - np.sort(rates)[-2], int(rates.argmax())
    rows = []
    rng = np.random.default_rng(0)
    for share, words in ((1.0, "the true gap"), (0.5, "half the true gap")):
        n = planned(share * gap, rates)
        winner = fixed(n, rates, runs, rng)
        lost = n * np.sum(rates.max() - rates)
        wrong = int(((winner >= 0) & (winner != right)).sum())
        rows.append((f"fixed horizon, n for {words}", rates.size * n, rates.size * n, lost, wrong,
                     int((winner < 0).sum())))  # fmt: skip
    instance = je.Instance.unstructured(rates, je.Bernoulli(), name="variants")
    koolen, drop = je.thresholds.KaufmannKoolen(), je.SelectiveElimination()
    plain = je.Heuristic()
    for words, rule, (stopping, elimination), threshold in (
        ("live, the active variants in turn", InTurn(), (drop, drop), je.Mixture()),
        ("live, TTUCB on the active variants", je.TTUCB(), (drop, drop), je.Mixture()),
        ("in turn, Kaufmann & Koolen's threshold", InTurn(), (drop, drop), koolen),
        ("TTUCB, Kaufmann & Koolen's threshold", je.TTUCB(), (drop, drop), koolen),
        ("in turn, heuristic threshold without proof", InTurn(), (drop, drop), plain),
        ("TTUCB, heuristic threshold without proof", je.TTUCB(), (drop, drop), plain),
    ):
        result = je.simulate(
            instance, je.BestArm(), rule, delta=DELTA, stopping=stopping, elimination=elimination,
            threshold=threshold, runs=runs, seed=1,
        )  # fmt: skip
        assert result.stopped.all()
        samples, pulls = result.samples[0, 0], result.pulls[0, 0]
        lost = float((pulls @ (rates.max() - rates)).mean())
        rows.append((words, samples.mean(), np.quantile(samples, 0.95), lost,
                     int((~result.correct).sum()), 0))  # fmt: skip
    head = ("test", "mean visitors", "95% quantile", "conversions lost", "wrong", "no winner")
    lines = [head, ["---"] * len(head)]
    lines += [(row[0], *(f"{x:,.0f}" for x in row[1:])) for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main(arguments: list[str] | None = None) -> None:
    """Run the example."""
    parser = argparse.ArgumentParser(description="An A/B test of four variants as a live run.")
    parser.add_argument("--table", type=Path, help="write the table of simulated tests here")
    parser.add_argument("--runs", type=int, default=10_000, help="simulated tests of each row")
    parser.add_argument("--seed", type=int, default=0, help="of the stream of visitors")
    given = parser.parse_args(arguments)
    if given.table is None:
        run = begin()
        visitors = serve(run, np.random.default_rng(given.seed))
        print(run.summary())
        print(f"{visitors} visitors came, {visitors - run.samples} of them before the end was seen")
        return
    rates = ", ".join(f"{name} {rate:g}" for name, rate in RATES.items())
    given.table.write_text(
        "# An A/B test of four variants\n\n"
        f"Written by `python examples/ab_test.py --table {given.table}`.\n"
        f"Conversion rates: {rates}. delta = {DELTA};\n"
        f"{given.runs:,} simulated tests a row. A lost conversion is one that the best variant\n"
        "would have had. See [live runs](../how-to/live-runs.md).\n\n"
        f"{table(given.runs)}\n"
    )
    print(given.table.read_text())


if __name__ == "__main__":
    main()
