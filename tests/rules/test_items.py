"""`BestArm(items=..)` against `BestArm()`."""

import numpy as np
import pytest

import jaxelim as je

ALL = (je.LLR(), je.SelectiveElimination(), je.FullElimination())
RULES = {"oracle": je.Oracle(), "tas": je.TrackAndStop(gap_share=1e-10),
         "optimistic_tas": je.OptimisticTaS(gap_share=1e-10)}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(RULES))
def test_items_that_are_the_arms(name):
    """The same runs as `BestArm()`; all but the tests at sampling, of which solvers differ.

    Allocations are solved to a gap at which both ways to them give the same pulls. Other rules
    of items are beside the twin in tests/rules/test_agreement.py.
    """
    rule = RULES[name]
    rng = np.random.default_rng(0)
    instance = je.Instance(rng.normal(size=(6, 3)), [1.5, -1.0, 0.8])
    given = dict(stopping=ALL, runs=8, max_samples=1500, delta=0.1)
    known = je.simulate(instance, je.BestArm(), rule, **given)
    ours = je.simulate(instance, je.BestArm(items=instance.arms), rule, **given)
    assert known.correct.shape == ours.correct.shape
    for field in ("samples", "stopped", "answer", "correct", "pulls", "tests_stopping"):
        np.testing.assert_array_equal(getattr(ours, field), getattr(known, field), field)
    if known.elimination_times is not None:
        np.testing.assert_array_equal(ours.elimination_times, known.elimination_times)


def test_a_problem_without_items_is_as_it_was():
    plain = je.BestArm(items=None)
    assert plain == je.BestArm() and hash(plain) == hash(je.BestArm())
    assert repr(plain) == "BestArm()"
    assert plain.items is None and plain.name == "best-arm"
    one, other = (je.BestArm(items=z) for z in ([[1, 0], [0, -0.0]], [[1.0, 0.0], [0.0, 0.0]]))
    assert type(one) is je.BestArm and one.name == "best-item"
    assert one == other and hash(one) == hash(other)
    assert repr(one) == "BestArm(items=[[1.0, 0.0], [0.0, 0.0]])"
    assert str(one) == "BestArm(items=<2x2>)"
    assert eval(repr(one), {"BestArm": je.BestArm}) == one  # noqa: S307
    assert one != je.BestArm(items=[[1, 0], [0, 1]]) and one != plain


def test_the_threshold_of_kaufmann_and_koolen():
    """A piece compares means of all K arms, also where the arms are the canonical basis."""
    problem = je.BestArm(items=np.random.default_rng(0).normal(size=(4, 5)))
    instance = je.Instance(np.eye(5), [1.0, 0.5, -0.3, 0.2, 0.4])
    assert instance.structure == "unstructured"
    koolen = je.thresholds.KaufmannKoolen
    assert koolen().bound(instance, problem) == koolen(1, 5, True)
    assert koolen().bound(instance, je.BestArm()) == koolen(4, 2, True)


def test_the_problem_is_certified():
    """Answers, pieces and sets agree, on the arms of a random instance."""
    rng = np.random.default_rng(0)
    instance = je.Instance(rng.normal(size=(6, 3)), rng.normal(size=3))
    je.testing.check(je.BestArm(items=rng.normal(size=(4, 3))), instance=instance, draws=60)
