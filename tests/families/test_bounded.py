"""Bounded rewards: bets against the rewards themselves, KL_inf and H* against SciPy."""

import functools
import itertools
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import binom

import jaxelim as je
from jaxelim import scope
from jaxelim.contracts.pieces import Pairs
from jaxelim.contracts.views import ArmContext
from jaxelim.families import Betas, Points
from jaxelim.families.arm import ArmEvidence
from jaxelim.families.bounded import BETS, POWERS, Truth, Wins
from jaxelim.lanes import PLAIN
from jaxelim.mixtures import Grid, log_mean_exp, pieces
from jaxelim.mixtures.pieces import each
from jaxelim.numerics.roots import jet
from tests.twin import bounded as twin


def wins_of(x, size=None):
    """What rewards x say, by definition; `size`: of a stack drawn from without replacement."""
    powers = [np.cumsum(y**i)[-1] for y in (x, 1 - x) for i in range(1, POWERS + 1)]
    if size is not None:
        s = np.arange(len(x))
        powers += [np.sum((np.cumsum(x) - x) / (size - s)), np.sum(s / (size - s)), float(size)]
    return Wins(jnp.asarray(float(len(x))), jnp.asarray(x.mean()), *map(jnp.asarray, powers))


FAMILY = je.Bounded()


def llr(a, b, slack=0.0):
    """The LLR of {mu_b >= mu_a + slack}, as `losses` of ArmEvidence."""
    off = a.mean - b.mean + slack
    x = FAMILY.meet(a.n, a, b.n, b, off)
    return a.n * FAMILY.loss(a, -x) + b.n * FAMILY.loss(b, off - x)


@functools.partial(jax.jit, static_argnums=2)
def log_e(a, b, slack):
    """log e of the pairs of arms a and b [Q]."""
    shape = SimpleNamespace(exists=jnp.ones(a.n.shape, bool), slack=slack)
    return pieces.over_cells(FAMILY, a, b, shape, FAMILY.priors(Grid()))


def samples(number, seed=0):
    """Rewards of two arms, the first of the larger mean: 0/1, Beta, three points."""
    rng = np.random.default_rng(seed)
    for n in range(number):
        arms = []
        for _ in range(2):
            size, m = int(rng.integers(3, 400)), rng.uniform(0.03, 0.97)
            draws = ((rng.random(size) < m) + 0.0, rng.beta(3 * m, 3 * (1 - m), size),
                     rng.choice([0.0, 0.3, 1.0], size, p=rng.dirichlet(np.ones(3))))  # fmt: skip
            arms.append(draws[n % 3])
        yield sorted(arms, key=lambda x: -x.mean())


@jax.jit
def looked(a, b):
    alone = jax.tree.map(lambda x: x[None], (a, b))
    return llr(a, b), log_e(*alone, 0.0)[0]


@pytest.mark.parametrize("ends", [False, True], ids=["with", "without replacement"])
def test_evidence_is_that_of_the_rewards(ends):
    """Six pairs of samples: the LLR is at most that of the best stakes, whose grid is coarse.

    It is at least 0.95 of the least sum of the twin's lower bounds, less 0.2 without replacement.
    log e is at most the twin's least on a grid, and above 1 at least 0.98 of it less 0.02.
    """
    for a, b in samples(6):
        size = max(len(a), len(b)) + 3 if ends else None
        with scope.engine():
            value, won = (float(x) for x in looked(wins_of(a, size), wins_of(b, size)))
        if a.mean() == b.mean():
            assert value == 0 and won == -np.inf
            continue
        least, most = twin.llr(a, b, size=size), twin.llr(a, b, exact=True, size=size)
        assert 0.95 * least - (0.2 if ends else 1e-3) <= value <= most * 1.002 + 1e-3
        on_grid = twin.log_e(a, b, size=size)
        assert won <= on_grid + 1e-9
        assert won >= 0.98 * on_grid - 0.02 or on_grid < 1


@pytest.mark.parametrize("noise", [0, 1e-6])
def test_equal_rewards_overstate_nothing(noise):
    """The LLR of arms without variance is at most that of the best stakes; few or many each."""
    rng = np.random.default_rng(4)
    for n, m in ((2, 300), (300, 2), (40, 40)):
        for means in ((0.9, 0.3), (1.0, 0.2), (0.4, 0.0), (0.55, 0.5)):
            arms = (np.full(size, x) for size, x in zip((n, m), means, strict=True))
            a, b = (np.clip(x + noise * rng.normal(size=x.size), 0, 1) for x in arms)
            with scope.engine():
                value = float(jax.jit(llr)(wins_of(a), wins_of(b)))
            at_b = twin.best(a, 1e-9 + means[1] * (1 + 1e-5), True, True)
            most = min(twin.llr(a, b, exact=True), at_b)
            assert 0 < value <= 1.002 * most


@pytest.mark.parametrize("up", [True, False])
def test_intervals_invert_the_loss(up):
    """The win at the end is the level, or the end is that of the range: rounding of 1e-6."""
    family = je.Bounded(-1, 3)
    reach = jax.jit(family.reach, static_argnums=2)
    for (x, _), level in itertools.product(samples(9, seed=5), (1e-3, 1.0, 5.0, 40.0)):
        with scope.engine():
            arm = wins_of(x)
            arm = arm._replace(mean=4 * arm.mean - 1)
            far = reach(arm, level / arm.n, up)
            end = 3 - arm.mean if up else arm.mean + 1
            won = arm.n * family.loss(arm, far if up else -far)
            far, end, won = (float(x) for x in (far, end, won))
        assert 0 < far <= end
        assert won == pytest.approx(level, rel=1e-6) or (far == end and won < level)


def test_a_lower_bound_is_below_the_stake_for_every_bet():
    """Bets with edges up to 0.98, means u all over [0, 1]: 60 samples."""
    for a, _ in samples(60, seed=1):
        with scope.engine():
            wins = wins_of(a)
        for u, up in itertools.product((0.02, 0.2, 0.5, 0.9, 0.99), (True, False)):
            bets = np.geomspace(1e-3, 0.98, 30) / (u if up else 1 - u)
            with scope.engine():
                side = wins.side(jnp.asarray(u), up)
                bound = np.asarray(side.logarithm(jnp.asarray(bets)))
            exact = twin.stake(a, u, bets, up)
            assert (bound <= exact + 1e-9 * (1 + np.abs(exact))).all()


@pytest.mark.parametrize("scale", [1e-2, 1e-4, 1e-6])
@pytest.mark.parametrize("up", [True, False])
def test_evidence_of_small_rewards(scale, up):
    """Exponential rewards far below the interval's end, and 1 less them: 10,000 of them.

    At 0.8 and 0.95 of the mean: above 0.8 and 0.98 of the best stake's logarithm, and below it.
    """
    x = scale * np.random.default_rng(0).exponential(size=10_000)
    own = x if up else 1 - x
    for share, least in ((0.8, 0.8), (0.95, 0.98)):
        u = share * x.mean()
        bets = np.geomspace(1e-3, 1 - 1e-9, 300) / u
        exact = twin.stake(x, u, bets, True).max()
        with scope.engine():
            value = 10_000 * float(wins_of(own).won(jnp.asarray(u if up else 1 - u), up))
        assert least * exact <= value <= exact


def test_common_means_leave_room_for_the_slack():
    """With slack 0.5 a common mean is at most 0.5; the value is near the twin's."""
    a, b = np.repeat([0.2, 1.0], [5, 45]), np.repeat([0.9, 1.0], [5, 45])
    with scope.engine():
        first, second = wins_of(a), wins_of(b)
        off = first.mean - second.mean + 0.5
        at = first.mean - FAMILY.meet(first.n, first, second.n, second, off)
        value = float(llr(first, second, 0.5))
    least = twin.llr(a, b, slack=0.5)
    assert float(at) <= 0.5 and 0.95 * least <= value <= 1.04 * least


@pytest.mark.slow
def test_rounding_refutes_no_truth():
    """A million equal rewards at their mean: every stake is 1. Sums of powers err by 1e-5."""
    for reward in (0.0173, 0.9827, 0.3):
        with scope.engine():
            wins = wins_of(np.full(1_000_000, reward))
            for up in (True, False):
                bets = BETS if up else -BETS
                assert float(log_mean_exp(each(FAMILY, wins, jnp.asarray(reward), bets))) <= 0
                assert float(wins.won(jnp.asarray(reward), up)) == 0


@pytest.mark.slow
def test_slack_near_an_end_leaves_out_means_beyond_it():
    """1500 rewards of each arm, nearly all at an end: means of b beyond it are no alternatives.

    At most the twin's least on a grid of means, and within 0.01 of it.
    """
    few = ((0, 65.4), (1, 63.4), (3, 59.3), (8, 49.5))
    for up, (hits, value) in itertools.product((True, False), few):
        x = np.arange(1500) < hits
        x = (x if up else ~x) + 0.0
        with scope.engine():
            arm = jax.tree.map(lambda x: x[None], wins_of(x))
            won = float(log_e(arm, arm, 0.05)[0])
        on_grid = twin.log_e(x, x, 0.05)
        assert on_grid - 0.01 <= won <= on_grid + 1e-9
        assert won == pytest.approx(value, abs=0.1)


@pytest.mark.slow
def test_e_values_with_slack_have_a_mean_of_at_most_1_at_the_truth():
    """All numbers of ones among 12 rewards of a and 9 of b, mu_b = mu_a + 0.2."""
    sizes, numbers = (12, 9), np.meshgrid(np.arange(13), np.arange(10), indexing="ij")
    with scope.engine():
        arms = []
        for n, ones in zip(sizes, (jnp.asarray(x.ravel() + 0.0) for x in numbers), strict=True):
            powers = (ones,) * POWERS + (n - ones,) * POWERS
            arms.append(Wins(jnp.full_like(ones, n), ones / n, *powers))
        won = np.asarray(log_e(*arms, 0.2))
    for ends in ((0.0, 0.2), (0.05, 0.25), (0.8, 1.0)):
        chance = np.prod([binom.pmf(*x) for x in zip(numbers, sizes, ends, strict=True)], 0)
        assert 0 < chance.ravel() @ np.exp(won) <= 1 + 1e-12


@pytest.mark.slow
def test_a_share_is_of_two_arms_in_any_order():
    """Of 10 rewards of mean 0.2 and 1000 of 0.8; at equal means it is the other arm's count."""

    def share(a, b):
        with scope.engine():
            arms = (wins_of(np.repeat([1.0, 0.0], ones)) for ones in (a, b))
            wins = jax.tree.map(lambda *x: jnp.stack(x), *arms)
            space = ArmContext(PLAIN, wins.mean)
            shape = Pairs(jnp.int32(0), jnp.asarray([False, True]))
            evidence = ArmEvidence(FAMILY, space, shape, wins, wins.n)
            seen = SimpleNamespace(evidence=evidence)
            return [float(FAMILY.share(seen, jnp.int32(i), jnp.int32(1 - i))) for i in (0, 1)]

    first, second = share((2, 8), (800, 200))
    assert first > 0.9 and first + second == pytest.approx(1)
    assert share((800, 200), (2, 8)) == pytest.approx([second, first])
    np.testing.assert_allclose(share((5, 5), (15, 15)), [0.75, 0.25])


@pytest.mark.slow
def test_kl_inf_against_scipy():
    """200 distributions of 2 to 6 points, both sides: to 1e-9; and its two derivatives."""
    rng = np.random.default_rng(0)

    @functools.partial(jax.jit, static_argnums=3)
    def look(points, shares, u, up):
        truth = Truth(jnp.ones(()), points @ shares, points, shares)
        step = 1e-4 * jnp.minimum(u, 1 - u)
        slopes = [jet(lambda u: truth.won(u, up), u + s)[1] for s in (-step, step)]
        value, slope, bend = jet(lambda u: truth.won(u, up), u)
        bet, rise = truth.bet(u, up)
        return value, bet, slope, bend, rise, (slopes[1] - slopes[0]) / (2 * step)

    for n in range(200):
        size, up = int(rng.integers(2, 7)), bool(n % 2)
        points, shares = np.sort(rng.random(size)), rng.dirichlet(np.ones(size))
        points[0], points[-1] = points[0] * (n % 3 > 0), max(points[-1], n % 5 == 0)
        u = rng.uniform(0.05, 0.95)
        with scope.engine():
            found = (float(x) for x in look(*map(jnp.asarray, (points, shares, u)), up))
        value, bet, slope, bend, rise, between = found
        assert abs(value - twin.kl_inf(points, shares, u, up)) <= 1e-9
        assert 0 <= bet <= 1 / (u if up else 1 - u) + 1e-12
        if value > 0:
            assert slope == pytest.approx(-bet if up else bet, rel=1e-9)
            assert bend == pytest.approx(rise, rel=1e-9)
            assert bend == pytest.approx(between, rel=1e-3) or n == 99


def test_two_points_have_the_moments_of_the_rewards():
    for x, _ in samples(12, seed=2):
        with scope.engine():
            two = jax.tree.map(np.asarray, FAMILY.bending(wins_of(x)))
        for power in (1, 2, 3):
            found = np.sum(two.probabilities * two.points**power)
            np.testing.assert_allclose(found, np.mean(x**power), rtol=1e-9)


@pytest.mark.slow
def test_live_runs_have_intervals_proofs_and_forecasts_in_any_unit():
    more = []
    for high in (10, 0.01):
        run = je.LiveRun(3, je.BestArm(), je.Uniform(), family=je.Bounded(0, high), delta=0.05)
        rng = np.random.default_rng(0)
        for n in range(60):
            run.tell(n % 3, high * rng.beta(1 + n % 3, 2))
        found, gap = run.intervals(0.95), run.difference(2, 0)
        assert run.proven is True and gap.low <= gap.value <= gap.high
        assert (found.low < found.values).all() and (found.values < found.high).all()
        assert (found.low >= 0).all() and (found.high <= high).all()
        more.append(run.forecast(runs=8).more.mean())
        with pytest.raises(je.errors.ArgumentError, match="rewards"):
            run.tell(0, 1.05 * high)
    assert more[1] == pytest.approx(more[0], rel=0.1)


@pytest.mark.slow
def test_h_star_is_certified_by_scipy():
    """At w* no piece costs less than the value, and a mixture of slopes nowhere more."""
    rng = np.random.default_rng(0)
    source = Points(np.sort(rng.uniform(-1, 1, (3, 3)), 1), rng.dirichlet(np.ones(3), 3))
    instance = je.Instance.unstructured(source=source, family=je.Bounded(-1, 1))
    solved = je.complexity(instance, je.BestArm(), 1e-9)
    means, points = (source.means + 1) / 2, (np.asarray(source.support) + 1) / 2
    shares, values, slopes = np.asarray(source.probabilities), [], []
    top, *others = np.argsort(-means)
    for k in others:

        def costs(u, of=((top, True), (k, False))):
            return np.array([twin.kl_inf(points[arm], shares[arm], u, up) for arm, up in of])

        w = np.asarray(solved.allocation)[[top, k]]
        found = minimize_scalar(lambda u, w=w, costs=costs: w @ costs(u), method="bounded",
                                bounds=means[[k, top]], options=dict(xatol=1e-13))  # fmt: skip
        values.append(found.fun)
        slopes.append(np.zeros(3))
        slopes[-1][[top, k]] = costs(found.x)
    assert abs(min(values) - solved.value) <= 1e-7 * solved.value
    q = np.linspace(0, 1, 100_001)[:, None]
    bound = np.max(q * slopes[0] + (1 - q) * slopes[1], 1).min()
    assert solved.value <= bound * (1 + 1e-7) and bound <= solved.value * (1 + 1e-4)


@pytest.mark.slow
def test_h_star_of_recorded_rewards_is_that_of_their_distributions():
    """As of the same points with the same probabilities; not of rewards at the two ends."""
    stacks = [0.2, 0.4, 0.6, 0.6], [0.1, 0.3, 0.3]
    points = Points([[0.2, 0.4, 0.6], [0.1, 0.3, 0.3]],
                    [[0.25, 0.25, 0.5], [1 / 3, 1 / 3, 1 / 3]])  # fmt: skip
    many, betas = je.Recorded([np.linspace(0, top, 1001) for top in (1, 0.5)]), Betas([[1, 2]] * 2)
    of = lambda source: je.Instance.unstructured(source=source, family=je.Bounded())  # noqa: E731
    h_star = [je.complexity(of(one), je.BestArm()).value for one in (je.Recorded(stacks), points)]
    assert h_star[0] == pytest.approx(h_star[1], rel=1e-6)
    for source, words in ((many, "1000 different rewards"), (betas, "a source of points")):
        with pytest.raises(je.errors.UnsupportedError, match=words):
            je.complexity(of(source), je.Thresholding(0.4))
