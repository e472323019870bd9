"""Whether the stops of a call are proven, and how a summary says it."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from jaxelim.contracts.proofs import UNKNOWN_VARIANCE, Call, proof_of
from jaxelim.errors import abbreviate
from jaxelim.thresholds import Mixture

_SURE = ": an answer is wrong with probability at most delta."


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


def sentence(threshold: Any, reason: bool | str, instance: Any) -> str:
    """The threshold and its guarantee for the rewards of an instance, for a summary."""
    if reason is True:
        return f"Threshold {threshold}, proven if {law(instance)}{_SURE}"
    return f"Threshold {threshold}, without proof: {reason}."


def law(instance: Any) -> str:
    """What a proof takes for granted of rewards, in words."""
    family, source = instance.family, instance.source
    permuted = getattr(source, "order", "") == "permuted"
    if family.items is not None:
        words = "come in one random order for all arms" if permuted else "are independent draws"
        return f"items {words}, with scores of {abbreviate(family)}"
    if permuted:
        return "the rewards of each arm come in a random order, each once"
    unknown = family.stated_law() == UNKNOWN_VARIANCE
    words = "Gaussian, of any variance" if unknown else f"of {abbreviate(family)}"
    return f"rewards are independent and {words}"


def of_several(results: Iterable[tuple[str, Any]]) -> list[str]:
    """The guarantees of results by name; without names where all have the same."""
    found: dict[tuple[str, str], list[str]] = {}
    for name, result in results:
        words = f"Without proof: the threshold {result.threshold}", f", as {result.proven}."
        if result.proven is True:
            words = f"Proven if {law(result.instance)}", _SURE
        found.setdefault(words, []).append(repr(name))
    return [
        (f" of {', '.join(dict.fromkeys(names))}" if len(found) > 1 else "").join(words)
        for words, names in found.items()
    ]
