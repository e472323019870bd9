"""The library beside the NumPy twin: place x problem x rule x elimination x waits x costs.

A row is one program: a batch of instances times two rows of noise, which the twin plays run by
run. All results must be equal, not close, since one different choice changes them all. Where
rounding alone decides between choices, a run is compared pull by pull up to there. A new rule
or problem needs a name in `agreement_rows`, and a new family a place.
"""

import functools
import zlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxelim as je
from jaxelim import scope
from jaxelim.families import draws
from jaxelim.families import noise as noises
from jaxelim.testing.rules import run_by_run
from tests import twin
from tests.calls import checked, rows
from tests.places import ARMS, PLACES, PROBLEMS, place
from tests.rules.agreement_rows import (
    BETAS,
    ELIMINATION,
    PLAIN,
    RULES,
    STOPPING,
    TOP_TWO,
    WAITS,
    Row,
)

SURE = ("uniform", "lucb", "lucb-2", "ugape", "racing")
"""Rules on independent arms whose choices rounding hardly ever decides."""


def defined(at, problem, rule, eliminates):
    """Whether the library takes the combination; it refuses the others by name."""
    if rule == "oracle" and at.startswith("unknown"):
        return False  # refused too, but not before H* is asked for
    given = place(at).instance[0], PROBLEMS[problem](place(at))[0], RULES[rule][0]
    by = STOPPING["selective"] if eliminates else None
    for stopping in (by,) if by else (STOPPING["full"], STOPPING["native"]):
        try:
            checked(*given, stopping=stopping, elimination=by)
            return True
        except je.errors.UnsupportedError:
            continue
    return False


def of_arms():
    """Of every problem and rule a family, with elimination at sampling in turn."""
    turn, waits = 0, ({}, {}, WAITS[0], WAITS[2])
    for p, problem in enumerate(list(PROBLEMS)[:5]):
        for r, rule in enumerate((*PLAIN, *TOP_TWO)):
            names, taken = [ARMS[(p + r + step) % len(ARMS)] for step in range(len(ARMS))], 0
            for at in names:
                eliminates = bool(turn % 2) and defined(at, problem, rule, True)
                if not taken and (eliminates or defined(at, problem, rule, False)):
                    sure = rule in SURE
                    wait = waits[turn % 4] if rule not in ("racing", "ugape") else {}
                    long = not rule.startswith("tas")  # cutting planes for w* are slow
                    yield Row(at, problem, rule, "selective" if eliminates else None,
                              (0.1 if sure else 0.001,), "gk16", (wait,), pulls=not sure,
                              length=250 if long else 100 if problem in ("bai", "osi") else 40,
                              )  # fmt: skip
                    taken, turn = taken + 1, turn + 1


WIDE = (0.9, 0.01)
LOW = dict(deltas=WIDE, beta="log(1/delta)")
# Greedy LinGame on differences is left out for linear arms with K = d: its choices tie
# exactly. phi_k' V_w^-1 (phi_i - phi_j) is 0 for every other arm k, and equal weights
# on i and j give equal gains.
LINEAR = [
    Row("near-equal", "bai", "uniform", **LOW),
    Row("K >> d", "topm", "uniform", **LOW),
    Row("K = d", "osi", "uniform", **LOW),
    Row("K >> d", "reference", "uniform", **LOW),
    Row("unstructured", "reference", "uniform", **LOW),
    Row("K = d + 1", "bai", "given oracle"),
    Row("K = d + 1", "topm", "given oracle"),
    Row("unstructured", "osi", "given oracle"),
    Row("near-equal", "bai", "lingape", deltas=WIDE),
    Row("K >> d", "bai", "lingape", "selective"),
    Row("unstructured", "bai", "lingape", "full"),
    Row("identical", "topm", "lingape"),
    Row("unstructured", "topm", "lingape", "selective"),
    Row("near-equal", "topm", "lingape", "full"),
    Row("K = d + 1", "osi", "lingape"),
    Row("identical", "osi", "lingape", "selective"),
    Row("K = d", "osi", "lingape", "full"),
    Row("K = d + 1", "reference", "lingape", "full"),
    Row("identical", "bai", "lingame", deltas=WIDE),
    Row("K >> d", "bai", "lingame", "selective"),
    Row("near-equal", "bai", "lingame", "full"),
    Row("unstructured", "topm", "lingame"),
    Row("K = d + 1", "topm", "lingame", "selective"),
    Row("K >> d", "topm", "lingame", "full"),
    Row("K = d", "osi", "lingame"),
    Row("unstructured", "osi", "lingame", "selective"),
    Row("identical", "reference", "lingame", "selective"),
    Row("K = d", "bai", "optimistic lingame"),
    Row("K = d", "reference", "optimistic lingame"),
    *(Row(at, problem, "lazy-tas", beta="never", length=5000) for at, problem in
      (("linear-d10", "bai"), ("linear-d10-topm", "topm"), ("unstructured-k40", "bai"),
       ("unstructured-k40", "topm"), ("unstructured-k40-osi", "osi"))),
    Row("K = d + 1", "osi", "lazy-tas", "selective", pulls=True),
    Row("K = d + 1", "reference", "lazy-tas", pulls=True),
    Row("unstructured", "osi", "lazy-tas", pulls=True, length=600),
    Row("linear", "bai", "lazy-tas", "selective", pulls=True, length=600, vmapped=True),
    Row("linear", "topm", "lazy-tas", "selective", pulls=True, length=600),
    Row("identical", "topm", "lingifa"),
    Row("unstructured", "bai", "tas", "selective", pulls=True, length=40, vmapped=True),
    Row("linear", "topm", "optimistic tas", pulls=True, length=30),
    Row("linear", "osi", "tas, C", "selective", pulls=True, length=60, vmapped=True),
    Row("K >> d", "bai", "fws", "selective", pulls=True),
    Row("near-equal", "reference", "fws", "selective", pulls=True),
    Row("linear", "bai", "fws", "selective", pulls=True, vmapped=True),
    Row("linear", "topm", "fws", "selective", pulls=True),
    Row("linear", "osi", "fws", pulls=True),
    Row("unstructured", "osi", "fws", pulls=True),
    Row("unstructured", "topm", "fws", "selective", pulls=True),
    Row("unstructured", "bai", "fws", "selective", pulls=True, vmapped=True),
]  # fmt: skip
PENDING = [
    Row("linear", "bai", "lingape", "selective", waits=WAITS),
    Row("linear", "topm", "lingape", waits=WAITS),
    Row("unstructured", "osi", "lingame", waits=WAITS),
    Row("linear", "bai", "uniform", waits=WAITS),
    Row("linear", "bai", "fws", "full", waits=WAITS[:1], pulls=True),
    # On linear arms its gradients tie, and rounding parts it from the twin.
    Row("unstructured, 7", "bai", "lazy-tas", waits=WAITS, pulls=True),
    Row("linear", "topm", "lingifa", waits=WAITS),
    Row("logistic", "bai", "uniform", deltas=(0.1,), waits=WAITS, length=900),
]
RESETS = [
    Row("linear", "items", "lingape", "selective, resets", (0.1,), length=300),
    *(Row("linear", problem, "lingape", f"{kind}, resets", (0.1,), length=300)
      for problem in ("bai", "topm", "osi") for kind in ("selective", "full")),
]  # fmt: skip
COSTS = [
    Row("priced coins", "bai", "tas", pulls=True, length=100),
    Row("priced basis", "bai", "tas", pulls=True, length=40),
    Row("priced linear", "bai", "tas", pulls=True, length=40),
    Row("priced basis", "topm", "tas", waits=({"batch": 6, "delay": 2},), pulls=True, length=40),
    Row("priced coins", "osi", "tas, C", pulls=True),
    Row("priced basis", "osi", "tas, C", pulls=True, length=60),
    *(Row(at, "bai", rule, deltas=(0.01,), pulls=True)
      for at in ("priced coins", "priced linear", "priced basis")
      for rule in ("oracle", "lingame", "fws", "lazy-tas", "uniform")),
    Row("priced linear", "bai", "optimistic tas", pulls=True, length=30),
    Row("priced linear", "bai", "tas, C", pulls=True, length=60),
]  # fmt: skip
LOGISTIC = [
    *(Row("logistic", problem, "uniform", deltas=(0.1,), length=900)
      for problem in ("bai", "topm", "items")),
    Row("logistic basis", "osi", "uniform", deltas=(0.1,), length=900),
    *(Row("logistic", "bai", rule, "selective" if rule == "lingame" else None, (0.1,), pulls=True,
          length=40 if rule.startswith("tas") else 200) for rule in
      ("lingame", "lazy-tas", "tas", "oracle")),
    Row("logistic basis", "osi", "tas, C", deltas=(0.1,), pulls=True, length=40),
    Row("logistic", "topm", "lingame", deltas=(0.1,), pulls=True),
]  # fmt: skip
ZONES = [
    *(Row(at, "zone", rule, beta="log(1/delta)", deltas=(0.1, 0.001))
      for at, rule in (("gaussian", "uniform"), ("by-arm", "uniform"), ("poisson", "uniform"),
                       ("unknown", "uniform"), ("exponential", "lucb"), ("gaussian", "lucb-2"),
                       ("one coin", "lucb"), ("bernoulli", "uniform"))),
    *(Row(at, "zone", rule, deltas=(0.01,), pulls=True, length=100)
      for at, rule in (("bernoulli", "tas"), ("gaussian", "tas, C"), ("priced coins", "oracle"),
                       ("poisson", "ebtc"), ("gaussian", "ebtci"))),
    *(Row(at, "reference zone", "uniform", beta="log(1/delta)", deltas=(0.1, 0.001))
      for at in ("gaussian", "by-arm", "bernoulli", "exponential", "one coin")),
    *(Row(at, "reference zone", rule, deltas=(0.01,), pulls=True, length=60)
      for at, rule in (("bernoulli", "tas"), ("poisson", "oracle"), ("gaussian", "ebtc, 0.3"),
                       ("exponential", "ebtci"))),
    *(Row(at, problem, rule, by, deltas=(0.01,), pulls=True, length=60)
      for at, problem, rule, by in (
          ("bernoulli", "slack", "tas", "selective"), ("gaussian", "slack", "ebtci", "full"),
          ("poisson", "slack", "lucb", "selective"), ("bernoulli", "zone", "lucb", "full"),
          ("gaussian", "zone", "tas", "selective"), ("by-arm", "reference zone", "tas", "full"),
          ("gaussian", "slack", "lucb", "selective, resets"))),
]  # fmt: skip
ONE_ARM = [
    Row("one coin", "osi", "uniform", beta="log(1/delta)", waits=WAITS),
    Row("one coin", "osi", "lucb", "selective", (0.1,), "log(1/delta)"),
    Row("one coin", "reference", "ebtc, 0.3", beta="log(1/delta)"),
    *(Row("one arm", problem, "uniform", None, WIDE, "log(1/delta)")
      for problem in ("osi", "reference")),
]  # fmt: skip


def native():
    """LinGIFA and the rules with a native test: each place, problem and elimination."""
    for rule in ("lingifa", "lucb", "ugape", "racing", "rage", "xy-adaptive"):
        traits = RULES[rule][0].traits
        for at in ("unstructured", "unstructured, 7", "linear", "K = d", "K = d + 1", "near-equal"):
            structure = "unstructured" if at.startswith("unstructured") else "linear"
            # For K = d, Phi V_w^-1 Phi' = diag(1/w), so RAGE's uniform weights tie all pairs.
            if structure not in traits.structures or (rule, at) == ("rage", "K = d"):
                continue
            for problem in ("bai", "topm", "osi"):
                if traits.defined_for(PROBLEMS[problem](place(at))[0].name):
                    for by in (None, "selective", "full") if traits.elimination else (None,):
                        yield Row(at, problem, rule, by, (0.1,), vmapped=traits.lanes_last,
                                  length={"rage": 2500, "xy-adaptive": 1000}.get(rule, 300),
                                  )  # fmt: skip


def of_items():
    """Rules of best item; arms of the basis tie exactly for some."""
    rules = ("uniform", "lingape", "lingame", "fws", "lazy-tas", "lingifa", "rage", "xy-adaptive")
    for rule in rules:
        for at, problem in (
            ("linear", "items"), ("unstructured", "items"), ("linear", "near items")
        ):  # fmt: skip
            if at == "unstructured" and rule in ("xy-adaptive", "lingame", "fws"):
                continue
            by = (None, "selective", "full") if RULES[rule][0].traits.elimination else (None,)
            for elimination in by:
                one = (at, problem, elimination) == ("linear", "items", None)
                yield Row(at, problem, rule, elimination, (0.1,), vmapped=one,
                          pulls=rule in ("fws", "lazy-tas"),
                          length={"rage": 4000, "xy-adaptive": 1000}.get(rule, 300))  # fmt: skip


ROWS = list({row.id: row for row in (
    *of_arms(), *LINEAR, *native(), *of_items(), *RESETS, *PENDING, *COSTS, *LOGISTIC,
    *ZONES, *ONE_ARM,
)}.values())  # fmt: skip
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
        key = noises.rule_key(noises.key(seed), jnp.zeros(1, int), t[None])[0]
        return family.posterior(draws.fold(key, n), counts, means)

    compiled = jax.jit(one)

    def draw(counts, means, t, n):
        with scope.engine():
            given = jnp.asarray(counts, float), jnp.asarray(means), jnp.int32(t), jnp.int32(n)
            return np.asarray(compiled(*given))

    return draw


def chances(rule, family, seed):
    """A top-two rule for the twin; its random numbers are those of run 0 of the seed."""

    def chance(t):
        with scope.engine():
            one = jnp.zeros(1, jnp.int32)
            return float(noises.chance(noises.key(seed), one, one + t, jnp.float64)[0])

    return dict(leader=rule.leader, challenger=rule.challenger, share=rule.share,
                select=rule.select, draw=posterior(family, seed), chance=chance)  # fmt: skip


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
        settings = chances(rule, at.instance.family, 5)
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
            stop = known.stops[name]
            fields = ["samples", "stopped", "truncated", "answer", "pulls", "tests_stopping",
                      "tests_sampling"]  # fmt: skip
            # Nothing is eliminated for others; the array is from the observers that eliminate.
            if name in ("selective", "full"):
                fields.append("elimination_times")
            for field in fields:
                np.testing.assert_array_equal(
                    getattr(found, field)[i, s, d, r], getattr(stop, field),
                    f"{field} of {name}, instance {i}, run {r}, delta {d}",
                )  # fmt: skip
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
    """All places, problems, rules and sets; the fast rows all problems."""
    assert set(FAST) <= {row.id for row in ROWS}
    for field, names in (("place", PLACES), ("problem", PROBLEMS), ("rule", RULES),
                         ("elimination", (None, *ELIMINATION))):  # fmt: skip
        assert {getattr(row, field) for row in ROWS} == set(names)
    assert {row.problem for row in ROWS if row.id in FAST} == set(PROBLEMS) - {"near items"}
