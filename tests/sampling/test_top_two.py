"""Top-two rules: the twin, pull by pull; draws and shares; layouts; refusals; tables."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import jaxelim as je
from jaxelim import scope
from jaxelim.families import draws, noise, threefry
from tests.twin import top_two, unknown_variance, weighing

SLOW = pytest.mark.slow
LLR, SELECTIVE, FULL = je.LLR(), je.SelectiveElimination(), je.FullElimination()
PROBLEMS = {"bai": (je.BestArm(), ("bai",)), "topm": (je.TopM(2), ("topm", 2)),
            "osi": (je.Thresholding(0.45), ("osi", 0.45))}  # fmt: skip
STD = (0.8, 0.5, 1.0, 0.9, 0.6)  # a run is in units of the largest
FAMILIES = {
    "bernoulli": je.Bernoulli(), "poisson": je.Poisson(), "exponential": je.Exponential(),
    "gaussian": je.Gaussian(), "by-arm": je.Gaussian(STD),
}  # fmt: skip
UNKNOWN = je.GaussianUnknownVariance(STD)
MEANS = {
    "bernoulli": [[0.6, 0.3, 0.25, 0.35, 0.0], [0.95, 0.1, 1.0, 0.3, 0.5]],
    "poisson": [[0.9, 0.2, 0.4, 1.5, 0.0], [0.1, 3.0, 0.6, 0.0, 2.0]],
    "exponential": [[2.0, 0.5, 1.0, 0.8, 0.3], [0.1, 0.7, 0.6, 0.2, 3.0]],
    "gaussian": [[1.2, 0.0, 0.5, -0.3, 0.4], [0.1, 0.3, -1.0, 0.9, 0.2]],
    "by-arm": [[1.2, 0.0, 0.5, -0.3, 0.4], [0.1, 0.3, -1.0, 0.9, 0.2]],
}
"""Two instances a family, with means at the ends of the range."""
LENGTH = 250
PAPERS = {
    "ttts": je.TTTS(), "t3c": je.T3C(), "ebtc": je.EBTC(), "ebtci": je.EBTCI(),
    "tstc": je.TSTC(), "tstci": je.TSTCI(), "ttucb": je.TTUCB(),
}  # fmt: skip
RULES = {
    **{name: rule for name, rule in PAPERS.items() if name != "tstc"},
    "ttts, ids": je.TTTS("ids", "tracking"), "t3c, ids": je.T3C("ids"),
    "ebtc, 0.3": je.EBTC(0.3, "tracking"), "ebtci, ids": je.EBTCI("ids", "tracking"),
    "tstci, ids": je.TSTCI("ids", "tracking"), "ttucb, ids": je.TTUCB("ids"),
    "eb, rs": je.TopTwo("eb", "rs"), "ucb, tci": je.TopTwo("ucb", "tci", 0.7, "tracking"),
}  # fmt: skip


def settings(rule, family, seed):
    """The rule for the twin; its random numbers are those of run 0 of the seed."""

    @functools.cache
    def compiled():
        def one(counts, means, t, n):
            key = noise.rule_key(noise.key(seed), jnp.zeros(1, int), t[None])[0]
            return family.posterior(draws.fold(key, n), counts, means)

        return jax.jit(one)

    def draw(counts, means, t, n):
        with scope.engine():
            given = jnp.asarray(counts, float), jnp.asarray(means), jnp.int32(t), jnp.int32(n)
            return np.asarray(compiled()(*given))

    def chance(t):
        with scope.engine():
            one = jnp.zeros(1, jnp.int32)
            return float(noise.chance(noise.key(seed), one, one + t, jnp.float64)[0])

    return dict(leader=rule.leader, challenger=rule.challenger, share=rule.share,
                select=rule.select, draw=draw, chance=chance)  # fmt: skip


def cases():
    for family in FAMILIES:
        for problem, (public, _) in PROBLEMS.items():
            for name, rule in RULES.items():
                if not rule.traits.defined_for(public.name):
                    continue
                for eliminates in (False, True):
                    quick = (family, problem, name, eliminates) in (
                        ("bernoulli", "bai", "ttts, ids", True),
                        ("gaussian", "topm", "ebtci, ids", False),
                    )
                    case = family, problem, name, eliminates
                    yield pytest.param(*case, marks=() if quick else SLOW)


@pytest.mark.parametrize(("family", "problem", "rule", "eliminates"), list(cases()))
def test_pulls_are_those_of_the_twin(family, problem, rule, eliminates):
    """Every pull, up to where rounding alone decides; edges of the range among the means."""
    ours, compared = RULES[rule], 0
    stopping = SELECTIVE if eliminates else LLR
    for seed, means in enumerate(MEANS[family]):
        rng = np.random.default_rng(seed)
        normal = family in ("gaussian", "by-arm")
        given = rng.standard_normal(LENGTH) if normal else rng.random(LENGTH)
        run = je.trace(
            je.Instance.unstructured(means, FAMILIES[family]), PROBLEMS[problem][0], ours,
            noise=given, delta=1e-3, stopping=stopping, max_samples=LENGTH, seed=seed,
            elimination=stopping if eliminates else None, engine=je.Engine(lanes=1, devices=1),
        )  # fmt: skip
        known = weighing.run(
            means, "gaussian" if normal else family, PROBLEMS[problem][1], top_two.TopTwo,
            noise=given, delta=1e-3, stopping=(stopping.name,),
            settings=settings(ours, FAMILIES[family], seed),
            elimination=stopping.name if eliminates else None,
            costs=np.square(STD) if family == "by-arm" else None,
        )  # fmt: skip
        n = known.sure
        np.testing.assert_array_equal(run.arms[:n], known.arms[:n])
        compared += n
        if n == len(known.arms):
            (stop,) = known.stops.values()
            assert (run.samples, run.stopped) == (stop.samples, stop.stopped)
            np.testing.assert_array_equal(run.answer, stop.answer)
    assert compared > 60


UNKNOWN_RULES = {name: RULES[name] for name in ("ebtc, 0.3", "ebtci", "ttucb", "ucb, tci")}


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("rule", [
    name if name == "ttucb" else pytest.param(name, marks=SLOW) for name in UNKNOWN_RULES
])  # fmt: skip
def test_pulls_with_unknown_variances(rule, problem):
    """Rules without draws and "ids" shares take them."""
    ours, compared = RULES[rule], 0
    if not ours.traits.defined_for(PROBLEMS[problem][0].name):
        pytest.skip("not defined")
    for seed, means in enumerate(MEANS["gaussian"]):
        given = np.random.default_rng(seed).standard_normal(LENGTH)
        run = je.trace(
            je.Instance.unstructured(means, UNKNOWN), PROBLEMS[problem][0], ours, noise=given,
            delta=1e-3, max_samples=LENGTH, seed=seed, engine=je.Engine(lanes=1, devices=1),
        )  # fmt: skip
        twin = top_two.Student(5, **settings(ours, None, seed))
        known = unknown_variance.run(
            means, STD, PROBLEMS[problem][1], twin, noise=given, delta=1e-3, stopping=("llr",)
        )
        np.testing.assert_array_equal(run.arms[: twin.certain], known.arms[: twin.certain])
        compared += twin.certain
    assert compared > 60
