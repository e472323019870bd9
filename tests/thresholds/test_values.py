"""The values of every threshold against its formula, in NumPy; KaufmannKoolen's bounds."""

import math

import jax
import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar
from scipy.special import zeta

import jaxelim as je
from jaxelim import catalogue, cli, scope, thresholds
from tests.calls import NAMES
from tests.twin import gk16, heuristic


def linear(t, delta):
    """The formula of LinearThreshold(3, 2.0, 1.5, 0.5)."""
    volume = 3 / 2 * math.log(1 + t * 2.0**2 / (0.5 * 3))
    return (math.sqrt(volume + math.log(1 / delta)) + 1.5 * math.sqrt(0.5 / 2)) ** 2


VALUES = {
    "heuristic": ((je.Heuristic(), heuristic),),
    "gk16": ((je.GK16(), gk16),),
    "linear-threshold": ((je.thresholds.LinearThreshold(3, 2.0, 1.5, 0.5), linear),),
    "mixture": (
        (je.Mixture(), lambda t, delta: math.log(1 / delta)),
        (je.Mixture(pieces=6), lambda t, delta: math.log(6 / delta)),
    ),
}  # fmt: skip
"""Thresholds by name, each with its formula: a function of the numbers t and delta."""


def test_no_threshold_is_left_out():
    assert set(VALUES) == set(catalogue.names("threshold")) - {"kaufmann-koolen"}


@pytest.mark.parametrize("name", VALUES)
def test_values(name, monkeypatch):
    monkeypatch.setattr(thresholds, "jnp", np)
    for threshold, formula in VALUES[name]:
        for t in (7, 300, 10**6):
            for delta in (0.3, 0.01, 1e-12):
                found = threshold(np.float64(t), np.float64(delta))
                assert found == pytest.approx(formula(t, delta), rel=1e-12), (threshold, t, delta)


def c_gaussian(x):
    """min over lambda of (g_G(lambda) + x)/lambda, by search, with SciPy's zeta."""

    def value(l):
        g = 2 * l - 2 * l * math.log(4 * l) + math.log(zeta(2 * l)) - math.log1p(-l) / 2
        return (g + x) / l

    return minimize_scalar(value, bounds=(0.5 + 1e-9, 1 - 1e-9), method="bounded",
                           options={"xatol": 1e-12}).fun  # fmt: skip


def t_exponential(x):
    """min over lambda and xi in (0, 1/2] of (g_xi(lambda) + x)/lambda, by search.

    g_xi(lambda) = lambda (1 + xi) log(pi^2/(3 log(1 + xi)^2)) - log(1 - lambda (1 + xi)).
    """

    def value(point):
        l, xi = point
        a = l * (1 + xi)
        if not (0 < a < 1 and 0 < xi <= 0.5):
            return np.inf
        return (a * math.log(math.pi**2 / (3 * math.log1p(xi) ** 2)) - math.log1p(-a) + x) / l

    options = {"xatol": 1e-10, "fatol": 1e-13, "maxiter": 2000}
    starts = [[0.5 / (1 + xi), xi] for xi in (0.05, 0.3, 0.499)]
    return min(minimize(value, s, method="Nelder-Mead", options=options).fun for s in starts)


TIMES = np.array([2.0, 5, 40, 1e3, 1e6, 1e9])
DELTAS = np.exp(-np.geomspace(1e-12, 690, 60))  # as dense as the lines are, in log(1/delta)


@pytest.mark.parametrize("arms, pieces", [(1, 4), (2, 1), (2, 6), (5, 1)])
@pytest.mark.parametrize("gaussian", [False, True])
def test_kaufmann_koolen(arms, pieces, gaussian):
    given = np.broadcast_arrays(TIMES, DELTAS[:, None])
    with scope.engine():
        found = np.asarray(jax.jit(je.thresholds.KaufmannKoolen(pieces, arms, gaussian))(*given))
    for row, delta in zip(found, DELTAS, strict=True):
        x = (math.log(pieces) - math.log(delta)) / arms
        log_n = np.log(np.maximum(TIMES / arms, 1))
        right = arms * (c_gaussian(x) + 2 * np.log(4 + log_n))
        if not gaussian:
            right = arms * (t_exponential(x) + 3 * np.log(1 + log_n))
        assert (row >= right * (1 - 1e-8)).all() and (row <= 1.001 * right).all()
    assert (np.diff(found, axis=0) > 0).all() and (np.diff(found, axis=1) >= 0).all()


COINS = je.Instance.unstructured([0.5, 0.4, 0.3, 0.2, 0.1], je.Bernoulli())
MEANS = je.Instance.unstructured([1.0, 0.5, 0.2, 0.0, -1.0])
LINEAR = je.Instance([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [1.0, 0.2])


@pytest.mark.parametrize("instance, problem, right", [
    (COINS, je.BestArm(), (4, 2, False)), (COINS, je.TopM(2), (6, 2, False)),
    (COINS, je.Thresholding(0.35), (5, 1, False)), (MEANS, je.BestArm(), (4, 2, True)),
    (MEANS, je.TopM(3), (6, 2, True)), (MEANS, je.Thresholding(0.1), (5, 1, True)),
    (MEANS, je.BestArm(items=np.arange(20.0).reshape(4, 5) ** 2), (1, 5, True)),
    (LINEAR, je.BestArm(), (1, 3, True)), (LINEAR, je.TopM(2), (1, 3, True)),
])  # fmt: skip
def test_pieces_and_arms_of_an_instance(instance, problem, right):
    made = catalogue.made("threshold", "kaufmann-koolen").bound(instance, problem)
    assert made == je.thresholds.KaufmannKoolen(*right)
    assert eval(repr(made), NAMES) == made and hash(eval(repr(made), NAMES)) == hash(made)


def test_command_line(capsys, tmp_path):
    je.Instance.unstructured([9.0, 0.0, -3.0]).to_json(tmp_path / "easy.json")
    words = ["run", str(tmp_path / "easy.json"), "--rule", "uniform", "--runs", "2"]
    words += ["--max-samples", "50", "--threshold", "kaufmann-koolen"]
    assert cli.main(words) == 0 and "llr" in capsys.readouterr().out
