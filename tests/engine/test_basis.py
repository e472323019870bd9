"""Independent arms without a ridge are computed as an unstructured instance."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxelim as je
from tests.calls import planned, stack
from tests.engine.test_invariance import DEFAULT, numbers

RNG = np.random.default_rng(0)
THREE = je.Instance(RNG.normal(size=(3, 3)), RNG.normal(size=3))
SIX = je.Instance(RNG.normal(size=(6, 3)), RNG.normal(size=3))
COPY = je.Instance(np.concatenate([THREE.arms, THREE.arms[:1]]), THREE.theta)
FOUR = je.Instance(RNG.normal(size=(4, 3)), RNG.normal(size=3))
BATCH = je.Instance(RNG.normal(size=(2, 3, 3)), RNG.normal(size=(2, 3)))


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Coordinates(je.LinGapE):
    traits = dataclasses.replace(je.LinGapE.traits, basis_free=False)


def test_runs_are_those_of_the_means():
    """Every number of a run, and the estimate after the initial pulls in given coordinates."""
    means = je.Instance.unstructured(THREE.means)
    settings = dict(delta=0.1, max_samples=300)
    found, known = (je.trace(one, je.BestArm(), je.LinGapE(), **settings) for one in (THREE, means))
    np.testing.assert_array_equal(found.arms, known.arms)
    np.testing.assert_array_equal(found.rewards, known.rewards)
    expected = np.linalg.solve(THREE.arms, found.rewards[:3])
    np.testing.assert_allclose(found.theta_hat_0, expected, rtol=1e-12)


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Own(je.LLR):
    """A stopping rule of one's own, which may read the coordinates."""

    name: ClassVar[str] = "own"


def test_copies_are_of_the_basis():
    """Each of three arms is a coordinate, and its copy the same one."""
    _, features = plan(COPY, je.BestArm(), je.LinGapE())
    np.testing.assert_array_equal(features[0], np.eye(3)[[0, 1, 2, 0]])
    _, features = plan(stack([COPY, FOUR]), je.BestArm(), je.LinGapE())
    np.testing.assert_array_equal(features, [np.eye(3)[[0, 1, 2, 0]], FOUR.arms])


def plan(*given, **settings):
    """The form of the design, and the features that a program gets; compiles nothing."""
    spec, inputs, _ = planned(given, {"ridge": 0.0, "engine": DEFAULT} | settings)
    return spec.family.form, inputs.features


@pytest.mark.parametrize("instance, problem, rule, more, form", [
    (THREE, je.BestArm(), je.LinGapE(), {}, "diagonal"),
    (BATCH, je.TopM(2), je.LinGame(), {}, "diagonal"),
    (THREE, je.Thresholding(0.1), je.TrackAndStop(), {}, "diagonal"),
    (THREE, je.BestArm(), je.LinGapE(), {"ridge": 1.0}, "square"),
    (THREE, je.BestArm(), je.LinGapE(), {"stopping": Own()}, "square"),
    (THREE, je.BestArm(), je.LazyTaS(), {}, "square"),
    (THREE, je.BestArm(), Coordinates(), {}, "square"),
    (THREE, je.BestArm(items=SIX.arms), je.LinGapE(), {}, "square"),
    (SIX, je.BestArm(), je.LinGapE(), {}, "square"),
    (COPY, je.BestArm(), je.LinGapE(), {"ridge": 1.0}, "square"),
])  # fmt: skip
def test_which_jobs_are(instance, problem, rule, more, form):
    found, features = plan(instance, problem, rule, **more)
    assert found == form
    same = np.array_equal(features.reshape(instance.arms.shape), instance.arms)
    assert same == (form != "diagonal")


def test_a_threshold_by_piece_keeps_the_coordinates():
    """Its test of linear arms is another than that of unstructured ones."""
    for threshold, kept in ((je.Heuristic(), False), (je.Mixture(), True)):
        job = je.Experiment(THREE, je.BestArm(), je.LinGapE(), threshold=threshold)
        assert (job.computed is THREE) == kept


TURNED = np.random.default_rng(3).normal(size=(3, 3))


@dataclasses.dataclass(frozen=True)
class FirstCoordinate(je.contracts.SamplingRule):
    """Reads coordinates, so that its runs are others in others."""

    traits = je.contracts.Traits(reads=("pieces",))

    def choose(self, view, state):
        return jnp.argmax(jnp.abs(view.features[:, 0]) / view.counts).astype(jnp.int32), state


@pytest.mark.slow
@pytest.mark.parametrize("rule", [je.FWS(), je.XYAdaptive(), FirstCoordinate()], ids=repr)
def test_the_trait_holds(rule):
    """24 runs in other coordinates are equal, of 10 to 300 samples; random arms do not tie."""
    theta = 0.3 * SIX.theta
    other = je.Instance(SIX.arms @ TURNED, np.linalg.solve(TURNED, theta))
    given = je.Instance(SIX.arms, theta), other
    one, two = (numbers(x, je.BestArm(), rule, DEFAULT, runs=24) for x in given)
    differ = (one != two).any(1).mean()
    assert differ > 0.5 if isinstance(rule, FirstCoordinate) else differ == 0
