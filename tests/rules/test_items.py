"""`BestArm(items=..)` against `BestArm()`."""

import numpy as np
import pytest

import jaxelim as je


@pytest.mark.slow
def test_items_that_are_the_arms():
    """The same runs as `BestArm()`; all but the tests at sampling, of which solvers differ.

    Allocations are solved to a gap at which both ways to them give the same pulls. Other rules
    of items are beside the twin in tests/rules/test_agreement.py.
    """
    rng = np.random.default_rng(0)
    instance = je.Instance(rng.normal(size=(6, 3)), [1.5, -1.0, 0.8])
    known, ours = (
        je.simulate(instance, problem, je.TrackAndStop(gap_share=1e-10), delta=0.1, runs=8,
                    stopping=(je.LLR(), je.SelectiveElimination(), je.FullElimination()),
                    max_samples=1500)
        for problem in (je.BestArm(), je.BestArm(items=instance.arms))
    )  # fmt: skip
    assert known.correct.shape == ours.correct.shape
    for field in ("samples", "stopped", "answer", "correct", "pulls", "tests_stopping",
                  "elimination_times"):  # fmt: skip
        np.testing.assert_array_equal(getattr(ours, field), getattr(known, field), field)


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
