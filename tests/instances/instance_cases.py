"""Cases and helpers that the tests of instances share."""

import numpy as np
import pytest

from jaxelim.errors import ArgumentError

NAN, INF = float("nan"), float("inf")
PHI = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
THETA = np.array([1.0, 0.5])


def refused(call, argument, *words, kind=ArgumentError):
    with pytest.raises(kind) as caught:
        call()
    assert caught.value.argument == argument
    for word in words:
        assert word in str(caught.value)
    return str(caught.value)
