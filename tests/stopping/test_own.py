"""A stopping rule of one's own, on linear and on independent arms."""

import dataclasses
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
import pytest

import jaxelim as je


@dataclasses.dataclass(frozen=True)
class AsLLR(je.contracts.StoppingRule):
    """Stop as `LLR` does, by the methods that a page names."""

    name: ClassVar[str] = "as-llr"

    def observe(self, seen, state, beta):
        return state, seen.all_refuted(beta), jnp.zeros_like(seen.stats.t)


@pytest.mark.parametrize("name", ["linear-d20", "unstructured-k40"])
def test_it_stops_as_the_one_that_it_repeats(name):
    common = dict(runs=2, delta=0.1, max_samples=300)
    found = je.simulate(
        je.load_instance(name), je.BestArm(), je.LinGapE(), stopping=(je.LLR(), AsLLR()), **common
    )
    np.testing.assert_array_equal(found.samples[..., 0, :, :], found.samples[..., 1, :, :])
