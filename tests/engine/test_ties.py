"""Runs where choices tie, which no layout changes, and divisions that XLA may round otherwise."""

import dataclasses
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import Literal

import jaxelim as je
from jaxelim import engine, scope
from jaxelim.engine.jaxprs import operations
from tests.calls import planned

ARMS, DIMENSIONS, TOP = 6, 3, 2
RUNS, LONGEST = 16, 300
PROBLEMS: tuple[je.contracts.Problem, ...] = (je.BestArm(), je.TopM(TOP), je.Thresholding(0.1))
DEFAULT = je.Engine(devices=1, shrink=False)
OPTIONS = {
    "one lane": {"shrink": True, "chunk": 16},
    "lanes, chunk, devices": {"lanes": 48, "chunk": 20, "devices": 2},
}

# Kinds of instances. Each is made of random arms [K, d] and theta [d].


def _random(rng: np.random.Generator, arms: int = ARMS, d: int = DIMENSIONS):
    return rng.normal(size=(arms, d)), rng.normal(size=d)


def _with_copy(rng: np.random.Generator, problem: je.contracts.Problem, d: int, shift: float):
    """One arm twice, `shift` apart; not one that would leave the answer open."""
    arms, theta = _random(rng, ARMS - 1, d)
    order = np.argsort(-(arms @ theta))
    again = {"best-arm": order[1], "top-m": order[0]}.get(problem.name, order[2])
    return np.concatenate([arms, arms[[again]] + shift * rng.normal(size=(1, d))]), theta


def independent(rng, problem):
    return je.Instance(*_random(rng, ARMS, ARMS))


def duplicated(rng, problem):
    """As many arms as dimensions, and one of them again."""
    return je.Instance(*_with_copy(rng, problem, ARMS - 1, 0.0))


def near(rng, problem):
    """Two arms 1e-8 apart."""
    return je.Instance(*_with_copy(rng, problem, DIMENSIONS, 1e-8))


def scaled(rng, problem):
    """One arm twice, and one coordinate 10^4 times as large."""
    arms, theta = _with_copy(rng, problem, DIMENSIONS, 0.0)
    scale = np.array([1e4, 1.0, 1.0])
    return je.Instance(arms * scale, theta / scale)


def basis(rng, problem):
    return je.Instance.unstructured(rng.normal(size=ARMS))


def coins(rng, problem):
    return je.Instance.unstructured(rng.uniform(0.05, 0.95, ARMS), je.Bernoulli())


KINDS = (independent, duplicated, near, scaled, basis, coins)


def simulated(instance, problem, rule, layout, **settings) -> np.ndarray:
    """Samples, pulls and answers of each run: [run, numbers]."""
    native = rule.traits.stopping == ("native",)
    usual = dict(delta=0.1, runs=RUNS, max_samples=LONGEST, seed=5,
                 stopping=je.Native() if native else je.LLR())  # fmt: skip
    found = je.simulate(instance, problem, rule, engine=layout, progress=False, **usual | settings)
    return np.concatenate([found.samples[0, 0, :, None], found.pulls[0, 0], found.answer[0, 0]], 1)


def changed(instance, problem, rule) -> Iterator[tuple[str, int, int]]:
    """Each option, with the number of runs and of those that it changes; none if undefined."""
    try:
        known = simulated(instance, problem, rule, DEFAULT)
    except je.errors.ArgumentError:
        return
    for name, option in OPTIONS.items():
        layout = dataclasses.replace(DEFAULT, **option)
        found = simulated(instance, problem, rule, layout)
        yield name, len(known), int((found != known).any(1).sum())


def divisions(rule):
    """The divisions by an array with fewer entries, in the program of a call."""
    rng = np.random.default_rng(0)
    instance = je.Instance(rng.normal(size=(6, 3)), rng.normal(size=3))
    settings = {
        "delta": [0.1], "stopping": (je.Native(),), "elimination": None, "runs": 16,
        "max_samples": 300, "engine": je.Engine(devices=1),
    }  # fmt: skip
    with scope.engine():
        spec, *host = planned((instance, je.BestArm(), rule), settings)
        loop = engine.program(spec, host[0]).loop
        given = *host, engine.program(spec, host[0]).empty(*host), np.int32(1)
        equations = list(operations(jax.make_jaxpr(loop.advance)(*given).jaxpr))
    made = {v: e for e in equations for v in e.outvars}

    def size(v):
        """The number of entries, before it was broadcast."""
        while v in made and made[v].primitive.name in ("broadcast_in_dim", "reshape"):
            v = made[v].invars[0]
            if isinstance(v, Literal):
                return 1
        return v.aval.size

    divided = [
        e for e in equations
        if e.primitive.name == "div" and jnp.issubdtype(e.outvars[0].aval.dtype, jnp.floating)
    ]  # fmt: skip
    return [
        e for e in divided
        if not isinstance(e.invars[1], Literal) and size(e.invars[1]) < e.outvars[0].aval.size
    ]  # fmt: skip


@pytest.mark.parametrize("rule", [je.RAGE(), je.XYAdaptive()], ids=["RAGE", "XYAdaptive"])
def test_designs_do_not_divide_by_what_is_shared(rule):
    """XLA may or may not take such a division as a product with the inverse."""
    assert not divisions(rule)


@pytest.mark.slow
@pytest.mark.parametrize(
    "rule",
    [je.LinGapE(), je.FWS(), je.RAGE(steps=500), je.TrackAndStop(tracking="C", schedule=4)],
    ids=repr,
)
def test_no_layout_changes_a_run(rule):
    """One instance of each kind, with one of the problems.

    All runs of RAGE changed on two devices while Frank-Wolfe divided by n + 2.
    """
    found = []
    for i, kind in enumerate(KINDS):
        problem = PROBLEMS[i % 3]
        instance = kind(np.random.default_rng((i, i % 3, 0)), problem)
        found += changed(instance, problem, rule)
    assert {name for name, _, _ in found} == set(OPTIONS)
    assert all((runs, differ) == (RUNS, 0) for _, runs, differ in found)
