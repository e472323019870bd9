"""Every matrix product asks for the highest precision.

A GPU's TF32 would change pulls and certificates.
"""

import jax
import jax.extend as jex
import jax.numpy as jnp
import numpy as np
import pytest

import jaxelim as je
from jaxelim import catalogue, engine, scope
from jaxelim.simulation.plan import inputs_of, queue_of, spec_of
from tests.calls import checked, rows

RNG = np.random.default_rng(3)
LINEAR = je.Instance(RNG.normal(size=(5, 3)), [1.0, 0.3, -0.4])
UNSTRUCTURED = je.Instance(np.eye(4), [1.0, 0.4, -0.2, -0.7])
PRODUCTS = {"dot_general", "ragged_dot", "ragged_dot_general", "conv_general_dilated"}
LIBRARY = {"cholesky", "eigh", "lu", "triangular_solve", "householder_product", "geqrf", "svd"}
"""Primitives that a GPU leaves to a library that no CUDA graph holds."""
HIGHEST = jax.lax.Precision.HIGHEST


def equations(value):
    """Yield all equations of a jaxpr, nested ones included."""
    if isinstance(value, jex.core.ClosedJaxpr):
        value = value.jaxpr
    if isinstance(value, jex.core.Jaxpr):
        for equation in value.eqns:
            yield equation
            for inner in equation.params.values():
                yield from equations(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from equations(inner)


def low(traced) -> tuple[int, list[str]]:
    """The number of products, and those that do not ask for the highest precision."""
    found = [one for one in equations(traced) if one.primitive.name in PRODUCTS]
    fine = HIGHEST, (HIGHEST, HIGHEST)
    return len(found), [str(one) for one in found if one.params["precision"] not in fine]


def test_the_walk_finds_nested_products():
    x = jnp.ones((2, 2), jnp.float32)

    def hidden(x):
        step = lambda y: jax.lax.cond(y[0, 0] > 0, lambda y: y @ x, lambda y: y, y)  # noqa: E731
        return jax.lax.fori_loop(0, 3, lambda _, y: step(y), x)

    number, bad = low(jax.make_jaxpr(jax.jit(hidden))(x))
    assert number == 1 and len(bad) == 1
    assert low(jax.make_jaxpr(lambda x: jnp.matmul(x, x, precision="highest"))(x)) == (1, [])


@pytest.mark.parametrize("derivative", [False, True])
def test_h_star(derivative):
    """H* and w*, with first and second derivatives."""
    asked = lambda arms, theta: je.bounds.optimum(arms, theta, je.BestArm())[:2]  # noqa: E731
    with jax.enable_x64(True):
        asked = jax.jacfwd(jax.jacrev(asked, (0, 1)), 1) if derivative else asked
        number, bad = low(jax.make_jaxpr(asked)(LINEAR.arms, LINEAR.theta))
    assert number > 10 and not bad, bad


def program(rule, backend="gpu", instance=None, problem=None, stopping=None):
    """The jaxpr of the engine's program for a rule."""
    if instance is None:
        instance = LINEAR if "linear" in rule.traits.structures else UNSTRUCTURED
    own = rule.traits.stopping == ("native",)
    call = checked(
        instance, problem or je.BestArm(), rule, runs=20, ridge=1.0,
        stopping=stopping or (je.Native() if own else je.LLR()),
        engine=je.Engine(lanes=16, devices=1),
    )  # fmt: skip
    with scope.engine():
        spec = spec_of(call, backend=backend)
        inputs, queue = inputs_of(call, spec), queue_of(call, spec)[0]
        made = engine.Program(spec, inputs)
        return made.advance.jit.trace(inputs, queue, made.empty(inputs, queue), np.int32(1)).jaxpr


def check_program(rule, **changes):
    """The products of the engine's program for a rule; it calls no library."""
    traced = program(rule, **changes)
    number, bad = low(traced)
    assert number > 0 and not bad, bad
    assert not LIBRARY & {one.primitive.name for one in equations(traced)}


RULES = catalogue.rules()


@pytest.mark.parametrize("name", rows(RULES, set(RULES) - {"xy-adaptive"}))
def test_the_program_of_a_rule(name):
    kind = RULES[name]
    check_program(kind(np.full(LINEAR.K, 1 / LINEAR.K)) if kind is je.Oracle else kind())


@pytest.mark.parametrize("changes", [
    {"backend": "cpu"}, {"problem": je.TopM(2)}, {"problem": je.Thresholding(0.1)},
    {"stopping": (je.FullElimination(), je.LLR())},
    {"instance": je.Instance(LINEAR.arms, [LINEAR.theta, -LINEAR.theta])},
], ids=lambda changes: ", ".join(changes))  # fmt: skip
def test_the_program_in_other_forms(changes):
    check_program(je.LinGapE(), **changes)
