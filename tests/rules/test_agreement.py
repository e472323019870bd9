"""Runs on independent arms beside the NumPy twin: world x problem x rule x elimination x waits.

A row is one call of the library and the same runs by `tests.twin.arm_run`. Where rounding
alone decides between choices, a run is compared up to there. Every pair of a problem and a
rule that is defined has a row for two worlds, without and with elimination at sampling in
turn; the rows of `FAST` meet every world, problem and kind of rule.
"""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxelim as je
from jaxelim import scope
from jaxelim.families import draws
from jaxelim.families import noise as noises
from tests.calls import checked
from tests.twin import arm_run, worlds
from tests.twin.thresholds import gk16

STD = [0.8, 0.5, 1.0, 0.9, 0.6]  # a run is in units of the largest
STOPPING = {"llr": je.LLR(), "selective": je.SelectiveElimination(), "full": je.FullElimination(),
            "native": je.Native()}  # fmt: skip
ONE = je.Engine(lanes=1, devices=1)


@dataclasses.dataclass(frozen=True)
class World:
    """A family, its twin, the means of two instances, a level, a slack and a source."""

    family: Any
    twin: worlds.World
    means: list
    level: float
    slack: float
    source: Any = None

    def instance(self, i):
        return je.Instance.unstructured(self.means[i], self.family, source=self.source)


MEANS = {
    "bernoulli": [[0.9, 0.2, 0.25, 0.65, 0.0], [0.05, 1.0, 0.1, 0.8, 0.7]],
    "poisson": [[3.0, 0.5, 0.6, 2.0, 0.0], [0.1, 4.0, 0.3, 1.2, 2.2]],
    "exponential": [[3.0, 0.5, 0.6, 1.4, 0.1], [0.1, 4.0, 0.3, 1.2, 2.2]],
    "gaussian": [[2.0, -0.5, -1.5, 1.1, 0.0], [-1.0, 2.0, -1.5, 1.2, 0.9]],
}
"""Two instances each: ends of the range, arms without a success, equal means."""
NORMAL = je.families.Normal(STD)
WORLDS = {
    "bernoulli": World(je.Bernoulli(), worlds.Bernoulli(), MEANS["bernoulli"], 0.45, 0.2),
    "poisson": World(je.Poisson(), worlds.Poisson(), MEANS["poisson"], 1.3, 0.4),
    "exponential": World(je.Exponential(), worlds.Exponential(), MEANS["exponential"], 1.1, 0.5),
    "gaussian": World(je.Gaussian(), worlds.Gaussian(), MEANS["gaussian"], 0.3, 0.4),
    "by-arm": World(je.Gaussian(STD), worlds.Gaussian(STD), MEANS["gaussian"], 0.3, 0.4),
    "unknown": World(je.GaussianUnknownVariance(), worlds.UnknownVariance(STD), MEANS["gaussian"],
                     0.3, 0.4, NORMAL),
    "unknown, glr": World(je.GaussianUnknownVariance("glr"), worlds.UnknownVariance(STD, "glr"),
                          MEANS["gaussian"], 0.3, 0.4, NORMAL),
}  # fmt: skip
PROBLEMS = {
    "bai": lambda w: (je.BestArm(), ("bai",)),
    "topm": lambda w: (je.TopM(2), ("topm", 2)),
    "osi": lambda w: (je.Thresholding(w.level), ("osi", w.level)),
    "slack": lambda w: (je.BestArm(epsilon=w.slack), ("slack", w.slack)),
    "reference": lambda w: (je.BestArm(reference=w.level), ("reference", w.level)),
}
PLAIN = {
    "uniform": (je.Uniform(), "uniform", {}),
    "lucb": (je.LUCB(), "lucb", {}),
    "lucb-2": (je.LUCB(pulls=2), "lucb", {"pulls": 2}),
    "ugape": (je.UGapE(), "ugape", {}),
    "racing": (je.Racing(), "racing", {}),
    "k-learner": (je.LinGame(), "k-learner", {}),
    "fws": (je.FWS(), "fws", {}),
    "lazy-tas": (je.LazyTaS(), "lazy-tas", {}),
    "oracle": (je.Oracle(), "oracle", {}),
    "tas": (je.TrackAndStop(gap_share=1e-10), "tas", {}),
    "tas, C": (je.TrackAndStop("C", gap_share=1e-10, schedule=3), "tas",
               {"tracking": "C", "every": 3}),
}  # fmt: skip
TOP_TWO = {
    "ttts": je.TTTS(), "t3c": je.T3C(), "ebtc": je.EBTC(), "ebtci": je.EBTCI(),
    "tstci": je.TSTCI(), "ttucb": je.TTUCB(), "ttts, ids": je.TTTS("ids", "tracking"),
    "t3c, ids": je.T3C("ids"), "ebtc, 0.3": je.EBTC(0.3, "tracking"),
    "ebtci, ids": je.EBTCI("ids", "tracking"), "ttucb, ids": je.TTUCB("ids"),
    "eb, rs": je.TopTwo("eb", "rs"), "ucb, tci": je.TopTwo("ucb", "tci", 0.7, "tracking"),
}  # fmt: skip
RULES = {**PLAIN, **{name: (rule, "top-two", {}) for name, rule in TOP_TWO.items()}}
SURE = ("uniform", "lucb", "lucb-2", "ugape", "racing")
"""Rules whose choices rounding hardly ever decides: all stopping rules are compared."""
WAITS = ({}, {}, {"batch": 7}, {"batch": 3, "delay": 4})


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


def settings(rule, family, seed):
    """A top-two rule for the twin; its random numbers are those of run 0 of the seed."""

    def chance(t):
        with scope.engine():
            one = jnp.zeros(1, jnp.int32)
            return float(noises.chance(noises.key(seed), one, one + t, jnp.float64)[0])

    return dict(leader=rule.leader, challenger=rule.challenger, share=rule.share,
                select=rule.select, draw=posterior(family, seed), chance=chance)  # fmt: skip


def defined(world, problem, rule, eliminates):
    """Whether the library takes the combination; it refuses the others by name."""
    if rule == "oracle" and world.startswith("unknown"):
        return False  # refused too, but not before H* is asked for
    instance = WORLDS[world].instance(0)
    elimination = je.SelectiveElimination() if eliminates else None
    try:
        checked(instance, PROBLEMS[problem](WORLDS[world])[0], RULES[rule][0],
                stopping=elimination or je.FullElimination(), elimination=elimination)  # fmt: skip
    except je.errors.UnsupportedError:
        try:
            checked(instance, PROBLEMS[problem](WORLDS[world])[0], RULES[rule][0],
                    stopping=je.Native())  # fmt: skip
        except je.errors.UnsupportedError:
            return False
        return not eliminates
    return True


def rows():
    """(world, problem, rule, eliminates, waits) of every problem and rule, for two worlds."""
    turn = 0
    for p, problem in enumerate(PROBLEMS):
        for r, rule in enumerate(RULES):
            names = [list(WORLDS)[(p + r + step) % len(WORLDS)] for step in range(len(WORLDS))]
            taken = 0
            for world in names:
                eliminates = bool(turn % 2) and defined(world, problem, rule, True)
                if taken < 2 and (eliminates or defined(world, problem, rule, False)):
                    waits = turn % len(WAITS) if rule not in ("racing", "ugape") else 0
                    yield world, problem, rule, eliminates, waits
                    taken, turn = taken + 1, turn + 1


ROWS = list(rows())
FAST = [
    ("bernoulli", "bai", "uniform"), ("exponential", "bai", "tas"), ("by-arm", "topm", "ugape"),
    ("unknown, glr", "topm", "k-learner"), ("by-arm", "osi", "lucb-2"), ("by-arm", "slack", "lucb"),
    ("exponential", "slack", "ebtci, ids"), ("gaussian", "reference", "ebtc"),
]  # fmt: skip


def noise_of(twin, seed, shape, ties):
    """Noise; with `ties` equal noise of the initial pulls of run 0, and uniforms at 0."""
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal(shape) if twin.normal else rng.random(shape)
    if ties:
        noise[0, :5] = 0.25
    if ties and not twin.normal:
        noise[-1, [0, 7, 30]] = 0.0
    return noise


def length(problem, rule):
    """The samples compared; cutting planes for w* are slow."""
    if rule.startswith("tas"):
        return 100 if problem in ("bai", "osi") else 40
    return 250


@pytest.mark.parametrize(
    ("world", "problem", "rule", "eliminates", "waits"),
    [pytest.param(*row, marks=() if row[:3] in FAST else pytest.mark.slow) for row in ROWS],
)
def test_runs_are_those_of_the_twin(world, problem, rule, eliminates, waits):
    """Stops, answers, pulls and numbers of tests, or every pull where rounding may decide."""
    where, (ours, name, given), T = WORLDS[world], RULES[rule], length(problem, rule)
    asked, spec = PROBLEMS[problem](where)
    names = [stop for stop in STOPPING if stop in ours.traits.stopping]
    names = ["selective"] if eliminates else names if rule in SURE else ["full"]
    # Means of 0 and 1 would tie at once for w*.
    tied = world == "bernoulli" and problem in ("topm", "reference") and "tas" in rule
    initial = 4 if tied else None
    noise, compared = noise_of(where.twin, 11, (2, T), rule in SURE), 0
    delta = 0.1 if rule in SURE else 0.001
    common = dict(delta=delta, threshold=je.GK16(), max_samples=T, seed=5, engine=ONE,
                  initial_pulls=initial, elimination=STOPPING["selective"] if eliminates else None,
                  **WAITS[waits])  # fmt: skip
    if world == "gaussian":
        common["ridge"] = 0.0
    for i, means in enumerate(where.means):
        instance = where.instance(i)
        for run in range(2):
            twins = given if name != "top-two" else settings(ours, where.family, 5)
            if rule not in SURE:
                found = je.trace(instance, asked, ours, noise=noise[run],
                                 stopping=STOPPING[names[0]], **common)  # fmt: skip
            known = arm_run.run(
                where.twin, means, spec, name, noise=noise[run], delta=delta, beta=gk16,
                stopping=names, elimination="selective" if eliminates else None, settings=twins,
                initial=initial, follow=None if rule in SURE else found.arms, **WAITS[waits],
            )  # fmt: skip
            if rule in SURE:
                found = je.simulate(
                    instance, asked, ours, noise=noise[run : run + 1], runs=1,
                    stopping=[STOPPING[stop] for stop in names], **common,
                )  # fmt: skip
                check_stops(found, known, names)
                compared += len(known.arms)
                continue
            n = known.sure
            np.testing.assert_array_equal(found.arms[:n], known.arms[:n])
            compared += n
            if n == len(known.arms):
                stop = known.stops[names[0]]
                np.testing.assert_allclose(found.rewards, known.rewards, rtol=1e-13)
                assert (found.samples, found.stopped) == (stop.samples, stop.stopped)
                np.testing.assert_array_equal(found.answer, stop.answer)
    # Ties decide early for these rules, and for w* that is not rounded.
    rounded = problem in ("bai", "osi")
    early = rule in ("fws", "lazy-tas") or (rule.startswith("tas") and not rounded)
    assert compared > 20 * (initial or 1) + (0 if early else 40)


def check_stops(found, known, names):
    """What a call says of its one run, under each stopping rule."""
    for s, name in enumerate(names):
        stop, at = known.stops[name], (s, 0, 0)
        assert found.samples[at] == stop.samples, name
        assert found.stopped[at] == stop.stopped, name
        assert found.tests_stopping[at] == stop.tests, name
        np.testing.assert_array_equal(found.answer[at], stop.answer, name)
        np.testing.assert_array_equal(found.pulls[at], stop.pulls, name)


def test_rows_meet_every_name():
    """All worlds, problems and rules; the fast rows all problems."""
    assert set(FAST) <= {row[:3] for row in ROWS}
    for column, names in enumerate((WORLDS, PROBLEMS, RULES)):
        assert {row[column] for row in ROWS} == set(names)
    assert {row[1] for row in FAST} == set(PROBLEMS)
