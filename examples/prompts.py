"""The best of 20 prompts by a judge's scores, or none of them: how many calls a proof takes.

    python examples/prompts.py                  one selection
    python examples/prompts.py --table FILE     1000 selections a row, as a table

A judge gives each answer of a prompt a score in [0, 1]. The prompt in use, the incumbent,
has a score on each of 2000 items. A challenger costs a call an item. Is one of 19
challengers better on these items, and which is best?

Each challenger is asked about items drawn at random, with replacement: so the proof covers
them. 32 calls are made at a time. Scores come from a matrix made here: items differ in difficulty,
so that the scores of two prompts on one item are correlated.

- *Scores*: rewards are the scores. The reference is the incumbent's mean, which is known.
- *Paired*: rewards are differences to the incumbent on the same item, within [-1, 1]. The
  reference is 0. It pays where differences vary much less than scores: the interval is
  twice as wide. So it is with a judge of little luck, whose scores follow the items.
- *Costs*: half of the prompts run on a model of three times the price. A rule that knows
  it spends less.
- *One order for all*: every prompt sees the items in the same order. Rewards of two arms
  are then dependent, and no proof covers the test. Where one prompt is right where the
  other is wrong, wrong answers are many times as frequent.
"""

import argparse
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np

import jaxelim as je

PROMPTS, ITEMS, BATCH, DELTA = 20, 2000, 32, 0.05
INCUMBENT = 5
COSTS = np.where(np.arange(PROMPTS) % 2 == 0, 1.0, 3.0)
"""Of a call, in cents: prompts with an even number run on a small model."""


def matrix(luck: float = 0.7, seed: int = 7) -> np.ndarray:
    """Scores of every prompt on every item, in steps of 0.1: [PROMPTS, ITEMS].

    Args:
        luck: how much a prompt's scores vary beside the items' difficulty, 1.5, and its own
            quality, 0.45.
        seed: of the scores.
    """
    rng = np.random.default_rng(seed)
    quality = np.sort(rng.normal(0, 0.45, PROMPTS))[::-1]
    quality[0] += 0.35
    difficulty, own = rng.normal(0, 1.5, ITEMS), rng.normal(0, luck, (PROMPTS, ITEMS))
    return np.round(1 / (1 + np.exp(difficulty - quality[:, None] - own - 1)), 1)


class Selection(NamedTuple):
    """What is simulated: the challengers, what their rewards are, and when one is better."""

    instance: je.Instance
    problem: je.BestArm


def challengers(rewards: np.ndarray, low: float, reference: float, costs: bool) -> Selection:
    """A selection from recorded rewards [PROMPTS, ITEMS] of all prompts but the incumbent.

    With `costs` the rule knows what calls cost.
    """
    others = np.delete(np.arange(PROMPTS), INCUMBENT)
    past = je.Recorded({f"prompt {k}": rewards[k] for k in others}, "bootstrap")
    prices = np.delete(COSTS, INCUMBENT) if costs else None
    instance = je.Instance.unstructured(
        source=past, family=je.Bounded(low, 1.0), name="prompts", costs=prices
    )
    return Selection(instance, je.BestArm(reference=reference))


def by_scores(scores: np.ndarray, costs: bool = False) -> Selection:
    """Rewards are scores; the incumbent's mean is known."""
    return challengers(scores, 0.0, float(scores[INCUMBENT].mean()), costs)


def paired(scores: np.ndarray, costs: bool = False) -> Selection:
    """Rewards are differences to the incumbent on the same item."""
    return challengers(scores - scores[INCUMBENT], -1.0, 0.0, costs)


def select(selection: Selection, rule: je.contracts.SamplingRule, runs: int) -> je.Result:
    """Runs of one rule on a selection: 32 calls at a time, until the answer is proven."""
    drop = je.SelectiveElimination()
    return je.simulate(
        selection.instance, selection.problem, rule, delta=DELTA, runs=runs, stopping=drop,
        elimination=drop if rule.traits.elimination else None, threshold=je.Mixture(),
        batch=BATCH,
    )  # fmt: skip


class Row(NamedTuple):
    """A row of the table: what rewards are, the rule, the judge, and who knows the costs."""

    name: str
    made: Callable[..., Selection]
    called: str
    rule: je.contracts.SamplingRule
    luck: float = 0.7
    costs: bool = False


UNIFORM = "Uniform", je.Uniform()
LEADERS = "EBTCI(share=0.3)", je.EBTCI(share=0.3)
GAME = "LinGame", je.LinGame()
ROWS = (
    Row("scores", by_scores, *UNIFORM),
    Row("scores", by_scores, *LEADERS),
    Row("differences", paired, *UNIFORM),
    Row("differences", paired, *LEADERS),
    Row("scores, steady judge", by_scores, *LEADERS, luck=0.2),
    Row("differences, steady judge", paired, *LEADERS, luck=0.2),
    Row("scores", by_scores, *GAME),
    Row("scores, costs known", by_scores, *GAME, costs=True),
)


def table(runs: int) -> Iterator[str]:
    """The lines of a table: a row for each way to select, with `runs` selections."""
    everything = (PROMPTS - 1) * ITEMS
    prices = np.delete(COSTS, INCUMBENT)
    yield "| rewards | rule | calls | saved | cents | wrong | cut off |"
    yield "|---|" + "---:|" * 6
    yield f"| all scores | every item | {everything:,} | | {ITEMS * prices.sum():,.0f} | 0 | |"
    for row in ROWS:
        result = select(row.made(matrix(row.luck), row.costs), row.rule, runs)
        calls, ended = result.samples[0, 0], result.stopped[0, 0]
        cents = (result.pulls[0, 0] * prices).sum(-1)
        wrong = int((ended & ~result.correct[0, 0]).sum())
        yield (
            f"| {row.name} | {row.called} | {calls.mean():,.0f} ± {calls.std():,.0f} "
            f"| {1 - calls.mean() / everything:.0%} | {cents.mean():,.0f} "
            f"| {wrong} of {runs} | {int((~ended).sum())} |"
        )


ORDERS = ("independent", "the same, opposite answers")
"""How two prompts are shown items, and how their answers to one item are related."""


def nearly_equal(order: str, rng: np.random.Generator) -> np.ndarray:
    """Right or wrong answers of two prompts, of which the second has one more right."""
    first = rng.permutation(np.arange(ITEMS) % 2).astype(float)
    second = rng.permutation(first) if order == "independent" else 1 - first
    second[rng.choice(np.flatnonzero(second == 0))] = 1
    return np.stack([first, second])


def dependent(runs: int) -> Iterator[str]:
    """Errors at delta = 0.1 where two prompts are nearly equal, by the order of the items."""
    yield "| order of items | wrong | ended |"
    yield "|---|---:|---:|"
    for order in ORDERS:
        rng = np.random.default_rng(3)
        wrong = ended = 0
        for _ in range(runs):
            past = je.Recorded(nearly_equal(order, rng), "given")
            instance = je.Instance.unstructured(source=past, family=je.Bounded(0, 1))
            run = je.simulate(instance, je.BestArm(), je.Uniform(), delta=0.1, runs=1,
                              threshold=je.Mixture())  # fmt: skip
            ended += int(run.stopped.sum())
            wrong += int((run.stopped & ~run.correct).sum())
        yield f"| {order} | {wrong} of {runs} | {ended} |"


def main() -> None:
    """One selection, or a table of many."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--table", type=Path, help="write a table to this file")
    parser.add_argument("--runs", type=int, default=1000, help="selections a row")
    options = parser.parse_args()
    if options.table:
        with options.table.open("w") as file:
            for line in chain(table(options.runs), [""], dependent(options.runs)):
                print(line, flush=True)
                print(line, file=file, flush=True)
    else:
        print(select(paired(matrix()), je.EBTCI(share=0.3), runs=1).summary())


if __name__ == "__main__":
    main()
