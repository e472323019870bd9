"""A stopping rule of a user's own: allowed beside the shipped ones, told apart by its name."""

import dataclasses
import inspect
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

import jaxelim as je
from jaxelim.cli import results


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Patience(je.contracts.StoppingRule):
    """Stop when the empirical answer was the same at `n` checks in a row."""

    n: int = 20
    name: ClassVar[str] = "patience"

    def start(self, seen, pair_times=False):
        return seen.public, jnp.zeros_like(seen.stats.t)

    def observe(self, seen, state, beta):
        last, age = state
        same = ~seen.lanes.any(seen.public != last)
        age = jnp.where(same, age + 1, 1)
        return (seen.public, age), age >= self.n, jnp.zeros_like(age)


@dataclasses.dataclass(frozen=True)
class AsLLR(je.contracts.StoppingRule):
    """Stop as `LLR` does, by the methods that a page names."""

    name: ClassVar[str] = "as-llr"

    def observe(self, seen, state, beta):
        return state, seen.all_refuted(beta), jnp.zeros_like(seen.stats.t)


INSTANCE = je.Instance.unstructured([0.3, 0.2, 0.0])


def test_it_stops_where_a_plain_loop_says():
    """And one that repeats `LLR` stops as that does."""
    stops = je.LLR(), Patience(), AsLLR()
    result = je.simulate(INSTANCE, je.BestArm(), je.Uniform(), stopping=stops, runs=3, delta=0.2)
    assert result.stopped.all()
    np.testing.assert_array_equal(result.samples[0], result.samples[2])
    for run in range(3):
        trace = je.trace(INSTANCE, je.BestArm(), je.Uniform(), stopping=Patience(), run=run,
                         delta=0.2)  # fmt: skip
        sums, counts, last, age = np.zeros(3), np.zeros(3), -1, 0
        for t, (arm, reward) in enumerate(zip(trace.arms, trace.rewards, strict=True), 1):
            sums[arm] += reward
            counts[arm] += 1
            if t < 3:
                continue
            best = int(np.argmax(sums / counts))
            age = age + 1 if best == last else 1
            last = best
            if age == 20:
                break
        assert t == trace.samples == result.samples[1, 0, run]
        assert result.answer[1, 0, run].argmax() == last


def test_the_command_line_has_the_defaults_of_simulate():
    """Every option of `jaxelim run` that is an argument of `simulate` has its default."""
    ours = {one.name: one for one in dataclasses.fields(results.Run)}
    theirs = inspect.signature(je.simulate).parameters
    same = ("runs", "seed", "max_samples", "ridge")
    assert {name: ours[name].default for name in same} == {
        name: theirs[name].default for name in same
    }
    assert ours["delta"].default == (theirs["delta"].default,)
    assert ours["stopping"].default == (theirs["stopping"].default.name,)
