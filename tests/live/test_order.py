"""An order that looks sorted is refused, of which independent draws have hardly any."""

import itertools
import math
import pickle

import numpy as np
import pytest
from scipy.special import betaln

import jaxelim as je
from jaxelim.live.order import LEVEL, log_e, p_value

pytestmark = pytest.mark.xdist_group("live")
NAMES = ("red", "green", "blue")


def run() -> je.LiveRun:
    return je.LiveRun(NAMES, je.BestArm(), je.Uniform(), family=je.Bernoulli())


def plain(bits: tuple[int, ...]) -> float:
    """e of zeros and ones by its definition, changes after the last of them summed as they are."""

    def kt(ones: int, n: int) -> float:
        return math.exp(betaln(ones + 0.5, n - ones + 0.5)) / math.pi

    n, ones = len(bits), sum(bits)
    whole = sum(
        kt(sum(bits[:m]), m) * kt(ones - sum(bits[:m]), n - m) / (m * (m + 1)) for m in range(1, n)
    )
    whole += kt(ones, n) / n
    return whole / ((ones / n) ** ones * (1 - ones / n) ** (n - ones))


def test_it_is_the_sum_of_its_definition():
    for bits in [*itertools.product((0, 1), repeat=6)][:-1]:  # of ones alone c is 1
        assert math.exp(log_e(np.array(bits, float))[0]) == pytest.approx(plain(bits) / 2)
    # Of other rewards the number c has a weight of its own, and is left out.
    found = log_e(np.array([5.0, 4.0, 9.0, 1.0, 2.0]))[0]  # above c = 4: 5 and 9
    assert math.exp(found) == pytest.approx(plain((1, 1, 0, 0)) / 12)
    assert max(log_e(np.full(n, x))[0] for n in (1, 2, 9) for x in (1.0, 0.0, -2.0)) < 0


@pytest.mark.parametrize("chance", [0.05, 0.5, 0.9])
def test_its_mean_is_at_most_one_for_every_number_of_draws(chance):
    """Summed over all sequences; also of a number that ends where e first exceeds 1/2."""
    fixed, chosen = dict.fromkeys((1, 4, 10), 0.0), 0.0
    known: dict[tuple[int, ...], float] = {}
    for bits in itertools.product((0, 1), repeat=10):
        weight = chance ** sum(bits) * (1 - chance) ** (10 - sum(bits))
        for n in range(1, 11):
            if bits[:n] not in known:
                known[bits[:n]] = 2 * math.exp(log_e(np.array(bits[:n], float))[0])
        values = [known[bits[:n]] for n in range(1, 11)]
        fixed = {n: before + weight * values[n - 1] for n, before in fixed.items()}
        chosen += weight * next((value for value in values if value > 0.5), values[-1])
    assert 0.1 < max(fixed.values()) <= 1 and 0.1 < chosen <= 1


def drawn(kind: str, rng: np.random.Generator, n: int) -> np.ndarray:
    if kind == "zeros and amounts":
        return np.where(rng.random(n) < 0.06, rng.lognormal(0, 1, n), 0.0)
    return rng.normal(size=n) if kind == "normal" else (rng.random(n) < float(kind)) * 1.0


KINDS = ("0.05", "0.5", "normal", "zeros and amounts")


@pytest.mark.parametrize("kind", KINDS)
def test_independent_draws_pass(kind):
    """2000 tables of two arms. By the bound one is refused with probability at most 0.2.

    None has p <= 0.05, where the bound allows 100.
    """
    rng = np.random.default_rng(0)
    values = [
        p_value([log_e(drawn(kind, rng, n))[0] for _ in range(2)], 2)
        for n in (30, 300)
        for _ in range(1000)
    ]
    assert min(values) > 0.05


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("up", [False, True])
def test_sorted_rewards_are_refused(kind, up):
    """All of 50 tables of two arms with 300 rewards each, sorted either way."""
    rng = np.random.default_rng(1)
    for _ in range(50):
        sorted_ = [np.sort(drawn(kind, rng, 300))[:: 1 if up else -1] for _ in range(2)]
        assert p_value([log_e(x)[0] for x in sorted_], 2) <= LEVEL


def sorted_table(n: int = 2000, ones: int = 100) -> tuple[list, list]:
    """As a query returns it: by arm, then by reward."""
    return [arm for arm in NAMES for _ in range(n)], ([1] * ones + [0] * (n - ones)) * 3


def test_a_sorted_table_in_order_is_refused_and_else_tested_once():
    """In its order it gives a winner of three equal arms; at its end there is none."""
    arms, rewards = sorted_table()
    one = run()
    for told in (({"a": arms, "b": rewards},), (arms, rewards)):
        with pytest.raises(
            je.errors.ArgumentError, match="in_order: got True .p .*rewards of"
        ) as caught:
            one.tell(*told, in_order=True)
    assert one.told == 0
    assert "of 2000 are above 0, and of the first" in str(caught.value)
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value) and isinstance(again, je.errors.ArgumentError)
    with pytest.raises(je.errors.ArgumentError):
        one.tell(arms, rewards)  # two sequences are in order
    one.tell({"a": arms, "b": rewards})
    assert not one.stopped and one.p_values.answer == 1
    two = run()
    two.tell(arms, rewards, in_order="unchecked")
    assert two.stopped and two.p_values.answer < 1e-10
    two.tell(arms, rewards)  # after the end nothing is tested


def test_a_table_by_arm_is_in_order():
    """Which arm comes when may depend on anything that came before."""
    rng = np.random.default_rng(5)
    rewards = (rng.random(600) < 0.3).astype(int)
    one = run()
    one.tell(np.repeat(NAMES, 200), rewards, in_order=True)
    assert one.told == 600
