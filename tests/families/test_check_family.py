"""`check_family` accepts right families and names the fault of wrong ones."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxelim as je
from jaxelim import scope
from jaxelim.evidence.arms import ArmEvidence
from jaxelim.families.arm import Stat
from jaxelim.families.one_parameter import count_loss
from jaxelim.testing import (
    ContractError,
    check_family,
    draw_checks,
    family_checks,
    whole_family,
)
from jaxelim.testing.evidence_checks import check_evidence
from tests.faces.test_user_code import Shifted
from tests.families.family_cases import Binomial, Faces, Geometric, Textbook

SLOW = pytest.mark.slow


@pytest.mark.slow_rows("Geometric()")
@pytest.mark.parametrize("family", [
    Geometric(), pytest.param(je.Bernoulli(), marks=SLOW), pytest.param(Textbook(), marks=SLOW),
    pytest.param(je.Exponential(), marks=SLOW), pytest.param(Binomial(), marks=SLOW),
    pytest.param(Binomial(2), marks=SLOW), pytest.param(Faces(), marks=SLOW),
], ids=repr)  # fmt: skip
def test_right_families(family):
    report = check_family(family)
    text = str(report)
    assert report.subject == repr(family) and len(report.lines) == 7 + family.has("log_mixture")
    parts = "bounds invert the loss", "pairs cost the least", "updates of"
    assert all(part in text for part in parts)
    assert "n = 100000 rewards at each of 5 means" in text and "0 of its value" not in text
    ends = {"bernoulli": "0 and 1", "exponential": "none", "binomial": f"0 and {family.high:g}",
            "faces": "-2 and -1"}  # fmt: skip
    assert f"ends included: {ends.get(family.name, '0')}" in report.lines[0]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 6))
def test_other_seeds(seed):
    """A right family fails a check by luck with probability 1e-6."""
    for family in (je.Bernoulli(), Geometric(), je.Exponential(), Binomial()):
        check_family(family, seed=seed, draws=20_000)


def test_the_report_separates_exact_losses_from_others():
    """The textbook's form cancels for x near y."""
    exact, other = (_off(family) for family in (Geometric(), Textbook()))
    assert exact < 1e-7 < 1e-4 < other


def _off(family):
    with scope.engine():
        line = family_checks.check_loss(family, np.random.default_rng(0))
    return float(line.split("off by ")[1].split()[0])


def wrong(base=Geometric, **members):
    """A family with these members in place of the right ones."""
    names = {"name": "wrong", "__doc__": "A wrong family.", **members}
    return dataclasses.make_dataclass("Wrong", [], bases=(base,), namespace=names, frozen=True)()


def _loss(change):
    """A loss from Geometric's, the mean and the shift."""
    return dict(loss=lambda self, stat, by: change(Geometric.loss(self, stat, by), stat.mean, by))


def _plain(d, m, by):
    return m * jnp.log(m / (m + by)) - (1 + m) * jnp.log((1 + m) / (1 + m + by))


def _other_way(d, m, by):
    return Geometric().loss(Stat(m, m + by), -by)


LOSSES = {
    "squares": (_loss(lambda d, m, by: by**2 / (2 * (m + by) * (1 + m + by))), "an exponential"),
    "other way round": (_loss(_other_way), "finite inside the range"),
    "no number at the end": (_loss(_plain), "nan"),
    "0": (_loss(lambda d, m, by: 0 * by), "second derivative"),
    "minus": (_loss(lambda d, m, by: -d), "second derivative"),
    "not 0": (_loss(lambda d, m, by: 0.1 + d), "it has to be 0"),
    "a slope that is not its own": (
        _loss(lambda d, m, by: d + 0.1 * (by - jax.lax.stop_gradient(by))), "by its derivative"),
}  # fmt: skip
RAISES = dict(loss=lambda self, stat, by: by @ jnp.ones((3, 3))), "loss raised"


def _draw(change):
    """Geometric's, changed."""

    def draw(self, lanes, nature, arm, pull, noise):
        reward = Geometric().draw(lanes, nature, arm, pull, noise)
        return change(lanes.take(nature, arm), noise, reward)

    return draw


def _one_nature(self, lanes, nature, arm, pull, noise):
    return Geometric().draw(lanes, nature.reshape(-1)[: nature.shape[0]], arm, pull, noise)


DRAWS = {
    "biased": (
        _draw(lambda mu, u, x: x + jnp.where((u < 0.05) & (mu > 0), 1.0, 0.0)),
        "have mean .* standard errors off",
    ),
    "shrunk": (_draw(lambda mu, u, x: 0.95 * x), "have mean .* standard errors off"),
    "always mu": (_draw(lambda mu, u, x: mu), "have variance 0 over"),
    "of two points": (_draw(lambda mu, u, x: jnp.where(u < 0.5, 2 * mu, 0)), "have variance"),
    "not finite": (
        _draw(lambda mu, u, x: jnp.where(u > 0, x, jnp.inf)),
        r"not finite, for noise \[0",
    ),
    "below the range": (_draw(lambda mu, u, x: jnp.where(u < 0.01, -1.0, x)), "out of the range"),
    "at the end": (
        _draw(lambda mu, u, x: jnp.where(mu > 0, x, 1)),
        "other than the mean, at an end",
    ),
    "one for all": (_draw(lambda mu, u, x: x[0]), r"rewards are float64\[\]"),
    "of one type": (_draw(lambda mu, u, x: x.astype(jnp.int32)), "rewards are int32"),
    "one nature for all": (_one_nature, "a nature of its own"),
}


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Doubled(ArmEvidence):
    """Evidence with a doubled gradient."""

    def gradient(self, piece):
        return 2 * super().gradient(piece)


def _doubled(self, space, stats, shape):
    return Doubled.of(self, space, shape, self.stat(stats), stats.counts)


def _more_counts(self, space, stats, shape):
    return ArmEvidence.of(self, space, shape, self.stat(stats), 2 * stats.counts)


def _goes_on(self, seen, arm, reward, go):
    return Geometric.update(self, seen, arm, reward, go | True)


def _forgets(self, seen, arm, reward, go):
    return dataclasses.replace(
        Geometric.update(self, seen, arm, reward, go), reward_sums=seen.stats.reward_sums
    )


def _starts_at_0(self, space, problem, tables, rewards):
    start = Geometric.start(self, space, problem, tables, rewards)
    return dataclasses.replace(start, counts=0 * start.counts)


def _late(self, seen, arms, beta):
    return Geometric.refuted_pairs(self, seen, arms, 2 * beta)


def _with_neighbours(self, seen, arms, beta):
    pairs = Geometric.refuted_pairs(self, seen, arms, beta)
    return [(i, row | jnp.roll(row, 1, -1)) for i, row in pairs]


def _midway(self, w_a, a, w_b, b, off):
    return off / 2


def _short(self, stat, radius, up):
    return 0.9 * Geometric.reach(self, stat, radius, up)


SETTINGS = {
    "name of ours": (dict(name="bernoulli"), "has to be its own"),
    "no name": (dict(name=""), "has to be its own"),
    "noise": (dict(noise="cauchy"), "noise is 'cauchy'"),
    "range": (dict(high=0.0), "no mean is between"),
    "refused": (
        dict(high=5.0, check=lambda self, instance: je.Bernoulli().check(instance)),
        "refuses means inside",
    ),
    "docstring": (dict(__doc__="Args:\n    size: none."), "docstring"),
    "repr": (dict(__repr__=lambda self: "Other()"), "repr"),
}


def fails(part, sentence, *given, **members):
    """Run one part of the check on a wrong family."""
    with pytest.raises(ContractError, match=sentence), scope.engine():
        part(wrong(**members), np.random.default_rng(0), *given)


@pytest.mark.parametrize("case", LOSSES)
def test_wrong_losses(case):
    members, sentence = LOSSES[case]
    fails(family_checks.check_loss, sentence, **members)


@pytest.mark.parametrize("case", DRAWS)
def test_wrong_draws(case):
    draw, sentence = DRAWS[case]
    fails(draw_checks.check_draws, sentence, 100_000, draw=draw)


@pytest.mark.parametrize("change", [
    lambda d, m, by: count_loss(m, by), lambda d, m, by: d / 2,
], ids=["of Poisson", "half of it"])  # fmt: skip
def test_losses_of_other_rewards(change):
    """Each is the loss of an exponential family; geometric rewards differ."""
    members = _loss(change)
    with scope.engine():
        family_checks.check_loss(wrong(**members), np.random.default_rng(0))
    fails(draw_checks.check_draws, "have variance|have mean", 100_000, **members)


def _runs(family, rng):
    return whole_family._check_family_runs(family, rng)


INHERITED = {
    "meet": (family_checks.check_pairs, dict(meet=_midway), "by search, with slack 0.1"),
    "not exponential": (family_checks.check_pairs, dict(exponential=True, **LOSSES["squares"][0]),
                        "by search, with slack 0$"),
    "reach": (family_checks.check_pairs, dict(reach=_short), "not the radius"),
    "start": (family_checks.check_update, dict(start=_starts_at_0), "after start counts"),
    "go": (family_checks.check_update, dict(update=_goes_on), "after update"),
    "sums": (family_checks.check_update, dict(update=_forgets), "after update"),
    "gradient": (check_evidence, dict(evidence=_doubled), "gradient is not that of"),
    "counts": (
        check_evidence,
        dict(evidence=_more_counts),
        "not the LLR at the counts",
    ),
    "order": (_runs, dict(refuted_pairs=_late), "tau_full = .*, tau_selective"),
    "lanes": (
        _runs,
        dict(refuted_pairs=_with_neighbours),
        "a run alone and the same run in a batch",
    ),
}


@pytest.mark.slow_rows("gradient", "order")
@pytest.mark.parametrize("case", [
    pytest.param(case, marks=SLOW if case in ("counts", "lanes") else ()) for case in INHERITED
])  # fmt: skip
def test_wrong_overrides(case):
    part, members, sentence = INHERITED[case]
    fails(part, sentence, **members)


@pytest.mark.slow_rows("members4-have mean .* standard errors off")
@pytest.mark.parametrize("members, sentence", [
    LOSSES["other way round"], (_loss(lambda d, m, by: d / 2), "have variance"), RAISES,
    (dict(reach=_short), "not the radius"),
    (dict(draw=DRAWS["biased"][0]), DRAWS["biased"][1]),
])  # fmt: skip
def test_the_whole_check_refuses(members, sentence):
    with pytest.raises(ContractError, match=sentence) as caught:
        check_family(wrong(**members), seed=1)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("case", SETTINGS)
def test_wrong_settings(case):
    members, sentence = SETTINGS[case]
    with pytest.raises(ContractError, match=sentence):
        check_family(wrong(**members))


class NoDataclass(Geometric):
    """Not decorated, so its fields would be its parent's."""


@dataclasses.dataclass
class Mutable(je.families.OneParameter):
    """Not frozen."""


@pytest.mark.parametrize("family, sentence", [
    (je.Gaussian(), "not a OneParameter family"), (Geometric, "not a OneParameter family"),
    (None, "not a OneParameter family"), (NoDataclass(), "no frozen dataclass"),
    (Mutable(), "no frozen dataclass"),
], ids=repr)  # fmt: skip
def test_objects_that_are_no_family(family, sentence):
    with pytest.raises(ContractError, match=sentence):
        check_family(family)


@pytest.mark.parametrize("argument, value", [("draws", 999), ("draws", 1.5), ("seed", -1)])
def test_arguments(argument, value):
    with pytest.raises(je.errors.ArgumentError, match=f"{argument}: got {value}"):
        check_family(Geometric(), **{argument: value})


@pytest.mark.slow
def test_a_good_source(tmp_path):
    instance = je.Instance.unstructured([0.5, 0.2, 0.0], source=Shifted())
    assert je.testing.check_source(instance).verdict == "passed"
    result = je.simulate(instance, je.BestArm(), je.Uniform(), runs=2, threshold=je.Mixture())
    assert "shifted is not that of Gaussian" in str(result.proven)
    result.save(tmp_path / "x.nc")
    assert je.load_result(tmp_path / "x.nc", source=Shifted()).instance == instance
    assert str(je.load_result(tmp_path / "x.nc").instance.source) == "Shifted()"
