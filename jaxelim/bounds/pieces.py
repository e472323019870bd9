"""The pieces of the correct answer as arrays on the host, checked and padded to one shape.

A problem gives its pieces by

    half_spaces(arms [K, d], theta [d]) -> (directions [P, d], offsets [P]).

Another answer is correct exactly in the union of these half-spaces
{lambda : y . lambda <= c}.
"""

from typing import Any, NamedTuple

import numpy as np

from jaxelim import checks
from jaxelim.contracts import Family
from jaxelim.contracts.slack import SlackRows
from jaxelim.errors import ArgumentError, UnsupportedError
from jaxelim.instances.instance import Instance

# Features of a larger condition number are refused: half of the digits of float64 are left.
_WORST = 1e8

# The answer is tied where y . theta - c is below this share of the size of its terms.
_TIE = 16 * np.finfo(np.float64).eps


class Pieces(NamedTuple):
    """The pieces of I instances: float64 and bool arrays, padded to the largest number P."""

    directions: np.ndarray  # [I, P, d]
    offsets: np.ndarray  # [I, P]
    valid: np.ndarray  # [I, P] bool, False on padding


def half_spaces(problem: Any, arms: np.ndarray, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Directions [P, d] and offsets [P] of the pieces of theta's answer, float64.

    Raises:
        ArgumentError: the object is no problem, there is no piece, or shapes or
            entries are wrong.
        UnsupportedError: a problem with several right answers, such as `BestArm(epsilon=)`.
    """
    refuse_slack(problem)
    method = getattr(problem, "half_spaces", None)
    if method is None:
        raise ArgumentError(
            "problem", problem, "a problem: an object with half_spaces(arms, theta)"
        )
    directions, offsets = method(arms, theta)
    allowed = f"a problem with at least one piece: directions [P, {arms.shape[1]}] and offsets [P]"
    directions = np.asarray(directions, dtype=np.float64)
    offsets = np.asarray(offsets, dtype=np.float64)
    if (
        directions.ndim != 2
        or directions.shape[1] != arms.shape[1]
        or offsets.shape != directions.shape[:1]
    ):
        raise ArgumentError(
            "problem", problem, allowed, f"shapes {directions.shape} and {offsets.shape}"
        )
    if directions.shape[0] == 0:
        raise ArgumentError("problem", problem, allowed, "the answer has no alternative piece")
    if not (np.isfinite(directions).all() and np.isfinite(offsets).all()):
        raise ArgumentError("problem", problem, allowed, "directions or offsets are not finite")
    return directions, offsets


def refuse_slack(problem: Any) -> None:
    """Refuse slack: several answers may be right, and each has pieces of its own.

    Raises:
        UnsupportedError: `BestArm(epsilon=)` with epsilon above 0.
    """
    if getattr(problem, "epsilon", 0):
        allowed = "epsilon=0: this is not defined where several answers may be right"
        raise UnsupportedError("problem", problem, allowed)


def combinations(
    problem: Any, arms: np.ndarray, theta: np.ndarray, family: Family | None = None
) -> np.ndarray | None:
    """The pieces' directions as combinations of arms: A [P, K] with directions = A arms.

    None where they are no such combinations. Best arm, top m and thresholding have
    directions that move with the features; a user's half-spaces may be fixed in
    parameter space. A problem of the first kind gives the same combinations on the
    canonical basis with theta set to the scores, which is the test. Items do not move.
    """
    if not getattr(problem, "made_of_arms", True):
        return None
    try:
        rows, _ = half_spaces_of(family, problem, np.eye(arms.shape[0]), arms @ theta)
        directions, _ = half_spaces_of(family, problem, arms, theta)
    except (ValueError, IndexError, TypeError):
        return None
    same = rows.shape[0] == directions.shape[0]
    return (
        rows
        if same and np.allclose(rows @ arms, directions, rtol=1e-9, atol=1e-12 * np.abs(arms).max())
        else None
    )


def pieces_of(instance: Instance, problem: Any) -> Pieces:
    """The pieces of every instance's correct answer, checked.

    Raises:
        ArgumentError: theta lies in a piece or on its boundary: the answer is not
            unique, H* = 0.
        ArgumentError: no pieces, or features that do not span a direction of a piece, or of
            condition number above 1e8.
        UnsupportedError: rewards of a family of one's own that is no `OneParameter`, or
            pieces that the family knows no evidence about; or a problem with `shared_answers`.
    """
    if not isinstance(instance, Instance):
        raise ArgumentError("instance", instance, "a jaxelim.Instance")
    if not instance.family.has("truth"):
        allowed = f"a OneParameter: H* is not defined for {instance.family!r}"
        raise UnsupportedError("family", instance.family, allowed)
    if getattr(problem, "shared_answers", False):
        allowed = "a problem with one answer for each public answer: where several share one, the "
        allowed += (
            "alternative of a public answer is no union of pieces, and the bound does not hold"
        )
        raise UnsupportedError("problem", problem, allowed)
    arms = instance.arms.reshape(-1, instance.K, instance.d)
    theta = instance.theta.reshape(-1, instance.d)
    if not getattr(problem, "made_of_arms", True):
        if not instance.family.linear:
            allowed = "gaussian rewards of one standard deviation: items are not defined for"
            allowed = f"{allowed} {instance.family!r}"
            raise UnsupportedError("family", instance.family, allowed)
        for pair in zip(arms, theta, strict=True):
            problem.check_arms(pair[0])
            problem.check(*pair)  # names items where the checks below name pieces
    spaces = [half_spaces_of(instance.family, problem, *x) for x in zip(arms, theta, strict=True)]
    for index, (directions, offsets) in enumerate(spaces):
        label = f"instance {index}: " if instance.batched else ""
        _refuse_ties(label, problem, instance, arms[index], theta[index], directions, offsets)
        _refuse_out_of_reach(label, instance, arms[index], directions)
        _refuse_ill_conditioned(label, instance, arms[index])
    most = max(len(offsets) for _, offsets in spaces)
    directions = np.zeros((len(spaces), most, instance.d))
    offsets = np.zeros((len(spaces), most))
    valid = np.zeros((len(spaces), most), dtype=bool)
    for index, (y, c) in enumerate(spaces):
        directions[index, : len(c)], offsets[index, : len(c)], valid[index, : len(c)] = y, c, True
    pieces = Pieces(directions, offsets, valid)
    if not instance.family.linear:
        _refuse_other_pieces(problem, instance.family, pieces)
    return pieces


def half_spaces_of(
    family: Family | None, problem: Any, arms: np.ndarray, theta: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """`half_spaces` of one instance: of scores, where means are another function of them.

    Of family None they are the means.
    """
    if family is None or type(family).mean is Family.mean or getattr(problem, "uses_theta", True):
        return half_spaces(problem, arms, theta)
    means = family.mean(arms @ theta)
    rows, offsets = half_spaces(problem, np.eye(len(arms)), means)
    sign = rows.sum(1)  # 0 for a pair of arms; else 1 or -1, and the level is sign * offset
    levels = family.link(np.where(sign != 0, sign * offsets, means[0]))
    return rows @ arms, np.where(sign != 0, sign * levels, 0)


def _refuse_other_pieces(problem: object, family: Any, pieces: Pieces) -> None:
    """Refuse all but pairs of arms, and arms with a level inside the range of means.

    All pairs may have slack, offsets below 0, if the family knows it.
    """
    directions = pieces.directions
    plus, minus = (directions > 0).sum(-1), (directions < 0).sum(-1)
    pair = (plus == 1) & (minus == 1)
    unit = np.isin(directions, (-1, 0, 1)).all(-1) & (plus <= 1) & (minus <= 1)
    fits = unit & (~pair | (pieces.offsets == 0))
    if has_slack(pieces) and SlackRows in family.shapes:
        fits = unit & pair & (pieces.offsets > family.low - family.high)
    if not (fits | ~pieces.valid).all():
        allowed = f"pieces that are pairs of arms, or one arm and a level, for {family!r}"
        raise UnsupportedError("problem", problem, allowed)
    level = (pieces.offsets * directions.sum(-1))[pieces.valid & ~pair]
    out = level[(level <= family.low) | (level >= family.high)]
    if out.size:
        allowed = f"a number inside ({family.low:g}, {family.high:g}) for {family!r}"
        raise ArgumentError("level", float(out[0]), allowed)


def has_slack(pieces: Pieces) -> bool:
    """Whether the pieces are pairs {mu_b >= mu_a + slack}, slack above 0."""
    pair = (pieces.directions > 0).any(-1) & (pieces.directions < 0).any(-1)
    return bool((pair & (pieces.offsets < 0))[pieces.valid].all())


def _refuse_ties(label, problem, instance, arms, theta, directions, offsets) -> None:
    margin = directions @ theta - offsets
    tied = margin <= _TIE * (np.abs(directions) @ np.abs(theta) + np.abs(offsets))
    if not tied.any():
        return
    piece = int(np.argmax(tied))
    rows = combinations(problem, arms, theta, instance.family)
    names = f"piece {piece}"
    if rows is not None:
        involved = np.flatnonzero(rows[piece])
        means = instance.family.mean(arms[involved] @ theta)
        names = (
            f"arms {' and '.join(map(str, involved))} have means "
            f"{' and '.join(f'{mean:.6g}' for mean in means)}"
            if len(involved) > 1
            else f"the mean of arm {involved[0]} is on the threshold"
            if len(involved)
            else names
        )
    allowed = "an instance with one correct answer, off the boundary of every piece"
    if getattr(problem, "name", "") == "best-arm":
        allowed += "; or BestArm(epsilon=..)"
    raise ArgumentError("instance", instance, allowed, f"{label}a tie, H* = 0: {names}")


def _refuse_out_of_reach(label, instance, arms, directions) -> None:
    out, rank = checks.outside_span(arms, directions)
    if out.any():
        note = (
            f"{label}the features have rank {rank} and do not span the direction of piece "
            f"{np.argmax(out)}"
        )
        raise ArgumentError(
            "instance", instance, "features that span the direction of every piece", note
        )


def _refuse_ill_conditioned(label, instance, arms) -> None:
    """Refuse features of which some coordinates nearly depend on others.

    Their condition number is that on their span, with columns of length 1.
    """
    size = np.linalg.norm(arms, axis=0)
    s = np.linalg.svd(arms / np.where(size > 0, size, 1), compute_uv=False)
    condition = s[0] / s[s > max(arms.shape) * np.finfo(np.float64).eps * s[0]].min()
    if condition > _WORST:
        allowed = "features whose condition number is at most 1e8: take coordinates less alike"
        note = f"{label}their condition number is {condition:.1e}"
        raise ArgumentError("instance", instance, allowed, note)


def weights_on_simplex(name: str, value: Any, K: int, batch: int | None = None) -> np.ndarray:
    """Check weights [K] or [batch, K]: non-negative, sum 1 within 1e-9. Return them as float64.

    Raises:
        ArgumentError: wrong shape, not finite, or off the simplex.
    """
    shape = (K,) if batch is None else (batch, K)
    array = checks.real_array(name, value, shape=shape)
    checks.refuse_off_simplex(name, value, array)
    return np.maximum(array, 0)
