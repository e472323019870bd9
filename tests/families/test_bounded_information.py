"""H* of bounded rewards, against SciPy and closed forms."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import jaxelim as je
from jaxelim.families import Betas, Points
from tests.twin import bounded as twin

pytestmark = pytest.mark.slow


def of(source):
    return je.Instance.unstructured(source=source, family=je.Bounded())


def drawn(rng, arms, size):
    """Arms of this number of points in [-1, 1]: the source, and an instance."""
    points = np.sort(rng.uniform(-1, 1, (arms, size)), 1)
    source = Points(points, rng.dirichlet(np.ones(size), arms))
    return source, je.Instance.unstructured(source=source, family=je.Bounded(-1, 1))


def test_h_star_is_certified_by_scipy():
    """At w* no piece costs less than the value, and a mixture of slopes nowhere more."""
    source, instance = drawn(np.random.default_rng(0), 3, 3)
    solved = je.complexity(instance, je.BestArm(), 1e-9)
    w, means = np.asarray(solved.allocation), (source.means + 1) / 2
    points, shares = (np.asarray(source.support) + 1) / 2, np.asarray(source.probabilities)
    top = int(means.argmax())
    values, slopes = [], []
    for k in range(3):
        if k == top:
            continue

        def costs(u, k=k):
            return (twin.kl_inf(points[top], shares[top], u, True),
                    twin.kl_inf(points[k], shares[k], u, False))  # fmt: skip

        found = minimize_scalar(lambda u: w[top] * costs(u)[0] + w[k] * costs(u)[1],  # noqa: B023
                                bounds=(means[k], means[top]), method="bounded",
                                options=dict(xatol=1e-13))  # fmt: skip
        values.append(found.fun)
        slope = np.zeros(3)
        slope[[top, k]] = costs(found.x)
        slopes.append(slope)
    assert abs(min(values) - solved.value) <= 1e-7 * solved.value
    shares = np.linspace(0, 1, 100_001)[:, None]
    bound = np.max(shares * slopes[0] + (1 - shares) * slopes[1], 1).min()
    assert solved.value <= bound * (1 + 1e-7) and bound <= solved.value * (1 + 1e-4)


def test_h_star_of_recorded_rewards_is_that_of_their_distributions():
    """As of the same points with the same probabilities; not of rewards at the two ends."""
    stacks = [0.2, 0.4, 0.6, 0.6], [0.1, 0.3, 0.3]
    points = Points([[0.2, 0.4, 0.6], [0.1, 0.3, 0.3]],
                    [[0.25, 0.25, 0.5], [1 / 3, 1 / 3, 1 / 3]])  # fmt: skip
    many, betas = je.Recorded([np.linspace(0, top, 1001) for top in (1, 0.5)]), Betas([[1, 2]] * 2)
    h_star = [je.complexity(of(one), je.BestArm()).value for one in (je.Recorded(stacks), points)]
    assert h_star[0] == pytest.approx(h_star[1], rel=1e-6)
    for source, words in ((many, "1000 different rewards"), (betas, "a source of points")):
        with pytest.raises(je.errors.UnsupportedError, match=words):
            je.complexity(of(source), je.Thresholding(0.4))
