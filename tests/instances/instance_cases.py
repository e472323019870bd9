"""Cases and helpers that the tests of instances share."""

import numpy as np
import pytest

import jaxelim as je
from jaxelim.errors import ArgumentError

PHI = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
THETA = np.array([1.0, 0.5])


def refused(call, argument, *words, kind=ArgumentError):
    with pytest.raises(kind) as caught:
        call()
    assert caught.value.argument == argument
    for word in words:
        assert word in str(caught.value)
    return str(caught.value)


def stack(instances):
    """One batch of instances, or of those of batches, of one family, source and costs."""
    several = [instances] if isinstance(instances, je.Instance) else instances
    parts = [part for one in several for part in one.unbatched]
    arms, theta = ([getattr(part, name) for part in parts] for name in ("arms", "theta"))
    first = parts[0]
    return je.Instance(arms, theta, family=first.family, source=first.source, costs=first.costs)
