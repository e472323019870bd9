"""Which stops are proven: `Result.proven`, summaries, and what contradicts a threshold."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import jaxelim as je
from jaxelim.simulation.refusals import proven
from jaxelim.simulation.results.descriptions import origin
from jaxelim.thresholds import LinearThreshold
from tests import calls

MEANS = [1.0, 0.2, 0.0]
NORMAL = je.Instance.unstructured(MEANS)
COINS = je.Instance.unstructured([0.8, 0.5, 0.2], je.Bernoulli())
UNKNOWN = je.Instance.unstructured(MEANS, je.GaussianUnknownVariance())
BY_ARM = je.Instance.unstructured(MEANS, je.Gaussian(std=[1.0, 2.0, 3.0]))
LINEAR = je.Instance([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]], [1.0, 0.1])
STACKS = [[0, 1, 1, 0], [0, 0, 1, 0, 0]]
BEST, NATIVE, LLR = je.BestArm(), je.Native(), je.LLR()
EVERY = (LLR, je.SelectiveElimination(), je.FullElimination())
KOOLEN = je.thresholds.KaufmannKoolen


UNIFORM = je.Uniform()
OF_TWO = KOOLEN(2, 2, True)


def plain(t, delta):
    return jnp.log(t / delta)


def found(*given):
    """What a checked call says, which compiles nothing."""
    names = ("instance", "problem", "rule", "threshold", "stopping", "elimination", "ridge")
    return proven(calls.checked(**dict(zip(names[: len(given)], given, strict=True))))


def recorded(order, family=je.Bernoulli()):  # noqa: B008
    return je.Instance.unstructured(source=je.Recorded(STACKS, order), family=family)


class Doubled(type(je.Bernoulli())):
    def log_mixture(self, stat, at, c):
        return 2 * super().log_mixture(stat, at, c)


@dataclasses.dataclass(frozen=True)
class Quick(je.contracts.StoppingRule):
    name = "quick"

    def observe(self, seen, state, beta):
        return state, beta > 0, seen.shape.total()


class Hasty(je.LUCB):
    def native(self, view, state):
        return view.t > 3, state.mask


class Quicker(je.Racing):
    def native(self, view, state):
        return view.t > 3, state.remaining


class Changed(je.Mixture):
    def log_e(self, seen, above=False):
        return super().log_e(seen, above) + 10


class Fewer(je.BestArm):
    def shape(self, seen, answer):
        return super().shape(seen, answer).row(answer, seen.means < 0)


RESETS = je.Resets(EVERY[1], alpha=lambda t, delta: plain(t, delta) / 9)
PROVEN = {
    "every stop": (NORMAL, BEST, UNIFORM, OF_TWO, EVERY),
    "slack": (NORMAL, je.BestArm(epsilon=0.1), UNIFORM, OF_TWO, EVERY),
    "signs": (COINS, je.Thresholding(0.6), je.LUCB(), KOOLEN(3, 1), LLR),
    "more than needed": (COINS, BEST, UNIFORM, KOOLEN(9), LLR),
    "all arms": (COINS, BEST, UNIFORM, KOOLEN(1, 3), LLR),
    "the bound of exponential families": (NORMAL, BEST, UNIFORM, KOOLEN(2), LLR),
    "variances by arm": (BY_ARM, BEST, je.EBTCI(), OF_TWO, EVERY),
    "linear arms": (LINEAR, BEST, je.LinGapE(), KOOLEN().bound(LINEAR, BEST), EVERY),
    "a ridge that is covered": (
        LINEAR, BEST, je.LinGapE(), LinearThreshold(2, 1.0, 2.0), EVERY, None, 1.0),
    "LUCB": (COINS, BEST, je.LUCB(), KOOLEN(2), LLR),
    "at sampling": (COINS, BEST, je.LUCB(), KOOLEN(2), EVERY[1], EVERY[1]),
    "resets": (COINS, BEST, je.EBTCI(), KOOLEN(2), LLR, RESETS),
    "phases of pairs": (LINEAR, BEST, je.XYAdaptive(), KOOLEN().bound(LINEAR, BEST), NATIVE),
    "e-values, unknown variance": (UNKNOWN, BEST, UNIFORM, je.Mixture(), LLR),
    "rounds of its intervals": (NORMAL, BEST, je.Racing(), je.Mixture(), NATIVE),
    "rows of a table": (recorded("bootstrap"), BEST, UNIFORM, KOOLEN(2), LLR),
}  # fmt: skip


@pytest.mark.parametrize("call", PROVEN.values(), ids=PROVEN)
def test_proven(call):
    assert found(*call) is True


NOT = {
    "from experience alone": (NORMAL, BEST, UNIFORM, je.Heuristic(), LLR),
    "almost surely": (NORMAL, BEST, UNIFORM, je.GK16(), LLR),
    "plain states no proof": (NORMAL, BEST, UNIFORM, plain, LLR),
    "states no proof of its own": (NORMAL, BEST, UNIFORM, Changed(), LLR),
    "hold the truth is not known": (NORMAL, Fewer(), UNIFORM, je.Mixture(), LLR),
    "needs pieces = 2 and arms = 2": (NORMAL, BEST, UNIFORM, KOOLEN(1, 2, True), LLR),
    "needs pieces = 1 and arms = 3": (LINEAR, BEST, je.LinGapE(), KOOLEN(2, 2, True), LLR),
    "pools phases": (LINEAR, BEST, je.RAGE(), KOOLEN().bound(LINEAR, BEST), NATIVE),
    "needs pieces = 2, and the threshold has 1": (COINS, BEST, UNIFORM, je.Mixture(pieces=1), LLR),
    "native test of Quicker": (NORMAL, BEST, Quicker(), je.Mixture(), NATIVE),
    "stopping rule 'quick'": (NORMAL, BEST, UNIFORM, OF_TWO, Quick()),
    "native test of Hasty": (NORMAL, BEST, Hasty(), OF_TWO, LLR),
    "native test may end": (NORMAL, BEST, je.LUCB(), LinearThreshold(3, 1, 9.0), LLR, None, 1.0),
    "what the resets eliminated": (COINS, BEST, je.LUCB(), KOOLEN(2), LLR, RESETS),
    "its theta_bound is 0.5": (LINEAR, BEST, je.LinGapE(), LinearThreshold(2, 1, 0.5), LLR),
    "its feature_bound is 0.9": (LINEAR, BEST, je.LinGapE(), LinearThreshold(2, 0.9, 2), LLR),
    "its dimension is 1": (LINEAR, BEST, je.LinGapE(), LinearThreshold(1, 1, 2), LLR),
    "recorded rewards without": (recorded("permuted"), BEST, UNIFORM, KOOLEN(2), LLR),
    "states no law of its own": (
        recorded("bootstrap", Doubled()), BEST, UNIFORM, je.Mixture(), LLR),
    "rewards from recorded is not that of Gaussian": (
        recorded("bootstrap", je.Gaussian()), BEST, UNIFORM, KOOLEN(1, 2, True), LLR),
}  # fmt: skip


@pytest.mark.parametrize("words", NOT)
def test_not_proven(words):
    assert words in str(found(*NOT[words]))


REFUSED = {
    "no variance": ((UNKNOWN, BEST, UNIFORM, KOOLEN(2), LLR), "family"),
    "no Gaussian": ((COINS, BEST, UNIFORM, OF_TWO, LLR), "threshold"),
    "a ridge": ((NORMAL, BEST, UNIFORM, OF_TWO, LLR, None, 1.0), "ridge"),
}


@pytest.mark.parametrize(("call", "argument"), REFUSED.values(), ids=REFUSED)
def test_what_contradicts_a_threshold_is_refused(call, argument):
    with pytest.raises(je.errors.UnsupportedError) as caught:
        found(*call)
    assert caught.value.argument == argument


@dataclasses.dataclass(frozen=True)
class Stated:
    answer: object = True

    def __call__(self, t, delta):
        return jnp.log(9 + 9 * t) - jnp.log(delta)

    def proof(self, call):
        assert (call.arms, call.dimension, call.structure) == (3, 3, "unstructured")
        assert call.longest == 1 and call.theta_norm == pytest.approx(np.linalg.norm(MEANS))
        return 1 / 0 if self.answer == "raise" else self.answer


def test_a_proof_of_ones_own():
    assert found(NORMAL, BEST, UNIFORM, Stated()) is True
    assert found(NORMAL, BEST, UNIFORM, Stated("it is a guess")) == "it is a guess"
    for wrong in (None, False, "", 1, "raise"):
        with pytest.raises(je.errors.ArgumentError, match=r"threshold.*proof\(call\)"):
            found(NORMAL, BEST, UNIFORM, Stated(wrong))


def test_each_stop_has_its_reason():
    several = found(NORMAL, BEST, UNIFORM, OF_TWO, (LLR, Quick()))
    assert several == "quick: no proof of the stopping rule 'quick' is known"


def test_given_noise_has_no_proof():
    """Nobody knows its law; what contradicts the threshold's terms is refused all the same."""
    noise = np.random.default_rng(0).standard_normal((2, 9))
    given = NORMAL, BEST, UNIFORM
    for threshold, words in (
        (je.Mixture(), "noise was given"), (Stated(), "noise was given"),
        (je.GK16(), "almost surely"),
    ):  # fmt: skip
        assert words in str(proven(calls.checked(*given, threshold=threshold, noise=noise)))
    with pytest.raises(je.errors.UnsupportedError, match="ridge"):
        je.simulate(*given, threshold=OF_TWO, ridge=1.0, runs=2, noise=noise)
    hashes = [origin(calls.checked(*given, noise=one))["noise_sha256"] for one in (noise, -noise)]
    assert hashes[0] != hashes[1] and "noise_sha256" not in origin(calls.checked(*given))


def test_in_results_and_files(tmp_path):
    sure = je.simulate(NORMAL, BEST, UNIFORM, delta=0.1, runs=3, max_samples=3000,
                       stopping=je.SelectiveElimination(), threshold=OF_TWO)  # fmt: skip
    call = sure.experiment.replace(threshold=je.Heuristic())
    plain = dataclasses.replace(sure, experiment=call, origin=origin(call))
    assert sure.proven is True and "alone" in str(plain.proven)
    text, other = str(sure.summary()), str(plain.summary())
    assert f"Threshold {OF_TWO}, proven" in text and "Elimination" not in text
    assert "Threshold Heuristic(), without proof: it is known" in other
    assert "without proof it may err more often than LLR stopping" in other
    notes = je.compare({"sure": sure, "plain": plain}).notes
    law = "Proven if rewards are independent and of Gaussian(std=1.0)"
    wrong = ": an answer is wrong with probability at most delta."
    assert f"{law} of 'sure'{wrong}" in notes
    why = "as it is known from experience alone."
    assert f"Without proof: the threshold Heuristic() of 'plain', {why}" in notes
    named = je.compare({"a, b": plain, "c": plain}), je.compare({"a": sure, "b": sure})
    assert f"Without proof: the threshold Heuristic(), {why}" in named[0].notes
    assert named[0].title.startswith("a, b; c: ") and f"{law}{wrong}" in named[1].notes
    sure.save(tmp_path / "sure.nc")
    back = je.load_result(tmp_path / "sure.nc")
    assert back.proven is True and str(back.summary()) == text


@pytest.mark.slow
def test_live_runs_name_threshold_and_guarantee():
    for threshold, words in (
        (OF_TWO, f"{OF_TWO}, proven"),
        (je.Heuristic(), "Heuristic(), without proof: it is known"),
    ):  # fmt: skip
        run = je.LiveRun(3, BEST, je.EBTCI(), delta=0.1, threshold=threshold)
        run.tell([0, 1, 2], [3.5, 0.0, 0.0])
        assert not run.stopped and words in str(run.summary())
        run.tell([0, 1, 2] * 5, [3.5, 0.0, 0.0] * 5)
        assert run.stopped and words in str(run.summary())
        assert (run.proven is True) == (threshold == OF_TWO)
    # Nobody knows theta in a live run: the threshold's bound on it is trusted.
    live = je.LiveRun([[1.0, 0.0], [0.0, 2.0]], BEST, je.LinGapE(),
                      threshold=LinearThreshold(2, 2.0, 1e-9), ridge=1.0)  # fmt: skip
    assert live.proven is True


class LaplaceByArm(type(je.Gaussian(std=[1.0, 1.0]))):
    def draw(self, lanes, nature, arm, pull, noise):
        sign = jnp.where(noise > 0, 1.0, -1.0)
        return lanes.take(nature["mean"], arm) - sign * jnp.log(jnp.abs(noise)) / 2**0.5


class StatedByArm(LaplaceByArm):
    def law(self):
        return "gaussian"


def test_a_family_that_draws_otherwise_than_its_base_has_no_law():
    instance = je.Instance.unstructured([0.9, 0.1], LaplaceByArm((1.0, 1.0)))
    threshold = KOOLEN().bound(instance, BEST)
    assert threshold.gaussian is False
    assert "states no law of its own" in found(instance, BEST, UNIFORM, threshold)
    stated = je.Instance.unstructured([0.9, 0.1], StatedByArm((1.0, 1.0)))
    assert KOOLEN().bound(stated, BEST).gaussian is True
    assert KOOLEN().bound(BY_ARM, BEST) == OF_TWO
    for family in (je.Bernoulli(), je.Poisson(), je.Gaussian(), je.GaussianUnknownVariance()):
        assert family.stated_law() == family.law()
