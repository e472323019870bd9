"""Arms that join and leave a live run: what its log says of them, and the union of its proof."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from jaxelim import checks
from jaxelim.errors import UnsupportedError
from jaxelim.instances.arms import Arms
from jaxelim.thresholds.mixture import Mixture


def union(most: int, problem: Any) -> int:
    """How many pairs {mu_i <= mu_k} hold the truth, at most, of all arms that are ever in.

    One of each two candidates, since a reference is a candidate too.
    """
    candidates = most + (problem.reference is not None)
    return candidates * (candidates - 1) // 2


def threshold_of(most: Any, arms: Arms, problem: Any, stopping: Any, threshold: Any) -> Mixture:
    """The threshold of a run in which `most` arms are ever in.

    Raises:
        ArgumentError, UnsupportedError: no proof covers such a run.
    """
    checks.integer("most_arms", most, low=arms.K)
    name_of = getattr(problem, "name", None)
    for name, given, defined, allowed in (
        ("arms", arms.arms, arms.structure == "unstructured", "independent arms"),
        ("arms", arms.K, arms.names is not None, "names"),
        ("family", arms.family, not getattr(arms.family, "by_arm", False), "one std of all arms"),
        ("problem", problem, name_of in ("best-arm", "best-or-none"), "BestArm without items"),
        ("stopping", stopping, not stopping.native, "LLR(), or an elimination"),
        ("threshold", threshold, isinstance(threshold, Mixture), "Mixture()"),
    ):
        if not defined:
            raise UnsupportedError(name, given, f"{allowed}, in a run with most_arms={most}")
    pieces = max(threshold.pieces or 1, union(most, problem))
    return Mixture(threshold.strengths, pieces)


class Joined(NamedTuple):
    """The arms of a run after some events."""

    names: list  # those that are in
    costs: dict[Any, float | None]  # of every arm that ever was in
    held: dict[Any, list[tuple[float, int]]]  # its rewards, and how often each came


def of_log(arms: Arms, events: Sequence[dict]) -> Joined:
    """What events say of the arms of a run that began with these `arms`."""
    names = [arms.label(k) for k in range(arms.K)]
    costs: dict = dict(zip(names, [None] * arms.K if arms.costs is None else arms.costs.tolist(),
                           strict=True))  # fmt: skip
    held: dict[Any, list] = {name: [] for name in names}
    for event in events:
        if "add" in event:
            names.append(event["add"])
            costs[event["add"]] = event["cost"]
            held.setdefault(event["add"], [])
        elif "remove" in event:
            names.remove(event["remove"])
        elif "tell" in event:
            for k, reward, times in rows(event):
                held[names[k]].append((reward, times))
    return Joined(names, costs, held)


def rows(event: dict) -> list[tuple[int, float, int]]:
    """The rows of an event "tell": the place of an arm, its reward, and how often it came."""
    times = event.get("times", [1] * len(event["tell"]))
    return list(zip(event["tell"], event["rewards"], times, strict=True))
