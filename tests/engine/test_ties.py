"""Which options of `Engine` change a run where choices tie: a slice of `tests.ties`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import Literal

import jaxelim as je
from jaxelim import engine, scope
from jaxelim.engine.jaxprs import operations
from tests import ties
from tests.calls import planned


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
    for i, kind in enumerate(ties.KINDS):
        problem = ties.PROBLEMS[i % 3]
        instance = kind(np.random.default_rng((i, i % 3, 0)), problem)
        found += ties.changed(instance, problem, rule)
    assert {name for name, _, _ in found} == set(ties.OPTIONS)
    assert all((runs, differ) == (ties.RUNS, 0) for _, runs, differ in found)
