"""Runs where choices tie, which no layout changes, and divisions that XLA may round otherwise."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import Literal

import jaxelim as je
from jaxelim import engine, scope
from jaxelim.engine.one_lane import operations
from tests.calls import planned

DEFAULT = je.Engine(devices=1, shrink=False)
LAYOUTS = (
    je.Engine(devices=1, shrink=True, chunk=16),
    je.Engine(devices=2, shrink=False, chunk=20, lanes=48),
)


def copied(rank, d, shift=0.0, scale=1.0):
    """Five random arms, and that of a rank in means again, `shift` apart; a scaled coordinate."""
    rng = np.random.default_rng((3, 0, 0))
    arms, theta = rng.normal(size=(5, d)), rng.normal(size=d)
    again = arms[[np.argsort(-(arms @ theta))[rank]]] + shift * rng.normal(size=(1, d))
    scale = np.array([scale, *np.ones(d - 1)])
    return je.Instance(np.concatenate([arms, again]) * scale, theta / scale)


RNG = np.random.default_rng(0)
CASES = {
    "as many arms as dimensions": (
        je.Instance(RNG.normal(size=(6, 6)), RNG.normal(size=6)), je.BestArm(), je.LinGapE()),
    "a copy": (copied(0, 5), je.TopM(2), je.FWS()),
    "near": (copied(2, 3, 1e-8), je.Thresholding(0.1), je.TrackAndStop(tracking="C", schedule=4)),
    "scaled": (copied(1, 3, scale=1e4), je.BestArm(), je.RAGE(steps=500)),
    "coins": (
        je.Instance.unstructured(RNG.uniform(0.05, 0.95, 6), je.Bernoulli()),
        je.Thresholding(0.1), je.FWS()),
}  # fmt: skip


def simulated(instance, problem, rule, layout, **settings) -> np.ndarray:
    """Samples, pulls and answers of each run: [run, numbers]."""
    native = rule.traits.stopping == ("native",)
    usual = dict(delta=0.1, runs=16, max_samples=300, seed=5,
                 stopping=je.Native() if native else je.LLR())  # fmt: skip
    found = je.simulate(instance, problem, rule, engine=layout, progress=False, **usual | settings)
    return np.concatenate([found.samples[0, 0, :, None], found.pulls[0, 0], found.answer[0, 0]], 1)


def divisions(rule):
    """The divisions by an array with fewer entries, in the program of a call."""
    settings = dict(stopping=je.Native(), runs=16, max_samples=300)
    spec, *host = planned((copied(1, 3), je.BestArm(), rule), settings)
    with scope.engine():
        program = engine.program(spec, host[0])
        given = *host, program.empty(*host), np.int32(1)
        equations = list(operations(jax.make_jaxpr(program.loop.advance)(*given).jaxpr))
    made = {v: e for e in equations for v in e.outvars}

    def size(v):
        """The number of entries, before it was broadcast."""
        while v in made and made[v].primitive.name in ("broadcast_in_dim", "reshape"):
            v = made[v].invars[0]
            if isinstance(v, Literal):
                return 1
        return v.aval.size

    divided = [(e.invars[1], e.outvars[0].aval) for e in equations if e.primitive.name == "div"]
    return [
        by for by, out in divided if jnp.issubdtype(out.dtype, jnp.floating)
        and not isinstance(by, Literal) and size(by) < out.size
    ]  # fmt: skip


@pytest.mark.parametrize("rule", [je.RAGE(), je.XYAdaptive()], ids=["RAGE", "XYAdaptive"])
def test_designs_do_not_divide_by_what_is_shared(rule):
    """XLA may or may not take such a division as a product with the inverse."""
    assert not divisions(rule)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_no_layout_changes_a_run(case):
    """All runs of RAGE changed on two devices while Frank-Wolfe divided by n + 2."""
    instance, problem, rule = CASES[case]
    known, *others = (
        simulated(instance, problem, rule, layout) for layout in (DEFAULT, *LAYOUTS)
    )
    for other in others:
        np.testing.assert_array_equal(other, known)
