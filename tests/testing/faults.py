"""Faulty rules, problems and families, planted to see which check finds each.

docs/explanation/why-believe-the-numbers.md has the same list.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxelim as je
from jaxelim.contracts.sets import PairSet, made_from, pack, unpack
from jaxelim.families.arm import ArmEvidence
from jaxelim.families.gaussian import Gaussian
from jaxelim.lanes import index_like
from tests.families.family_cases import Geometric


def subclass(base: Any, doc: str = "Faulty.", **members: Any) -> Any:
    """A frozen dataclass of no further field, with these members in place of the right ones."""
    names = {"__doc__": doc, **members}
    return dataclasses.make_dataclass("Faulty", [], bases=(base,), namespace=names, frozen=True)


# Rules: Uniform with one method in place of the right one.


def rule(**members: Any) -> Any:
    """Uniform sampling with these members, for best arm among independent arms."""
    traits = dataclasses.replace(
        je.Uniform.traits, problems=("best-arm",), structures=("unstructured",),
        **members.pop("traits", {}),
    )  # fmt: skip
    return jax.tree_util.register_static(subclass(je.Uniform, traits=traits, **members))()


def native(stops: Any, answer: Any = lambda view: view.public) -> Any:
    """Uniform sampling that stops by a test of its own, with this answer."""
    return rule(native=lambda self, view, state: (stops(view), answer(view)),
                traits=dict(native="only", reads=("delta",)))  # fmt: skip


def _refuted(view, factor=1.0):
    """Whether factor times the LLR of every piece is above the threshold."""
    return ~view.lanes.any(view.shape.exists & (factor * view.llr <= view.beta))


def _not_the_last(view):
    return index_like(view.means) == view.lanes.argmax(view.means[:-1])


def _other_lanes(self, view, state):
    return jnp.full_like(view.t, jnp.argmin(jnp.sum(view.means.reshape(4, -1), 1))), state


RULES = {
    "stops at t = 20, answers arm 0": (
        native(lambda view: view.t > 20, lambda view: index_like(view.means) + 0 * view.t == 0),
        "errors in"),
    "stops at t = 20, answers the best estimate": (native(lambda view: view.t > 20), "errors in"),
    "answers the arm after the best": (
        native(_refuted, lambda view: jnp.roll(view.public, 1, 0)), "errors in"),
    "never answers the last arm": (native(_refuted, _not_the_last), "errors in"),
    "reads theta in prepare": (
        rule(prepare=lambda self, instance, problem, ridge: (instance.theta + 0.0,)),
        "prepare depends on theta"),
    "reads other runs of its batch": (rule(choose=_other_lanes), "alone"),
    "stops at half the threshold": (native(lambda view: _refuted(view, 2.0)), ""),
    "LLRs too large by 10% in a native test": (native(lambda view: _refuted(view, 1.1)), ""),
    "never pulls some arms": (
        rule(choose=lambda self, view, state: ((view.t % 2).astype(jnp.int32), state)), ""),
}  # fmt: skip
"""The sentence that refuses each; empty: no check sees it."""


# Problems: best arm written for one run, with one method in place of the right one.


@dataclasses.dataclass(frozen=True)
class Best(je.contracts.Problem):
    """Best arm, written for one run."""

    name = "best-of-all"

    def check(self, arms, theta):
        means = np.sort(arms @ theta)
        _refuse_ties(means[-1], means[-2])

    def answer(self, seen):
        return jnp.argmax(seen.means)

    def public(self, seen, answer):
        return jnp.arange(len(seen.means)) == answer

    def shape(self, seen, answer):
        return je.contracts.Pairs(answer, jnp.arange(len(seen.means)) != answer)


def _refuse_ties(one, other):
    if one == other:
        raise je.errors.ArgumentError("instance", "two best arms", "one best arm")


def problem(**members: Any) -> Any:
    """Best arm with these members."""
    return subclass(Best, **members)()


def pieces(**members: Any) -> Any:
    """Best arm with a set of pieces of its own, with these members."""
    kind = subclass(PairSet, **members)
    jax.tree_util.register_dataclass(kind, ["worse", "kept_times"], ["m"])
    return problem(pieces=lambda self, seen, pair_times=False: kind(made_from(seen).worse))


def _no_first_arm(self, seen, answer):
    arms = jnp.arange(len(seen.means))
    return je.contracts.Pairs(answer, (arms != answer) & ((arms != 0) | (answer == 1)))


def _forgets(self, seen):
    active = PairSet.active(self, seen)
    return active & (index_like(active) != active.shape[0] - 1)


def _reverse_too(self, seen, refuted):
    k = self.worse.shape[1]
    new, old = (unpack(x.worse, k) for x in (PairSet.drop(self, seen, refuted), self))
    both = new | jnp.swapaxes(new & ~old, 0, 1)
    return dataclasses.replace(self, worse=pack(seen.lanes, both))


PROBLEMS = {
    "always answers arm 0": (
        problem(answer=lambda self, seen: jnp.argmax(seen.means) * 0), "in a piece is True"),
    "two answers where means tie": (
        problem(public=lambda self, seen, answer: seen.means == jnp.max(seen.means)),
        "in a piece is False"),
    "no piece for a rival that ties": (
        problem(shape=lambda self, seen, answer: je.contracts.Pairs(
            answer, seen.means < jnp.max(seen.means))), "in a piece is True"),
    "no piece for the first arm": (problem(shape=_no_first_arm), "in a piece is False"),
    "pieces that leave room": (
        problem(shape=lambda self, seen, answer: je.contracts.Pairs(
            answer, jnp.arange(len(seen.means)) != answer, slack=0.3)), "in a piece is False"),
    "correct is always True": (
        problem(correct=lambda self, answers, truth, means: np.ones(answers.shape[:-1], bool)),
        "correct is True"),
    "check sees ties of the first two arms alone": (
        problem(check=lambda self, arms, theta: _refuse_ties(*(arms @ theta)[:2])),
        "check accepts"),
    "active forgets a piece": (pieces(active=_forgets), "lacks a piece"),
    "full elimination at 0.9 beta": (
        pieces(drop_all=lambda self, seen, beta: PairSet.drop_all(self, seen, 0.9 * beta)),
        "drops a piece that is not refuted"),
    "settled with one piece left": (
        pieces(settled=lambda self, seen, full: seen.lanes.sum(self.active(seen)) <= 1),
        "1 pieces left"),
    "dropping a piece drops its reverse too": (pieces(drop=_reverse_too), ""),
}  # fmt: skip


# Families: unit Gaussians, or geometric rewards, with one method in place of the right one.


def family(**members: Any) -> Any:
    """Unit Gaussians with these members, by arm."""
    doc = "A faulty family.\n\nArgs:\n    std: as there."
    names = {"name": "faulty", "__repr__": lambda self: f"Faulty(std={self.std})",
             "for_arms": lambda self, k: type(self)(tuple(np.resize(self.std, k).tolist())),
             **members}  # fmt: skip
    return subclass(Gaussian, doc, **names)((1.0, 1.0))


def drawn(shape: Any, noise: str = "normal") -> Any:
    """`family` whose draws of mean mu are shape(noise, pull) from it."""

    def draw(self, lanes, nature, arm, pull, noise):
        return lanes.take(nature["mean"], arm) + shape(noise, pull)

    return family(draw=draw, noise=noise)


def _laplace(u, pull=None):
    half = jnp.maximum(u, 2.0**-54) - 0.5
    return -jnp.sign(half) * jnp.log1p(-2 * jnp.abs(half)) / 2**0.5


def _mixed(z, pull):
    return z * jnp.where(jax.lax.population_count(pull) % 2 == 0, 1.03**0.5, 0.97**0.5)


def _laplace_of_unknown(self, lanes, nature, arm, pull, noise):
    return lanes.take(nature, arm) + _laplace(noise)


def _two_points(self, lanes, nature, arm, pull, noise):
    mu = lanes.take(nature, arm)
    return jnp.where(noise < mu / (1 + 2 * mu), 1 + 2 * mu, 0.0)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class _Large(ArmEvidence):
    """Evidence that is too large by 10%, and its gradient."""

    def values(self):
        return 1.1 * super().values()

    def gradient(self, piece):
        return 1.1 * super().gradient(piece)


def _large(self, space, stats, shape) -> ArmEvidence:
    stat = self.stat(stats)
    return _Large(self, space, shape, stat, self.weight(stat))


FAMILIES = {
    "Laplace rewards of variance 1": (drawn(_laplace, "uniform"), "not the likelihood"),
    "uniform rewards of variance 1": (
        drawn(lambda u, pull: 12**0.5 * (u - 0.5), "uniform"), "not the likelihood"),
    "two points of the variance of geometric rewards": (
        subclass(Geometric, name="faulty", draw=_two_points)(), "not the likelihood"),
    "first rewards of an arm are better": (
        drawn(lambda z, pull: z + jnp.where(pull == 0, 0.5, 0.0)), "have mean"),
    "evidence too large by 10%": (family(evidence=_large), "not that of the losses"),
    "loss too large by 10%": (family(
        loss=lambda self, stat, by: 1.1 * by**2 / 2,
        reach=lambda self, stat, radius, up: jnp.sqrt(2 * radius / 1.1)), "not the likelihood"),
    "Gaussians of two variances by turns, 0.97 and 1.03": (drawn(_mixed), ""),
    "Laplace rewards under unknown variance": (subclass(
        je.GaussianUnknownVariance, je.GaussianUnknownVariance.__doc__, name="faulty",
        noise="uniform", draw=_laplace_of_unknown, __repr__=lambda self: "Faulty()")(), ""),
}  # fmt: skip

ALL = {"rule": RULES, "problem": PROBLEMS, "family": FAMILIES}
