"""What the tests of wrong arguments share: arguments, calls, and how a refusal reads."""

import numpy as np
import pytest

import jaxelim as je
from jaxelim.engine import program

PHI = np.array([[1.0, 0.0], [0.0, 1.0], [-0.6, 0.8], [0.3, -0.4]])
EASY = je.Instance(PHI, [2.0, 0.5])
UNSTRUCTURED = je.Instance(np.eye(3), [1.0, 0.0, -1.0])
USUAL = dict(instance=EASY, problem=je.BestArm(), rule=je.LinGapE(), max_samples=100)
SELECTIVE = je.SelectiveElimination()


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
    return je.simulate(**(USUAL | {"runs": 2} | changes))


def trace(**changes):
    return je.trace(**(USUAL | changes))
