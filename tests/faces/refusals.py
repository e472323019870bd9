"""What the tests of wrong arguments share: arguments, calls, and how a refusal reads."""

import jax.numpy as jnp
import numpy as np
import pytest

import jaxelim as je
from jaxelim.engine import program

NAN, INF = float("nan"), float("inf")
PHI = np.array([[1.0, 0.0], [0.0, 1.0], [-0.6, 0.8], [0.3, -0.4]])
EASY = je.Instance(PHI, [2.0, 0.5])
BATCH = je.Instance(PHI, [[2.0, 0.5], [0.3, 1.0]])
UNSTRUCTURED = je.Instance(np.eye(3), [1.0, 0.0, -1.0])
SELECTIVE, FULL = je.SelectiveElimination(), je.FullElimination()
NOISE = np.zeros((2, 50))
Y = np.array([[[1.0, -1.0]], [[-1.0, 1.0]]])


@pytest.fixture(autouse=True)
def nothing_compiles():
    """A refusal comes before anything compiles."""
    before = {one for one in program.values() if one.traces}
    yield
    assert {one for one in program.values() if one.traces} <= before


def refused(call, argument, *words, kind=je.errors.ArgumentError):
    with pytest.raises(kind) as caught:
        call()
    error = caught.value
    assert error.argument == argument
    text = str(error)
    assert text.startswith(f"{argument}: got ") and "; allowed: " in text and error.allowed
    for word in words:
        assert word in text
    return error


def simulate(**changes):
    changes = {"runs": 2, "max_samples": 100, **changes}
    return je.simulate(
        changes.pop("instance", EASY),
        changes.pop("problem", je.BestArm()),
        changes.pop("rule", je.LinGapE()),
        **changes,
    )


def trace(**changes):
    changes = {"max_samples": 100, **changes}
    return je.trace(
        changes.pop("instance", EASY),
        changes.pop("problem", je.BestArm()),
        changes.pop("rule", je.LinGapE()),
        **changes,
    )


def each(table):
    """A (name, value) parameter for every value listed under a name."""
    return [
        pytest.param(name, value, id=f"{name}: {type(value).__name__} {i}")
        for name, values in table.items()
        for i, value in enumerate(values)
    ]


NOT_REAL = [
    True,
    np.True_,
    1j,
    "1",
    None,
    NAN,
    INF,
    -INF,
    [],
    {},
    object(),
    np.array([0.5], object),
]
NOT_WHOLE = [True, np.True_, 1.0, 1.5, NAN, INF, 1j, "1", None, [], object()]


def larger(theta):
    return jnp.argmax(theta).astype(jnp.int32)
