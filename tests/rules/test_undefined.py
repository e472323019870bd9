"""Calls that no paper defines: refused by name, before anything compiles; what rules need."""

import numpy as np
import pytest

import jaxelim as je
from jaxelim import catalogue
from jaxelim.simulation import refusals
from tests.calls import checked

LINEAR = je.Instance(np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]), [1.0, 0.2])
ARMS = je.Instance.unstructured([0.9, 0.7, 0.3])
COINS = je.Instance.unstructured([0.8, 0.5, 0.2], je.Bernoulli())
STUDENT = je.Instance.unstructured([0.8, 0.5, 0.2], je.GaussianUnknownVariance())
BY_ARM = je.Instance.unstructured([0.8, 0.5, 0.2], je.Gaussian([1.0, 2.0, 3.0]))
LOGISTIC = je.Instance(LINEAR.arms, LINEAR.theta, family=je.Logistic())
BASIS = je.Instance.unstructured([0.8, 0.4, 0.3], je.Logistic())
PRICED = je.Instance.unstructured([0.9, 0.5, 0.1], costs=[1.0, 8.0, 1.0])
NATIVE, SELECTIVE = je.Native(), je.SelectiveElimination()
BOTH = {"elimination": SELECTIVE, "stopping": SELECTIVE}
BEST, TWO, SIGNS, NONE = je.BestArm(), je.TopM(2), je.Thresholding(0.4), je.BestArm(reference=0.5)
ITEMS = je.BestArm(items=[[1.0, 0.0], [0.0, 1.0]])
RULES = [
    # Problems, structures and tests that a rule has.
    (ARMS, SIGNS, je.LinGIFA(), {}), (LINEAR, BEST, je.LinGIFA(), BOTH),
    (LINEAR, BEST, je.LinGIFA(), {"stopping": NATIVE}), (LINEAR, BEST, je.LUCB(), {}),
    (LINEAR, TWO, je.UGapE(), {}), (ARMS, BEST, je.UGapE(), BOTH), (ARMS, SIGNS, je.UGapE(), {}),
    (ARMS, BEST, je.Racing(), {}), (ARMS, BEST, je.Racing(), {"stopping": [NATIVE, SELECTIVE]}),
    (LINEAR, BEST, je.Racing(), {"stopping": NATIVE}),
    (ARMS, SIGNS, je.Racing(), {"stopping": NATIVE}), (LINEAR, BEST, je.RAGE(), {}),
    (LINEAR, TWO, je.RAGE(), {"stopping": NATIVE}), (LINEAR, BEST, je.XYAdaptive(), {}),
    (LINEAR, SIGNS, je.XYAdaptive(), {"stopping": NATIVE}),
    (LINEAR, BEST, je.XYAdaptive(),
     {"stopping": NATIVE, "elimination": je.FullElimination()}),
    (ARMS, NONE, je.LUCB(), {}), (ARMS, NONE, je.UGapE(), {}), (ARMS, NONE, je.LinGIFA(), {}),
    # Logistic rewards.
    *((LOGISTIC, BEST, rule, {}) for rule in (je.LinGapE(), je.LinGIFA(), je.RAGE(),
                                              je.XYAdaptive())),
    *((LOGISTIC, problem, rule, {}) for problem in (BEST, TWO, SIGNS, ITEMS)
      for rule in (je.OptimisticTaS(), je.OptimisticLinGame())),
]  # fmt: skip
"""The rule is named."""


def usual(rule):
    return NATIVE if "llr" not in rule.traits.stopping else je.LLR()


OTHERS = sorted(n for n, r in catalogue.rules().items() if r.traits.families == ("gaussian",))


@pytest.mark.parametrize("name", OTHERS)
def test_rules_of_gaussian_rewards(name):
    """The family is named, or the instance where the rule is for linear arms."""
    rule = catalogue.rules()[name]
    with pytest.raises(je.errors.UnsupportedError, match=rule.__name__) as caught:
        checked(COINS, BEST, rule(), stopping=usual(rule))
    independent = "unstructured" in rule.traits.structures
    assert caught.value.argument == ("family" if independent else "instance")


WORDS = [
    (LINEAR, BEST, je.EBTCI(), "instance: got 'linear'"),
    (COINS, TWO, je.T3C(), "problem: got TopM"),
    (COINS, SIGNS, je.TTUCB(), "problem: got Thresholding"),
    (COINS, TWO, je.TopTwo("eb", "rs"), "problem: got TopM"),
    (STUDENT, BEST, je.T3C(), "family: got .* a posterior to draw means from"),
    (STUDENT, BEST, je.TopTwo("eb", "rs"), "family: got .* a posterior"),
    (STUDENT, BEST, je.EBTCI("ids"), "family: got .* an information-directed share"),
    (BASIS, BEST, je.T3C(), "posterior"),
    *((BASIS, BEST, rule, "confidence intervals") for rule in (je.LUCB(), je.UGapE())),
    (BASIS, BEST, je.Racing(), "confidence intervals"),
    (COINS, TWO, je.OptimisticTaS(), "^family: got"),
    (BY_ARM, BEST, je.OptimisticLinGame(), "^(family|instance): got"),
    (COINS, BEST, je.LinGapE(), "^family: got"),
    *((PRICED, BEST, rule, f"no published form .*; {refusals.KNOW_COSTS} have") for rule in (
        je.LinGapE(), je.LUCB(), je.UGapE(), je.EBTCI(), je.LinGIFA(), je.Racing(), je.RAGE(),
        je.XYAdaptive(),
    )),
]  # fmt: skip


@pytest.mark.parametrize(("instance", "problem", "rule", "settings", "words"), [
    *((*row, type(row[2]).__name__) for row in RULES),
    *((*row[:3], {"stopping": usual(row[2])}, row[3]) for row in WORDS),
])  # fmt: skip
def test_the_words(instance, problem, rule, settings, words):
    with pytest.raises(je.errors.UnsupportedError, match=words):
        checked(instance, problem, rule, **settings)


@pytest.mark.parametrize("trait", ["costs", "slack"])
def test_messages_name_the_rules_that_know(trait):
    """Each rule by its name, whatever settings it needs for it."""
    words = getattr(refusals, f"KNOW_{trait.upper()}")
    named = [word.split(" with ")[0] for word in words.split(", ")]
    every = catalogue.rules().values()
    assert named == sorted(rule.__name__ for rule in every if getattr(rule.traits, trait))


class NoDivergence(je.contracts.Family):
    """A family that gives rules nothing but evidence."""

    name = "nothing"


@pytest.mark.parametrize("rule", [je.LinGame(), je.FWS(), je.LazyTaS(), je.TrackAndStop()])
def test_what_the_rules_need(rule):
    """Evidence alone is enough but for w*."""
    solves = isinstance(rule, je.TrackAndStop)
    assert bool(rule.needs(NoDivergence(), je.BestArm())) == solves
    assert all(map(je.Gaussian().has, rule.needs(je.Gaussian(), je.BestArm())))
    assert bool(rule.needs(NoDivergence(), je.Thresholding(0.1))) == solves
    missing = [one for one in rule.needs(je.Bernoulli(), je.TopM()) if not je.Bernoulli().has(one)]
    assert not missing and je.Gaussian().design and not je.Bernoulli().design
