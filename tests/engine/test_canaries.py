"""Known miscompilations of XLA:CPU: this JAX lacks them, or no program of ours has the pattern."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxelim as je
from jaxelim import engine, scope
from jaxelim.engine.one_lane import is_literal, operations
from tests.calls import planned

ANGLES = np.array([0.0, 0.9, 1.8, 2.7, 3.6])
FIVE = je.Instance(np.stack([np.cos(ANGLES), np.sin(ANGLES)], 1), [1.0, 0.3], name="five")
ROWS = 20_001
"""JAX 0.10.2 is wrong from row 16,384 on."""
WRITES = {"dynamic_update_slice": 1, "scatter": 2, "scatter-add": 2}
"""Operations that write into their first operand, and which operand they write."""
READS = ("slice", "dynamic_slice", "gather")


@pytest.mark.parametrize("d", [2, 3, 5, 6, 8])
def test_sums_of_products_over_many_rows(d):
    """jax-ml/jax 39103."""
    rng = np.random.default_rng(d)
    matrix, rows = rng.normal(size=(d, d)), rng.normal(size=(ROWS, d))
    with scope.engine():
        found = jax.jit(jax.vmap(lambda row: jnp.sum((matrix @ row) ** 2)))(rows)
    np.testing.assert_allclose(found, ((rows @ matrix.T) ** 2).sum(1), rtol=1e-12)


def makers(equations):
    """The equation of each variable."""
    return {out: one for one in equations for out in one.outvars}


def ancestors(makers, v):
    """The equations that a variable is computed from; `makers` has the equation of each."""
    todo, found = [v], {}
    while todo:
        one = None if is_literal(v := todo.pop()) else makers.get(v)
        if one is not None and id(one) not in found:
            found[id(one)] = one
            todo += one.invars
    return found.values()


def written_from_itself(equations):
    """Writes of what is read from the same array at other places (openxla/xla 49176)."""
    known = makers(equations)
    for one in equations:
        if (written := WRITES.get(one.primitive.name)) is not None:
            for read in ancestors(known, one.invars[written]):
                if read.primitive.name in READS and read.invars[0] is one.invars[0]:
                    yield one, read


def slices_of_slices(equations):
    """Slices of slices, both at a place of the same axis (jax-ml/jax 40849)."""
    known = makers(equations)
    for one in equations:
        if one.primitive.name == "dynamic_slice" and not is_literal(one.invars[0]):
            first = known.get(one.invars[0])
            if first is not None and first.primitive.name == "dynamic_slice":
                sliced = first.invars[0], one.invars[0], one.outvars[0]
                sizes = zip(*(v.aval.shape for v in sliced), strict=True)
                if any(whole > part > least for whole, part, least in sizes):
                    yield one, first


COINS = je.Instance(np.eye(4), [0.6, 0.5, 0.4, 0.3], family=je.Bernoulli())
FINDERS = (written_from_itself, slices_of_slices)


@pytest.mark.parametrize("instance, rule", [
    (FIVE, je.LinGapE()), (FIVE, je.LinGame()), (FIVE, je.FWS()), (FIVE, je.LazyTaS()),
    (FIVE, je.TrackAndStop()), (FIVE, je.OptimisticTaS()), (COINS, je.TTUCB()),
    (COINS, je.LUCB()), (COINS, je.TrackAndStop()),
], ids=lambda x: type(x).__name__)  # fmt: skip
def test_no_program_has_a_pattern_that_is_compiled_wrongly(instance, rule):
    """Two that every JAX in the range compiles to wrong programs, in a whole call of `advance`."""
    stop = je.SelectiveElimination()
    settings = dict(stopping=stop, elimination=stop if rule.traits.elimination else None, runs=80,
                    ridge=None, engine=je.Engine(devices=1, lanes=32))  # fmt: skip
    spec, inputs, queue = planned((instance, je.BestArm(), rule), settings)
    with scope.engine():
        program = engine.program(spec, inputs)
        given = inputs, queue, program.empty(inputs, queue), np.int32(1)
        equations = list(operations(jax.make_jaxpr(program.loop.advance)(*given).jaxpr))
    assert len(equations) > 500
    for find in FINDERS:
        assert not list(find(equations)), find.__name__


def test_the_patterns_are_found():
    """As the reports have them, inside another function too."""

    def shifted(x):
        return x.at[1:].set(2 * x[:-1]).reshape(2, -1)

    def twice(x, i=1):
        return jax.lax.dynamic_slice(jax.lax.dynamic_slice(x, (i,), (4,)), (i + 1,), (2,))

    for find, f in ((written_from_itself, jax.jit(shifted)), (slices_of_slices, twice)):
        assert list(find(list(operations(jax.make_jaxpr(f)(np.ones(10, np.float32)).jaxpr))))


@pytest.mark.parametrize("rule, many", [(je.LinGame(), True), (je.LinGapE(), False)], ids=repr)
def test_steps_with_loops_inside_stay_many_kernels(rule, many):
    """XLA would make one kernel of LinGame's steps, which is slower."""
    spec, inputs, _ = planned((FIVE, je.BestArm(), rule), {})
    with scope.engine():
        options = spec.execution.compiler_options(None, engine.outline(spec, inputs).inner_loops)
    assert ("xla_disable_hlo_passes" in options) == many
