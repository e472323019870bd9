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


def changed(kind, problem, rule, count=1):
    """The runs that each option changes, on some instances of a kind."""
    seeds = [(ties.KINDS.index(kind), ties.PROBLEMS.index(problem), i) for i in range(count)]
    given = (kind(np.random.default_rng(seed), problem) for seed in seeds)
    return [found for one in given for found in ties.changed(one, problem, rule)]


@pytest.mark.slow
def test_a_slice():
    """32 runs of LinGapE on arms whose scores tie at every second choice."""
    found = changed(ties.independent, ties.PROBLEMS[0], je.LinGapE(), 2)
    assert {name for name, _, _ in found} == set(ties.OPTIONS) and len(found) == 4
    assert all((runs, differ) == (16, 0) for _, runs, differ in found)


@pytest.mark.slow
def test_designs_of_rage():
    """16 runs, all of which changed on two devices while Frank-Wolfe divided by n + 2."""
    found = changed(ties.scaled, ties.PROBLEMS[0], je.RAGE(steps=500))
    assert [(runs, differ) for _, runs, differ in found] == [(16, 0)] * 2


def divisions(rule):
    """The divisions by an array with fewer entries, in the program of a call."""
    instance = ties.plain(np.random.default_rng(0), je.BestArm())
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
@pytest.mark.parametrize("rule", ties.RULES, ids=repr)
def test_no_layout_changes_a_run(rule):
    """One instance of each kind, of each problem."""
    found = [changed(kind, problem, rule) for kind in ties.KINDS for problem in ties.PROBLEMS]
    assert any(found) and all(differ == 0 for one in found for _, _, differ in one)
