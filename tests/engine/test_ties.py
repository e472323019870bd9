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

OPTIONS = {name: ties.OPTIONS[name] for name in ("form square", "vmapped", "one lane")}


def test_a_slice():
    """32 runs of LinGapE on arms whose scores tie at every second choice."""
    given = [ties.independent], [je.BestArm()], [je.LinGapE()], 2, 10.0
    counts = ties.counted(*given, OPTIONS)
    assert {key[3] for key in counts} == set(OPTIONS)
    assert {(count.runs, count.changed) for count in counts.values()} == {(32, 0)}


@pytest.mark.slow
def test_designs_of_rage():
    """16 runs, all of which changed on two devices while Frank-Wolfe divided by n + 2."""
    option = {"lanes, chunk, devices": ties.OPTIONS["lanes, chunk, devices"]}
    counts = ties.counted([ties.scaled], [je.BestArm()], [je.RAGE(steps=500)], 1, 10.0, option)
    assert [(count.runs, count.changed) for count in counts.values()] == [(16, 0)]


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
def test_rules_on_best_arm():
    """As far as twenty minutes of the processor reach; the command counts all problems."""
    given = ["--minutes", "20", "--instances", "2", "--problems", "best-arm"]
    assert ties.main(given) == 0


COUNTS = {
    ("plain", "best-arm", "LinGapE(rate=2.0)", "one lane"): ties.Count(2, 1, 32, 3),
    ("plain", "top-m", "LinGapE(rate=2.0)", "one lane"): ties.Count(1, 0, 16, 0),
    ("plain", "top-m", "Uniform()", "one lane"): ties.Count(1, 0, 16, 0),
    ("plain", "top-m", "LinGapE(rate=2.0)", "form square"): ties.Count(1, 1, 16, 2),
    ("basis", "top-m", "LinGapE(rate=2.0)", "form square"): ties.Count(1, 1, 16, 1),
}


def test_a_changed_run_is_reported():
    """Of one lane, and of a form where scores tie to the last digit."""
    first, *_, last = COUNTS
    assert list(ties.unexpected(COUNTS)) == [first, last]


def test_counts_are_added_up():
    table = ties.table(COUNTS, 2, "rule").splitlines()
    assert table[2] == "| LinGapE(rate=2.0) | 3/32 |  |  |  | 3/48 |  |"
    assert table[3] == "| Uniform() |  |  |  |  | 0/16 |  |"
