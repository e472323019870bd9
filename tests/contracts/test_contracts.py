"""Contracts of exported rules and problems."""

from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest

import jaxelim as je
from jaxelim import catalogue
from jaxelim.contracts.sets import ArmSet
from jaxelim.lanes import LaneOps
from jaxelim.testing import ContractError, check

CASES = {
    "fws": je.BestArm(), "lazy-tas": je.TopM(2), "lingame": je.Thresholding(), "lucb": je.TopM(2),
    "oracle": je.Thresholding(), "racing": je.BestArm(), "rage": je.BestArm(), "tas": je.TopM(2),
    "top-two": je.Thresholding(),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_rules(name):
    steps, many = (300, 100) if name == "tas" else (3000, 400)
    check(catalogue.rules()[name](), CASES[name], steps=steps, runs=many)


@pytest.mark.parametrize("problem", [je.BestArm(), je.TopM(4), je.Thresholding(0.3)], ids=repr)
def test_problems(problem):
    told = []
    report = str(check(problem, progress=lambda *now: told.append(now[:3])))
    assert told == [(n, 2, 0) for n in range(3)]
    assert report.splitlines()[0].endswith(": passed") and "300 pairs" in report


@pytest.mark.parametrize("answer", [0, 1])
def test_the_number_of_active_pieces(answer):
    """Of a set of arms: all that are left but the answer, which may have been dropped itself."""
    pieces = ArmSet(jnp.asarray([7, 0, 0, 9], jnp.int32), jnp.int32(2))
    seen = SimpleNamespace(lanes=LaneOps(None), answer=jnp.int32(answer))
    assert pieces.active_count(seen) == pieces.active(seen).sum() == (2 if answer == 0 else 1)


@pytest.mark.slow
def test_half_spaces_pass_as_a_problem():
    rng = np.random.default_rng(0)
    arms = rng.normal(size=(4, 3))
    directions = np.stack([np.delete(arms[i] - arms, i, 0) for i in range(4)])
    best = lambda theta: jnp.argmax(jnp.asarray(arms) @ theta)  # noqa: E731
    instance = je.Instance(arms, rng.normal(size=3))
    check(je.HalfSpaces(best, directions), instance=instance)
    wrong = je.HalfSpaces(best, directions[:, :2])
    with pytest.raises(ContractError, match="in a piece"):
        check(wrong, instance=instance)
