"""Rewards by their counts and sums: the evidence of the rewards one by one, tested once."""

import math

import numpy as np
import pytest

import jaxelim as je
from jaxelim.live import log
from tests.live.live_cases import NAMES, coins
from tests.live.test_live_runs import named

pytestmark = pytest.mark.xdist_group("live")
COUNTS = {"red": (90, 100), "green": (20, 101), "blue": (22, 99)}


def rewards_of(name: str, rng: np.random.Generator, n: int, k: int) -> np.ndarray:
    draws = {
        "bernoulli": lambda: (rng.random(n) < 0.6 - 0.2 * k) * 1.0,
        "unknown": lambda: rng.normal(1e3 - 2.0 * k, 2.0, n),
    }
    return draws.get(name, lambda: rng.normal(3.0 - 0.4 * k, 1.0, n))()


ALIKE = {
    "bernoulli": dict(family=je.Bernoulli()),
    "by arm": dict(family=je.Gaussian([1.0, 2.0, 0.5])),
    "unknown": dict(family=je.GaussianUnknownVariance(), initial_pulls=3),
    "linear": dict(arms={"red": [1.0, 0.0], "green": [0.0, 1.0], "blue": [0.6, 0.8],
                         "a": [0.8, 0.6], "b": [0.9, 0.1]}),
}  # fmt: skip


@pytest.mark.parametrize("name", ["bernoulli", *(
    pytest.param(one, marks=pytest.mark.slow) for one in ALIKE if one != "bernoulli"
)])  # fmt: skip
def test_counts_are_their_rewards_told_at_once(name, tmp_path):
    """Statistics, LLR, log e and p-values to 1e-10: at the start, later, and from the file."""
    given, rng = dict(ALIKE[name]), np.random.default_rng(3)
    arms = given.pop("arms", NAMES)
    usual = dict(delta=1e-9, stopping=je.SelectiveElimination())
    one, two = (je.LiveRun(arms, je.BestArm(), je.Uniform(), **usual, **given) for _ in "ab")
    path = tmp_path / "mine.live"
    two.save(path)
    for n in (16, 7):
        drawn = {arm: rewards_of(name, rng, n + 2 * k, k) for k, arm in enumerate(arms)}
        if n == 7:
            del drawn["green"]  # later any arms will do
        labels = np.repeat(list(drawn), [x.size for x in drawn.values()])
        one.tell({"arm": labels, "reward": np.concatenate(list(drawn.values()))})
        squares = name == "unknown"
        powers = (lambda x: [math.fsum(x**2)]) if squares else (lambda x: [])
        two.tell(counts={arm: (x.sum(), x.size, *powers(x)) for arm, x in drawn.items()})
        again = je.LiveRun.load(path, attach=False)
        for other in (two, again):
            assert other.told == one.told and other.counts.tolist() == one.counts.tolist()
            np.testing.assert_allclose(other.means, one.means, rtol=1e-10)
            for field in ("llr", "log_e", "p"):
                mine, theirs = getattr(one.evidence, field), getattr(other.evidence, field)
                tolerance = 1e-8 if squares else 1e-10  # sums of squares have fewer digits
                np.testing.assert_allclose(theirs, mine, rtol=tolerance, atol=1e-10)
    two.close()
    found = log.read(path)
    assert [set(event) for event in found.events] == [{"tell", "rewards", "times"}] * 2
    with je.LiveRun.load(path) as saved:
        saved.save()
    by_state = je.LiveRun.load(path, attach=False)
    np.testing.assert_array_equal(by_state.evidence.llr, two.evidence.llr)


def test_counts_answer_arms_that_were_asked_for_and_complete_first_rewards():
    one = named(delta=1e-9)
    one.tell("red", 1)
    one.tell(counts={"red": (1, 1), "green": (1, 2), "blue": (0, 3)})
    assert one.counts.tolist() == [2, 2, 3] and one.means.tolist() == [1, 0.5, 0]
    asked = one.ask(4)
    one.tell(counts={asked[0]: (0, 1)})
    assert list(one.waiting) == asked[1:]


REFUSED = {
    "more hits than trials": ({"red": (11, 10)}, "counts: got .'red': .11, 10.. .mean 1.1.; allow"),
    "half a hit": ({"red": (1.5, 10)}, "rewards 0 or 1 for Bernoulli"),
    "a negative sum": ({"red": (-1, 10)}, "rewards 0 or 1"),
    "no number": ({"red": (1, 1.0)}, "counts: got 1.0; allowed: an integer >= 0"),
    "squares": ({"red": (1, 2, 1)}, r"allowed: arms and their \(sum, number\)"),
    "one number": ({"red": 3}, r"\(sum, number\)"),
    "no arm": ({"reed": (1, 2)}, "arm: got 'reed'"),
    "no mapping": ([("red", 1, 2)], "counts: got .*a mapping"),
    "a sum of nothing": ({"red": (1, 0)}, "sums of 0 where there is no reward"),
    "nothing": ({"red": (0, 0)}, "1 to [0-9]+ further rewards"),
    "too many": ({name: (1, 2**31) for name in NAMES}, "1 to 2147418112 further rewards"),
    "an arm twice": ({"red": (1, 2), "green": (1, 2), 0: (1, 2)}, "each arm once"),
}  # fmt: skip


def test_counts_may_come_before_the_first_rewards_of_an_arm():
    """They enter with these, and are tested with them."""
    one, two = coins(), coins()
    one.tell(counts={"red": (30, 50), "green": (20, 50)})
    assert one.told == 100 and one.answer is None and one.ask() == "blue"
    one.tell("blue", 1)
    two.tell(counts={"red": (30, 50), "green": (20, 50), "blue": (1, 1)})
    assert one.told == two.told == 101
    np.testing.assert_array_equal(one.counts, two.counts)
    np.testing.assert_allclose(one.evidence["llr"], two.evidence["llr"], rtol=1e-12)


@pytest.mark.parametrize("name", REFUSED)
def test_counts_that_are_refused(name):
    counts, message = REFUSED[name]
    one = coins()
    with pytest.raises(je.errors.ArgumentError, match=message):
        one.tell(counts=counts)
    assert one.told == 0 and not one._events
    with pytest.raises(je.errors.ArgumentError, match="None beside an arm or a table"):
        one.tell("red", 1, counts=COUNTS)


class Own(je.Bernoulli):
    """A family that updates otherwise."""

    def update(self, seen, arm, reward, go):
        return super().update(seen, arm, reward, go)


@pytest.mark.parametrize("family", [je.Bounded(0, 1), je.Logistic(), Own()], ids=repr)
def test_families_for_which_counts_do_not_suffice(family):
    one = coins(family=family, threshold=je.Heuristic())
    with pytest.raises(je.errors.UnsupportedError, match="counts: got .*their sums say too little"):
        one.tell(counts=COUNTS)


def test_sums_of_squares_that_cannot_be():
    one = coins(family=je.GaussianUnknownVariance(), threshold=je.Heuristic())
    with pytest.raises(
        je.errors.ArgumentError, match="9.9 is below 10, the sum squared over the number"
    ):
        one.tell(counts={"red": (10, 10, 9.9)})
    with pytest.raises(je.errors.ArgumentError, match="sum, number, sum of squares"):
        one.tell(counts={"red": (10, 10)})


def test_counts_from_the_shell(shell, tmp_path):
    shell("new", "--arms", *NAMES, "--family", "bernoulli", "--rule", "uniform")
    words = [f"{arm}={hits}/{trials}" for arm, (hits, trials) in COUNTS.items()]
    ended = "The run stopped after 300 rewards. The answer: red"
    assert ended in shell("tell", "--counts", *words)
    one = je.LiveRun.load(tmp_path / "mine.live", attach=False)
    one.tell(counts={"blue": (1, 5)})  # recorded; the answer stays
    assert one.samples == 300 and one.told == 305 and one.counts[2] == 104
    assert one.stopped and one.answer_arms == ("red",)
    for wrong in (["red"], ["red=1"], ["red=x/2"], ["=1/2"]):
        shell("tell", "--counts", *wrong, code=2)
    both = shell("tell", "red", "1", "--counts", *words, code=2)
    assert "rewards: got ('red', '1') (rewards and counts)" in both


@pytest.mark.parametrize("family, times", [
    (je.Bernoulli(), 3), pytest.param(je.Bounded(), 6, marks=pytest.mark.slow),
], ids=repr)  # fmt: skip
def test_p_values_of_all_pairs_together(family, times):
    """Bets for and against a pair of equal means are two martingales, and priors are one."""
    run = coins(family=family, delta=1e-9)
    run.tell(list(NAMES) * 20, [1, 0, 0] * 15 + [0, 1, 0] * 5)
    found = run.p_values
    assert found.pairs.min() < 1 / times
    np.testing.assert_array_equal(found.together, np.minimum(1, times * found.pairs))
