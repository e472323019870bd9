"""What a call's arguments are together: refused combinations, and whether its stops are proven."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jax import Array

from jaxelim import scope
from jaxelim.contracts import KNOWN_STOPPING, SamplingRule
from jaxelim.contracts.proofs import Call, proof_of
from jaxelim.errors import ArgumentError, StarvationWarning, UnsupportedError, in_words, warn
from jaxelim.stopping import Resets
from jaxelim.thresholds import POINTS, Mixture, values

if TYPE_CHECKING:
    from jaxelim.simulation.experiment import Experiment

_TIMES = 10.0 ** np.arange(3, 7)  # samples at which a test is compared with what a rule explores


def check(call: "Experiment") -> None:
    """Refuse a threshold, a combination or a layout that is not defined.

    A threshold must not decrease in t or increase in delta, and be finite and above 0.
    """
    threshold = call.threshold
    if not callable(threshold) or isinstance(threshold, type):
        allowed = "a threshold such as Heuristic(), or a callable of (t, delta)"
        raise ArgumentError("threshold", threshold, allowed)
    for name in ("threshold", "problem", "rule", "elimination"):  # keys in the cache of programs
        try:
            hash(getattr(call, name))
        except TypeError as error:
            allowed = "something hashable, such as a frozen dataclass of hashable fields, or a "
            allowed, note = f"{allowed}function", in_words(error)
            raise ArgumentError(name, getattr(call, name), allowed, note) from error
    found = _levels("threshold", threshold, threshold, call)
    slack = 1e-12 * np.abs(found).max()
    for axis, allowed in ((1, "does not decrease in t"), (0, "does not increase in delta")):
        if np.any(np.diff(found, axis=axis) < -slack):
            raise ArgumentError("threshold", threshold, f"a threshold that {allowed}")
    _check_combination(call)
    if isinstance(call.elimination, Resets):
        call.elimination.check(threshold)
        own = call.elimination.alpha is not None
        given = ("alpha", call.elimination.alpha) if own else ("threshold", threshold)
        _levels(*given, _Alpha(call.elimination, threshold), call)
    if type(call.rule).caution is SamplingRule.caution:
        return
    delta = float(np.min(call.delta))
    with scope.engine():
        levels = np.asarray(values(threshold, _TIMES, delta), float)
    if isinstance(threshold, Mixture):
        levels = levels + threshold.price(call.instance, _TIMES)
    caution = call.rule.caution(call.instance, threshold, _TIMES, levels, delta)
    if caution is not None:  # the test asks for more than the rule explores
        warn(caution, StarvationWarning)


class _Alpha(NamedTuple):
    """The level of elimination at sampling, as a threshold."""

    elimination: Any
    threshold: Any

    def __call__(self, t: Array, delta: Array) -> Array:
        return self.elimination.level(self.threshold, t, delta)


def _levels(argument: str, value: Any, f: Callable, call: "Experiment") -> np.ndarray:
    """f(t, delta) from the largest delta to the smallest, at times of a run: [deltas, times]."""
    first = call.initial_pulls * call.instance.K
    times = np.round(np.geomspace(first, max(call.max_samples, first + 1), POINTS))  # may repeat
    falling = np.sort(call.delta)[::-1]
    with scope.engine():
        try:
            found = np.array([values(f, times, delta) for delta in falling])
        except Exception as error:
            allowed = "a callable of (t, delta) made of jax.numpy operations"
            raise ArgumentError(argument, value, allowed, f"it raised {in_words(error)}") from error
    if found.shape != (falling.size, times.size) or found.dtype.kind != "f":
        note = f"it gave {found.dtype} of shape {found.shape[1:]}"
        raise ArgumentError(argument, value, "one real number per t", note)
    for allowed, good in (("finite values", np.isfinite(found)), ("values above 0", found > 0)):
        if not good.all():
            row, column = np.argwhere(~good)[0]
            at = f"at t = {times[column]:g}, delta = {falling[row]:g}"
            note = f"{at} it is {found[row, column]:g}"
            raise ArgumentError(argument, value, allowed, note)
    return found


_METHODS = {  # what methods of a family are called in messages
    "design": "a design, such as Gaussian() with one standard deviation",
    "interval": "confidence intervals of means",
    "posterior": "a posterior to draw means from",
    "share": "an information-directed share",
    "truth": "an H*, as a OneParameter has",
}
KNOW_COSTS = (
    "FWS, LazyTaS, LinGame, OptimisticLinGame, OptimisticTaS, Oracle, TrackAndStop, Uniform"
)
KNOW_SLACK = "LUCB, Oracle, TopTwo with the leader 'eb', TrackAndStop, Uniform"
"""Rules whose traits say so, for messages."""


def _check_combination(call: "Experiment") -> None:
    """Refuse combinations that the paper does not define."""
    instance, problem, rule, elimination = call.instance, call.problem, call.rule, call.elimination
    family, name, traits = instance.family, type(rule).__name__, rule.traits
    missing = [method for method in rule.needs(family, problem) if not family.has(method)]
    if traits.families == ("gaussian",) and not family.design:
        missing.append("design")
    methods = " and ".join(_METHODS.get(method, f"a {method}") for method in missing)
    items = "; items have no pulls and no rewards of their own" * (problem.name == "best-item")
    others = f": {name} is not defined for others"
    costs = None if instance.costs is None else instance.costs.tolist()
    stopping, shared = call.stopping, getattr(elimination, "shared", False)
    rows: list[tuple[str, Any, Any, str]] = [
        ("problem", problem, not traits.defined_for(problem.name),
         f"one that {name} is defined for: {', '.join(traits.problems or ())}{items}"),
        ("problem", problem, problem.epsilon and not traits.slack,
         f"epsilon=0: {name} is not defined with slack; {KNOW_SLACK} are"),
        ("costs", costs, costs is not None and not traits.costs,
         f"None: {name} has no published form for arms of different costs; {KNOW_COSTS} have"),
        ("instance", instance.structure, instance.structure not in traits.structures,
         f"{' or '.join(traits.structures)} arms{others}"),
        ("family", family, traits.families is not None and family.name not in traits.families,
         f"{' or '.join(traits.families or ())} rewards{others}"),
        ("family", family, missing,
         f"a family with {methods}: {name} on {problem.name} is not defined for others"),
        # A user's own stopping rule is not in the traits: it only observes.
        *(("stopping", one, one.name in KNOWN_STOPPING and one.name not in traits.stopping,
           f"{name} stops by: {', '.join(traits.stopping)}") for one in stopping),
        ("elimination", elimination, elimination is not None and not traits.elimination,
         f"None: {name} does not look at pieces when it samples; LUCB, TTUCB and others do"),
        ("stopping", stopping, shared and list(map(type, stopping)) != [type(elimination)],
         f"{elimination!r} alone: with a shared set, sampling stops looking at the pieces that "
         "this stopping rule has dropped, and any other rule would wait for them for ever"),
    ]  # fmt: skip
    for argument, given, wrong, allowed in rows:
        if wrong:
            raise UnsupportedError(argument, given, allowed)


def proven(call: Any) -> bool | str:
    """Whether all stops of a checked call are proven: True, or the reason why not."""
    instance, norm = call.instance, None
    if instance.truth is not None:
        theta = instance.truth.theta
        norm = float(np.linalg.norm(theta, axis=-1).max()) / instance.family.scale
    longest = float(np.linalg.norm(instance.arms, axis=-1).max())
    reasons: dict[str, list[str]] = {}
    for stopping in call.stopping:
        terms = Call(
            family=instance.family, law=instance.law, problem=call.problem, rule=call.rule,
            stopping=stopping, elimination=call.elimination, ridge=call.ridge,
            structure=instance.structure, arms=instance.K, dimension=instance.d,
            longest=longest, theta_norm=norm, most=instance.most,
        )  # fmt: skip
        reason = proof_of(call.threshold, terms)
        if reason is True and call.noise is not None:
            reason = "the noise was given, and its law is not known"
        # The rule's own test reads more than entered rewards, but for a mixture's.
        own = call.rule.traits.native == "always" and not isinstance(call.threshold, Mixture)
        if reason is True and call.waits and (stopping.native or own):
            reason = "with a batch or a delay the rule's own test counts rewards that are pending"
        if reason is not True:
            reasons.setdefault(str(reason), []).append(stopping.name)
    if not reasons:
        return True
    if list(reasons.values()) == [[rule.name for rule in call.stopping]]:
        return next(iter(reasons))
    return "; ".join(f"{', '.join(names)}: {reason}" for reason, names in reasons.items())
