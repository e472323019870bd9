"""A number of a run that is not finite ends the call, and the message says whose and where."""

import dataclasses
import pickle
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxelim as je
from jaxelim.engine import watching

SMALL = je.Engine(devices=1, chunk=64)
LATE = 200  # samples before the first fault; fewer than any run here takes


@dataclasses.dataclass(frozen=True)
class Faulty(je.families.OneParameter):
    """Unit Gaussians, of which one method gives `value` at times.

    Args:
        method: "draw", where pulls of an arm are 60; "update", after t samples; or
            another method, where an estimate rests on as many pulls as to be near 0.
        value: what it gives; traced, so that its values share a program.
    """

    method: str = ""
    value: float = np.nan
    name: ClassVar[str] = "faulty"
    noise: ClassVar[str] = "normal"

    def settled(self, **job: Any) -> "Faulty":
        return dataclasses.replace(self, value=0.0) if self.method == "draw" else self

    def nature(self, instance):
        means = super().nature(instance)
        return {"means": means, "value": np.full(len(means), instance.family.value)}

    def draw(self, lanes, nature, arm, pull, noise):
        reward = lanes.take(nature["means"], arm) + noise
        return jnp.where(pull == 60, nature["value"], reward) if self.method == "draw" else reward

    def _at_times(self, method, right, where):
        return jnp.where(where, self.value, right) if method == self.method else right

    def update(self, seen, arm, reward, go):
        stats = super().update(seen, arm, reward, go)
        late = stats.t >= LATE
        return dataclasses.replace(stats, means=self._at_times("update", stats.means, late))

    def loss(self, stat, by):
        return self._at_times("loss", by**2 / 2, jnp.abs(stat.mean) < 0.01)

    def reach(self, stat, radius, up):
        return self._at_times("reach", (2 * radius) ** 0.5, radius < 0.2)

    def posterior(self, key, counts, means):
        drawn = means + 1 / jnp.sqrt(counts)
        return self._at_times("posterior", drawn, counts > 20)


def fails(family, rule, kind: Any = je.errors.FamilyError):
    instance = je.Instance.unstructured([0.2, 0.1, 0.0], family)
    with pytest.raises(kind) as caught:
        je.simulate(instance, je.BestArm(), rule, runs=40, max_samples=3000, delta=1e-9,
                    engine=SMALL)  # fmt: skip
    return caught.value


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_reward(value):
    """Uniform sampling pulls arm 0 for the 61st time at t = 181."""
    family = Faulty("draw", value)
    error = fails(family, je.Uniform())
    assert (error.argument, error.given) == ("family", family)
    assert (error.t, error.run, error.instance) == (181, 0, None)
    assert "a reward was not finite at t = 181 of run 0" in str(error)


def test_an_llr():
    """Without the check these runs stop, and count as answers."""
    error = fails(Faulty("loss", np.inf), je.Uniform())
    assert "an LLR was not finite after" in str(error) and error.t > 3


@pytest.mark.slow
@pytest.mark.parametrize("method, rule, number, least", [
    ("update", je.Uniform(), "an estimate", LATE), ("reach", je.LUCB(), "an interval", 4),
    ("posterior", je.TTTS(), "a posterior draw", 21), ("loss", je.Uniform(), "an LLR", 4),
], ids=["update", "reach", "posterior", "loss"])  # fmt: skip
def test_other_numbers(method, rule, number, least):
    error = fails(Faulty(method), rule)
    assert f"{number} was not finite after" in str(error) and error.t >= least
    assert method != "update" or (error.t, error.run) == (LATE, 0)


@pytest.mark.slow
def test_the_librarys_own_families():
    """Of these the estimates are read at the end of each chunk, as a reward leaves its mark."""
    kind = type("Own", (Faulty,), {"__module__": "jaxelim.families.own"})
    error = fails(kind("draw", np.inf), je.Uniform())
    assert 181 <= error.t <= 181 + SMALL.chunk and error.run == 0
    assert f"an estimate was not finite within the first {error.t} samples of run 0" in str(error)
    traits = dataclasses.replace(je.Uniform.traits, lanes_last=False)
    greedy = type("Greedy", (je.Uniform,), {"traits": traits, "choose": lambda self, view, state: (
        jnp.where(view.t > 181, jax.lax.argmax(view.means, 0, jnp.int32), (view.t - 1) % 3),
        state)})  # fmt: skip
    error = fails(kind("draw", np.nan), greedy())  # whose arm is none, as a mean is NaN
    assert "an estimate was not finite within the first" in str(error)


@pytest.mark.slow
def test_a_live_run():
    run = je.LiveRun(["a", "b", "c"], je.BestArm(), je.Uniform(), family=Faulty("loss"),
                     threshold=je.Heuristic())  # fmt: skip
    run.tell(["a", "b", "c", "a"], [0.5, 0.2, 0.1, 0.6])
    run.tell(["c"] * 3, [0.0, 0.0, -0.1])
    with pytest.raises(je.errors.FamilyError, match="an LLR was not finite after 7 rewards"):
        run.ask()


def test_empty_lanes_stay_finite():
    """One run in 16 lanes. Steps of an empty lane, at the same t for ever, would have an end."""
    arms = [[1.0, 0.0], [1.0, 1e-6], [0.3, -1e-6], [-0.5, 2e-6]]
    with jax.debug_nans(True):
        run = je.trace(je.Instance(arms, [1e4, 3e4]), je.BestArm(), je.FWS(), max_samples=6000,
                       ridge=1.0, threshold=lambda t, delta: 1e30 + 0 * (t + delta))  # fmt: skip
    assert run.samples == 6000


def test_a_pickled_error_says_where():
    error = je.errors.FamilyError("family", 1, "finite", "nan", 5, 6, 7)
    after = pickle.loads(pickle.dumps(error))
    assert (after.t, after.run, after.instance, str(after)) == (5, 6, 7, str(error))


# Scores of a rule


@dataclasses.dataclass(frozen=True)
class Scored(je.contracts.SamplingRule):
    """Pulls the arm of the largest score, which is NaN from LATE on."""

    traits = je.contracts.Traits(reads=("pieces",), families=None)

    def choose(self, view, state):
        least = jnp.argmin(view.counts)
        score = jnp.log(LATE - view.time) + view.means
        return jnp.where(view.t % 2 == 0, jnp.argmax(score), least), state


@pytest.mark.slow
def test_scores_of_a_rule():
    """The scores are NaN from 201 on; the first choice that rests on them is at 202."""
    error = fails(je.Gaussian(), Scored(), je.errors.RuleError)
    assert (error.t, error.run, error.arm) == (LATE + 2, 0, None)
    assert "it chose among scores that are NaN at t = 202 of run 0" in str(error)


def test_a_choice_is_refused_only_where_it_rests_on_nan():
    """An argmax that is not used may be over NaN, and nanargmax skips it."""

    def f(x):
        unused = jnp.argmax(jnp.where(x > 0, x, jnp.nan))
        return {"arm": jnp.nanargmax(x), "or": jnp.where(x[0] > 0, unused, 1), "x": x * 2}

    def g(x):
        return jnp.argmin(x, 0), jnp.argmax(x)

    x = jnp.array([-1.0, jnp.nan, 3.0])
    both = [jax.vmap(each)(x[None]) for each in (f, watching.watched(f))]
    np.testing.assert_array_equal(*(one["x"] for one in both))
    assert [int(both[1][name][0]) for name in ("arm", "or")] == [2, 1]
    assert [int(one) for one in watching.watched(g)(x)] == [watching.NO_NUMBER] * 2
    assert [int(one) for one in watching.watched(g)(x[::2])] == [0, 1]
