"""Whether the stops of a call are proven, and how a summary says it."""

from typing import Any

import numpy as np

from jaxelim.contracts.proofs import Call, proof_of

PROVEN = "True"
"""How a result's settings say that all its stops are proven."""
GIVEN = "the noise was given, and its law is not known"
"""The reason of a call that is proven for rewards of the family's own noise."""
UNRECORDED = "the file is older than this record"
"""The reason of a loaded result that does not say it."""


def proven(job: Any, truth: bool = True) -> bool | str:
    """Whether all stops of a checked call are proven: True, or the reason why not.

    Args:
        job: the checked call.
        truth: whether theta is the truth, and not a stand-in.

    Raises:
        UnsupportedError: the call contradicts the threshold's terms.
        ArgumentError: the threshold's `proof` breaks its contract.
    """
    instance = job.instance
    norm = float(np.linalg.norm(instance.theta, axis=-1).max()) / instance.family.scale
    reasons: dict[str, list[str]] = {}
    for stopping in job.stopping:
        call = Call(
            family=instance.family,
            problem=job.problem,
            rule=job.rule,
            stopping=stopping,
            elimination=job.elimination,
            ridge=job.ridge,
            structure=instance.structure,
            arms=instance.K,
            dimension=instance.d,
            longest=float(np.linalg.norm(instance.arms, axis=-1).max()),
            theta_norm=norm if truth else None,
        )
        found = proof_of(job.threshold, call)
        if found is True and job.noise is not None:
            found = GIVEN
        if found is not True:
            reasons.setdefault(str(found), []).append(stopping.name)
    if not reasons:
        return True
    if list(reasons.values()) == [[one.name for one in job.stopping]]:
        return next(iter(reasons))
    return "; ".join(f"{', '.join(names)}: {reason}" for reason, names in reasons.items())


def in_settings(found: bool | str) -> str:
    """As a result's settings have it."""
    return PROVEN if found is True else str(found)


def of_settings(settings: dict) -> bool | str:
    """Whether a result's stops are proven, from its settings."""
    found = settings.get("proven", UNRECORDED)
    return True if found == PROVEN else str(found)


def sentence(threshold: Any, found: bool | str) -> str:
    """The threshold and its guarantee, for a summary."""
    if found is True:
        return f"Threshold {threshold}, proven: an answer is wrong with probability at most delta."
    return f"Threshold {threshold}, without proof: {found}."


def of_elimination(found: bool | str) -> list[str]:
    """What a summary says of a result that eliminates; nothing where its stops are proven."""
    if found is True:
        return []
    return [
        "Elimination never tests a refuted piece again, so without proof it may err more often "
        "than LLR stopping."
    ]
