"""The library beside the NumPy twin: place x problem x rule x elimination x waits x costs.

A row is one program: a batch of instances times two rows of noise, which the twin plays run by
run. All results must be equal, not close, since one different choice changes them all. Where
rounding alone decides between choices, a run is compared pull by pull up to there. A new rule
or problem needs a name here, and a new family a place.
"""

import dataclasses
import functools
import zlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxelim as je
from jaxelim import scope
from jaxelim.families import draws
from jaxelim.testing.rules import run_by_run
from tests import twin
from tests.calls import RUNS, equal, rows
from tests.places import ARMS, PLACES, PROBLEMS, place

TOP_TWO = {
    "ttts": je.TTTS(), "t3c": je.T3C(), "ebtc": je.EBTC(), "ebtci": je.EBTCI(),
    "tstci": je.TSTCI(), "ebtc, 0.3": je.EBTC(0.3, "tracking"),
    "ebtci, ids": je.EBTCI("ids", "tracking"), "ttucb, ids": je.TTUCB("ids"),
    "eb, rs": je.TopTwo("eb", "rs"), "ucb, tci": je.TopTwo("ucb", "tci", 0.7, "tracking"),
}  # fmt: skip
RULES = {
    "uniform": (je.Uniform(), "uniform", {}),
    "lucb": (je.LUCB(), "lucb", {}),
    "lucb-2": (je.LUCB(pulls=2), "lucb", {"pulls": 2}),
    "ugape": (je.UGapE(), "ugape", {}),
    "racing": (je.Racing(), "racing", {}),
    "lingame": (je.LinGame(), "lingame", {}),
    "fws": (je.FWS(), "fws", {}),
    "lazy-tas": (je.LazyTaS(), "lazy_tas", {}),
    "oracle": (je.Oracle(), "oracle", {}),
    "tas": (je.TrackAndStop(gap_share=1e-10), "tas", {}),
    "tas, C": (je.TrackAndStop("C", gap_share=1e-10, schedule=3), "tas",
               {"tracking": "C", "every": 3}),
    "lingape": (je.LinGapE(), "lingape", {}),
    "optimistic lingame": (je.OptimisticLinGame(), "lingame", {"optimistic": True}),
    "optimistic tas": (je.OptimisticTaS(gap_share=1e-10), "optimistic_tas", {}),
    "lingifa": (je.LinGIFA(), "lingifa", {}),
    "rage": (je.RAGE(), "rage", {}),
    "xy-adaptive": (je.XYAdaptive(), "xy_adaptive", {}),
    **{name: (rule, "top_two", {}) for name, rule in TOP_TWO.items()},
}  # fmt: skip


def log_inverse(t, delta):
    """A threshold so low that one early test may eliminate everything."""
    return jnp.zeros_like(t) - jnp.log(delta)


def never(t, delta):
    return 1e9 + 0 * (t + delta)


BETAS = {
    "heuristic": (je.Heuristic(), twin.heuristic),
    "gk16": (je.GK16(), twin.gk16),
    "never": (never, never),
    "log(1/delta)": (log_inverse, lambda t, delta: -np.log(delta)),
}
ELIMINATION = {
    "selective": (je.SelectiveElimination(), "selective"),
    "full": (je.FullElimination(), "full"),
}
ELIMINATION |= {
    f"{name}, resets": (je.Resets(ours, alpha=je.Heuristic(), t0=2.0),
                        twin.Resets(theirs, alpha=twin.heuristic, t0=2.0))
    for name, (ours, theirs) in ELIMINATION.items()
}  # fmt: skip
STOPPING = {"llr": je.LLR(), "selective": je.SelectiveElimination(), "full": je.FullElimination(),
            "native": je.Native()}  # fmt: skip
WAITS = ({"batch": 7}, {"batch": 1, "delay": 5}, {"batch": 3, "delay": 4}, {"batch": 2, "delay": 5})
"""Batches and delays that share a program: up to seven rewards are pending."""


@dataclasses.dataclass(frozen=True)
class Row:
    """One program of the library beside the twin.

    vmapped: whether the rule is also called for each run under `jax.vmap`.
    pulls: whether each pull is compared, up to where rounding alone decides; else the ends of
        runs under all stopping rules.
    """

    place: str
    problem: str
    rule: str
    elimination: str | None = None
    deltas: tuple = (0.05,)
    beta: str = "heuristic"
    waits: tuple = ({},)
    vmapped: bool = False
    pulls: bool = False
    length: int = 250

    @property
    def id(self):
        waits = "waits" if self.waits[0] else ""
        parts = self.rule, self.problem, self.place, self.elimination, waits
        return ", ".join(filter(None, parts))


SURE = ("uniform", "lucb", "lucb-2", "ugape", "racing")
"""Rules on independent arms whose choices rounding hardly ever decides."""


def arms(rule, problem, at, elimination=None, waits=({},)):
    """A row of independent arms; cutting planes for w* are slow."""
    sure, length = rule in SURE, 40 if rule == "tas" else 250
    return Row(at, problem, rule, elimination, (0.1 if sure else 0.001,), "gk16", waits,
               pulls=not sure, length=length)  # fmt: skip


OF_ARMS = [
    arms("lucb", "bai", "poisson", "selective"),
    arms("lucb-2", "slack", "bernoulli", waits=WAITS[:1]),
    arms("ugape", "topm", "by-arm"),
    arms("racing", "topm", "unknown"),
    arms("lucb-2", "osi", "poisson"),
    arms("lucb", "topm", "bernoulli"),
    arms("lingame", "reference", "exponential", "selective", WAITS[2:3]),
    arms("fws", "osi", "poisson", "selective", WAITS[2:3]),
    arms("lazy-tas", "topm", "poisson", "selective", WAITS[2:3]),
    arms("oracle", "reference", "bernoulli", waits=WAITS[:1]),
    arms("tas", "reference", "bernoulli", "selective", WAITS[2:3]),
    arms("ttts", "bai", "exponential", "selective", WAITS[2:3]),
    arms("t3c", "bai", "bernoulli"),
    arms("ebtc", "slack", "exponential", waits=WAITS[:1]),
    arms("tstci", "bai", "poisson", "selective", WAITS[2:3]),
    arms("ebtc, 0.3", "topm", "unknown, glr", "selective"),
    arms("ebtci, ids", "osi", "poisson", "selective", WAITS[2:3]),
    arms("ttucb, ids", "bai", "bernoulli", "selective"),
    arms("eb, rs", "bai", "poisson", waits=WAITS[:1]),
    arms("ucb, tci", "bai", "exponential", "selective", WAITS[2:3]),
]
# Greedy LinGame on differences is left out for linear arms with K = d: its choices tie
# exactly. phi_k' V_w^-1 (phi_i - phi_j) is 0 for every other arm k, and equal weights
# on i and j give equal gains. RAGE's uniform weights tie all pairs there.
LINEAR = [
    Row("near-equal", "bai", "lingape", deltas=(0.9, 0.01)),
    Row("K = d", "osi", "lingape", "full"),
    Row("linear", "near items", "lingape", "selective", (0.1,), length=300),
    Row("linear", "bai", "lingape", "selective", waits=WAITS),
    Row("linear", "bai", "lingape", "full, resets", (0.1,), length=300),
    Row("linear", "topm", "lingape", "selective, resets", (0.1,), length=300),
    Row("linear", "items", "lingame", "selective", (0.1,), length=300),
    Row("K >> d", "topm", "lingame", "full"),
    Row("K = d", "reference", "optimistic lingame"),
    Row("linear-d10-topm", "topm", "lazy-tas", beta="never", length=5000),
    Row("unstructured-k40-osi", "osi", "lazy-tas", beta="never", length=5000),
    Row("linear", "topm", "optimistic tas", pulls=True, length=30),
    Row("linear", "bai", "fws", "selective", pulls=True, vmapped=True),
    Row("identical", "topm", "lingifa"),
    Row("linear", "items", "lingifa", deltas=(0.1,), length=300),
    Row("linear", "items", "rage", deltas=(0.1,), length=4000),
    Row("unstructured", "bai", "tas", "selective", pulls=True, length=40),
    Row("unstructured", "topm", "racing", deltas=(0.1,), vmapped=True, length=300),
    Row("unstructured, 7", "bai", "rage", deltas=(0.1,), vmapped=True, length=2500),
    Row("K = d + 1", "bai", "xy-adaptive", deltas=(0.1,), vmapped=True, length=1000),
]
OTHERS = [
    Row("linear", "bai", "lingame", "selective", waits=WAITS[1:3], pulls=True, length=60),
    Row("priced basis", "topm", "tas", waits=({"batch": 6, "delay": 2},), pulls=True, length=40),
    Row("priced linear", "bai", "lingame", deltas=(0.01,), pulls=True),
    Row("priced coins", "bai", "fws", deltas=(0.01,), pulls=True),
    Row("priced coins", "bai", "tas", pulls=True, length=100),
    Row("priced basis", "bai", "tas", pulls=True, length=40),
    Row("priced linear", "bai", "lazy-tas", deltas=(0.01,), pulls=True),
    Row("priced linear", "bai", "optimistic tas", pulls=True, length=30),
    Row("logistic", "bai", "lazy-tas", deltas=(0.1,), pulls=True, length=200),
    Row("bernoulli", "slack", "tas", "selective", (0.01,), pulls=True, length=60),
    Row("bernoulli", "zone", "tas", deltas=(0.01,), pulls=True, length=100),
    Row("logistic", "bai", "uniform", deltas=(0.1,), waits=WAITS, length=900),
    Row("logistic basis", "osi", "tas, C", deltas=(0.1,), pulls=True, length=40),
    Row("bernoulli", "zone", "uniform", beta="log(1/delta)", deltas=(0.1, 0.001)),
    Row("by-arm", "reference zone", "uniform", beta="log(1/delta)", deltas=(0.1, 0.001)),
    Row("exponential", "reference zone", "ebtci", deltas=(0.01,), pulls=True, length=60),
    Row("gaussian", "slack", "lucb", "selective, resets", (0.01,), pulls=True, length=60),
    Row("one coin", "osi", "uniform", beta="log(1/delta)", waits=WAITS),
    Row("one arm", "reference", "uniform", deltas=(0.9, 0.01), beta="log(1/delta)"),
]
ROWS = [*OF_ARMS, *LINEAR, *OTHERS]
FAST = {
    "lingape, osi, K = d, full", "racing, topm, unstructured", "ebtc, slack, exponential, waits",
    "lingame, items, linear, selective", "lingape, bai, linear, selective, waits",
    "lingape, bai, linear, full, resets",
    "uniform, zone, bernoulli", "uniform, reference zone, by-arm",
    "uniform, osi, one coin, waits", "uniform, reference, one arm",
}  # fmt: skip
"""Rows that meet every problem; each is one program."""


@functools.cache
def posterior(family, seed):
    """A function of counts, means, t and n: the n-th posterior draw of run 0 at sample t."""

    def one(counts, means, t, n):
        key = draws.rule_key(draws.key(seed), jnp.zeros(1, int), t[None])[0]
        return family.posterior(draws.fold(key, n), counts, means)

    compiled = jax.jit(one)

    def draw(counts, means, t, n):
        with scope.engine():
            given = jnp.asarray(counts, float), jnp.asarray(means), jnp.int32(t), jnp.int32(n)
            return np.asarray(compiled(*given))

    return draw


def chances(rule, family, seed, length):
    """A top-two rule for the twin; its random numbers are those of run 0 of the seed."""
    with scope.engine():
        t = jnp.arange(length + 1, dtype=jnp.int32)
        uniform = np.asarray(draws.chance(draws.key(seed), 0 * t, t, jnp.float64))
    return dict(leader=rule.leader, challenger=rule.challenger, share=rule.share,
                select=rule.select, draw=posterior(family, seed),
                chance=lambda t: float(uniform[t]))  # fmt: skip


def noise_of(row, world):
    """Noise [2, T]; with ties of the initial pulls for the rules that are sure."""
    rng = np.random.default_rng(zlib.crc32(row.id.encode()))
    shape = 2, row.length
    noise = rng.standard_normal(shape) if world.normal else rng.random(shape)
    if row.rule in SURE and row.place in ARMS:
        noise[0, :5] = 0.25
        if not world.normal:
            noise[-1, [0, 7, 30]] = 0.0
    return noise


@pytest.mark.parametrize("row", rows(ROWS, [row for row in ROWS if row.id in FAST], Row.id.fget))
def test_runs_are_those_of_the_twin(row):
    at, (rule, name, settings) = place(row.place), RULES[row.rule]
    problem, spec = PROBLEMS[row.problem](at)
    threshold, beta = BETAS[row.beta]
    by, twins_by = ELIMINATION[row.elimination] if row.elimination else (None, None)
    # Bernoulli means of 0 and 1 would tie at once for w*.
    tied = row.place == "bernoulli" and row.problem in ("topm", "reference") and "tas" in row.rule
    noise, initial = noise_of(row, at.worlds[0]), 4 if tied else None
    if row.rule in TOP_TWO:
        settings = chances(rule, at.instance.family, 5, row.length)
    common = dict(threshold=threshold, elimination=by, ridge=at.ridge, initial_pulls=initial,
                  max_samples=row.length)  # fmt: skip
    twins = dict(beta=beta, elimination=twins_by, initial=initial, **settings)
    compare = compare_pulls if row.pulls else compare_ends
    for waits in row.waits:
        for form in (rule, run_by_run(rule)) if row.vmapped else (rule,):
            compare(row, at, (problem, form), (spec, name), noise, common | waits, twins | waits)


def compare_ends(row, at, ours, theirs, noise, common, twins):
    """Every number of a run that each stopping rule ends."""
    traits = ours[1].traits
    names = [row.elimination] if row.elimination in STOPPING else [
        name for name in STOPPING if name in traits.stopping
        and not (row.elimination and name in ("selective", "full"))
    ]  # fmt: skip
    times = "pair_times" if row.problem in ("topm", "slack", "reference zone") else ()
    found = je.simulate(
        at.instance, *ours, delta=row.deltas, noise=noise, runs=2, record=times,
        stopping=[STOPPING[name] for name in names], engine=je.Engine(devices=1), **common,
    )  # fmt: skip
    for i, d, r in np.ndindex(len(at.worlds), len(row.deltas), 2):
        known = twin.run(at.worlds[i], *theirs, noise=noise[r], delta=row.deltas[d],
                         stopping=names, **twins)  # fmt: skip
        for s, name in enumerate(names):
            # Nothing is eliminated for others; the array is from the observers that eliminate.
            left = {"correct", *(["elimination_times"] if name in ("llr", "native") else ())}
            equal(found, known.stops[name], (i, s, d, r), ..., {*RUNS, "truncated"} - left)
    if by_order := [name for name in ("full", "selective", "llr", "native") if name in names]:
        samples = [found.samples[:, names.index(name)] for name in by_order]
        several = row.problem in ("slack", "reference zone")
        assert several or all(map(np.all, map(np.less_equal, samples, samples[1:])))


def compare_pulls(row, at, ours, theirs, noise, common, twins):
    """Every pull, up to where several are right; then how the run ends."""
    name = row.elimination if row.elimination in STOPPING else "full"
    compared = 0
    for i, r in np.ndindex(len(at.worlds), 2):
        found = je.trace(
            at.instance[i], *ours, noise=noise[r], delta=row.deltas[0], seed=5,
            stopping=STOPPING[name], engine=je.Engine(lanes=1, devices=1), **common,
        )  # fmt: skip
        known = twin.run(at.worlds[i], *theirs, noise=noise[r], delta=row.deltas[0],
                         stopping=[name], follow=found.arms, **twins)  # fmt: skip
        n = known.sure
        np.testing.assert_array_equal(found.arms[:n], known.arms[:n])
        compared += n
        if n == len(known.arms):
            stop = known.stops[name]
            np.testing.assert_allclose(found.rewards, known.rewards, rtol=1e-13)
            assert (found.samples, found.stopped) == (stop.samples, stop.stopped)
            np.testing.assert_array_equal(found.answer, stop.answer)
    # Ties decide early for these rules, and for w* that is not rounded.
    rounded = row.problem in ("bai", "osi") and row.place in ARMS
    early = row.rule in ("fws", "lazy-tas") or (row.rule.startswith("tas") and not rounded)
    first = 2 * len(at.worlds) * at.instance.K * (twins["initial"] or 1)
    assert compared > first + (0 if early else 40)


def test_rows_meet_every_name():
    """All problems, rules, sets and places; the fast rows all problems."""
    assert set(FAST) <= {row.id for row in ROWS}
    for field, names in (("problem", PROBLEMS), ("rule", RULES),
                         ("elimination", (None, *ELIMINATION)), ("place", PLACES)):  # fmt: skip
        assert {getattr(row, field) for row in ROWS} == set(names)
    assert {row.problem for row in ROWS if row.id in FAST} == set(PROBLEMS) - {"near items"}
