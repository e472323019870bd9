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


@dataclasses.dataclass(frozen=True)
class Fault:
    """A planted fault.

    `caught`: a part of the sentence that refuses it; empty: no check sees it.
    """

    kind: str  # rule, problem or family
    thing: Any
    caught: str = ""


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


NATIVE = {"traits": dict(native="only", reads=("delta",))}


def _fixed(self, view, state):
    return view.t > 20, index_like(view.means) + 0 * view.t == 0


def _early(self, view, state):
    return view.t > 20, view.public


def _refuted(view, factor):
    """Whether factor times the LLR of every piece is above the threshold."""
    return ~view.lanes.any(view.shape.exists & (factor * view.llr <= view.beta))


def _half(self, view, state):
    return _refuted(view, 2.0), view.public


def _tenth(self, view, state):
    return _refuted(view, 1.1), view.public


def _next_arm(self, view, state):
    return _refuted(view, 1.0), jnp.roll(view.public, 1, 0)


def _not_the_last(self, view, state):
    known = jnp.where(index_like(view.means) < view.means.shape[0] - 1, view.means, -jnp.inf)
    return _refuted(view, 1.0), index_like(view.means) == view.lanes.argmax(known)


def _peeks(self, instance, problem, ridge):
    return (instance.theta + 0.0,)


def _other_lanes(self, view, state):
    return jnp.full_like(view.t, jnp.argmin(jnp.sum(view.means.reshape(4, -1), 1))), state


def _starves(self, view, state):
    return (view.t % 2).astype(jnp.int32), state


RULES = {
    "stops at t = 20, answers arm 0": Fault("rule", rule(native=_fixed, **NATIVE), "errors in"),
    "stops at t = 20, answers the best estimate": Fault(
        "rule", rule(native=_early, **NATIVE), "errors in"),
    "answers the arm after the best": Fault("rule", rule(native=_next_arm, **NATIVE), "errors in"),
    "never answers the last arm": Fault("rule", rule(native=_not_the_last, **NATIVE), "errors in"),
    "reads theta in prepare": Fault("rule", rule(prepare=_peeks), "prepare depends on theta"),
    "reads other runs of its batch": Fault("rule", rule(choose=_other_lanes), "alone"),
    "stops at half the threshold": Fault("rule", rule(native=_half, **NATIVE)),
    "LLRs too large by 10% in a native test": Fault("rule", rule(native=_tenth, **NATIVE)),
    "never pulls some arms": Fault("rule", rule(choose=_starves)),
}  # fmt: skip


# Problems: best arm written for one run, with one method in place of the right one.


@dataclasses.dataclass(frozen=True)
class Best(je.contracts.Problem):
    """Best arm, written for one run."""

    name = "best-of-all"

    def check(self, arms, theta):
        means = np.sort(arms @ theta)
        if means[-1] == means[-2]:
            raise je.errors.ArgumentError("instance", "two best arms", "one best arm")

    def answer(self, seen):
        return jnp.argmax(seen.means)

    def public(self, seen, answer):
        return jnp.arange(len(seen.means)) == answer

    def shape(self, seen, answer):
        return je.contracts.Pairs(answer, jnp.arange(len(seen.means)) != answer)


def problem(**members: Any) -> Any:
    """Best arm with these members."""
    return subclass(Best, **members)()


class _Pairs(PairSet):
    """Ordered pairs; what is left of a set has its class."""

    def drop(self, seen, refuted):
        return _of(type(self), super().drop(seen, refuted))

    def drop_all(self, seen, beta):
        return _of(type(self), super().drop_all(seen, beta))


def _of(kind, pieces):
    return kind(pieces.worse, pieces.found, pieces.kept_times, pieces.m)


def pieces(**members: Any) -> Any:
    """Best arm with a set of pieces of its own, with these members."""
    kind = subclass(_Pairs, **members)
    jax.tree_util.register_dataclass(kind, ["worse", "found", "kept_times"], ["m"])

    def full(self, seen, pair_times=False):
        return _of(kind, made_from(seen))

    return problem(pieces=full)


def _answers_0(self, seen):
    return jnp.argmax(seen.means) * 0


def _two_at_ties(self, seen, answer):
    return seen.means == jnp.max(seen.means)


def _no_tied_rival(self, seen, answer):
    return je.contracts.Pairs(answer, seen.means < jnp.max(seen.means))


def _no_first_arm(self, seen, answer):
    arms = jnp.arange(len(seen.means))
    return je.contracts.Pairs(answer, (arms != answer) & ((arms != 0) | (answer == 1)))


def _slack(self, seen, answer):
    return je.contracts.Pairs(answer, jnp.arange(len(seen.means)) != answer, slack=0.3)


def _always(self, answers, truth, means):
    return np.ones(answers.shape[:-1], bool)


def _first_two(self, arms, theta):
    if (arms @ theta)[0] == (arms @ theta)[1]:
        raise je.errors.ArgumentError("instance", "two best arms", "one best arm")


def _forgets(self, seen):
    active = PairSet.active(self, seen)
    return active & (index_like(active) != active.shape[0] - 1)


def _at_nine_tenths(self, seen, beta):
    return _Pairs.drop_all(self, seen, 0.9 * beta)


def _one_left(self, seen, full):
    return seen.lanes.sum(self.active(seen)) <= 1


def _reverse_too(self, seen, refuted):
    k = self.worse.shape[1]
    new, old = (unpack(x.worse, k) for x in (PairSet.drop(self, seen, refuted), self))
    both = new | jnp.swapaxes(new & ~old, 0, 1)
    return dataclasses.replace(self, worse=pack(seen.lanes, both))


PROBLEMS = {
    "always answers arm 0": Fault("problem", problem(answer=_answers_0), "in a piece is True"),
    "two answers where means tie": Fault(
        "problem", problem(public=_two_at_ties), "in a piece is False"),
    "no piece for a rival that ties": Fault(
        "problem", problem(shape=_no_tied_rival), "in a piece of it is True"),
    "no piece for the first arm": Fault(
        "problem", problem(shape=_no_first_arm), "in a piece is False"),
    "pieces that leave room": Fault("problem", problem(shape=_slack), "in a piece is False"),
    "correct is always True": Fault("problem", problem(correct=_always), "correct is True"),
    "check sees ties of the first two arms alone": Fault(
        "problem", problem(check=_first_two), "check accepts"),
    "active forgets a piece": Fault("problem", pieces(active=_forgets), "lacks a piece"),
    "full elimination at 0.9 beta": Fault(
        "problem", pieces(drop_all=_at_nine_tenths), "drops a piece that is not refuted"),
    "settled with one piece left": Fault("problem", pieces(settled=_one_left), "1 pieces left"),
    "dropping a piece drops its reverse too": Fault("problem", pieces(drop=_reverse_too)),
}  # fmt: skip


# Families: unit Gaussians, or geometric rewards, with one method in place of the right one.


def family(**members: Any) -> Any:
    """Unit Gaussians with these members, by arm."""
    doc = "A faulty family.\n\nArgs:\n    std: as there."
    names = {"name": "faulty", "__repr__": lambda self: f"Faulty(std={self.std})",
             "for_arms": lambda self, k: type(self)(tuple(np.resize(self.std, k).tolist())),
             **members}  # fmt: skip
    return subclass(Gaussian, doc, **names)((1.0, 1.0))


def _drawn(shape):
    """Draws of mean mu that are shape(noise, pull) from it."""

    def draw(self, lanes, nature, arm, pull, noise):
        return lanes.take(nature["mean"], arm) + shape(noise, pull)

    return draw


def _laplace(u, pull):
    half = jnp.maximum(u, 2.0**-54) - 0.5
    return -jnp.sign(half) * jnp.log1p(-2 * jnp.abs(half)) / 2**0.5


def _uniform(u, pull):
    return 12**0.5 * (u - 0.5)


def _mixed(z, pull):
    return z * jnp.where(jax.lax.population_count(pull) % 2 == 0, 1.03**0.5, 0.97**0.5)


def _better_at_first(z, pull):
    return z + jnp.where(pull == 0, 0.5, 0.0)


def _laplace_of_unknown(self, lanes, nature, arm, pull, noise):
    return lanes.take(nature, arm) + _laplace(noise, pull)


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
    return _Large.of(self, space, shape, stat, self.weight(stat))


FAMILIES = {
    "Laplace rewards of variance 1": Fault(
        "family", family(draw=_drawn(_laplace), noise="uniform"), "not the likelihood"),
    "uniform rewards of variance 1": Fault(
        "family", family(draw=_drawn(_uniform), noise="uniform"), "not the likelihood"),
    "two points of the variance of geometric rewards": Fault(
        "family", subclass(Geometric, name="faulty", draw=_two_points)(), "not the likelihood"),
    "first rewards of an arm are better": Fault(
        "family", family(draw=_drawn(_better_at_first)), "have mean"),
    "evidence too large by 10%": Fault(
        "family", family(evidence=_large), "not that of the losses"),
    "loss too large by 10%": Fault("family", family(
        loss=lambda self, stat, by: 1.1 * by**2 / 2,
        reach=lambda self, stat, radius, up: jnp.sqrt(2 * radius / 1.1)), "not the likelihood"),
    "Gaussians of two variances by turns, 0.97 and 1.03": Fault(
        "family", family(draw=_drawn(_mixed))),
    "Laplace rewards under unknown variance": Fault("family", subclass(
        je.GaussianUnknownVariance, je.GaussianUnknownVariance.__doc__, name="faulty",
        noise="uniform", draw=_laplace_of_unknown, __repr__=lambda self: "Faulty()")()),
}  # fmt: skip

ALL = {**RULES, **PROBLEMS, **FAMILIES}
