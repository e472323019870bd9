"""The tables of top-two rules at a tiny size, from their command line."""

import csv

import numpy as np
import pytest

import jaxelim as je
from experiments import top_two


def test_the_cells_and_the_options():
    options = top_two.Table()
    found, followed = top_two.jobs(options), top_two.share_jobs(options)
    names = {cell.name for cell in (*found.values(), *followed.values())}
    assert len(found) == 6 * 12 and len(names) == len(found) + len(followed)
    for (name, _), cell in found.items():
        assert cell.delta == (0.1 if name in ("gk16", "menard") else 0.01,)
        assert (cell.stopping, cell.threshold, cell.ridge) == ((je.LLR(),), je.GK16(), None)
    for cell in followed.values():
        assert cell.delta == tuple(10.0**-n for n in range(2, 10))
        assert "delta" not in cell.rule.traits.reads
    assert not top_two.share_jobs(top_two.Table(shares="none"))
    with pytest.raises(je.errors.ArgumentError, match="t3c"):
        top_two.Table(rules=("t3d",))
    with pytest.raises(je.errors.ArgumentError, match="shares"):
        top_two.Table(shares="menar")


@pytest.mark.parametrize("name", ["gk16", "menard", "shang-2-bernoulli"])
def test_half_allocations(name):
    """The best arm has 1/2; the pieces' H_p are equal there, and no mixture is better."""
    setting = top_two.INSTANCES[name]
    w = top_two.half_allocation(setting.means, setting.family)
    best = int(np.argmax(setting.means))
    assert w[best] == pytest.approx(0.5, abs=1e-9) and w.sum() == pytest.approx(1)

    def values(w):
        d, out = top_two._divergence(setting.family), []
        for k, a in enumerate(setting.means):
            if k != best:
                u = (w[best] * setting.means[best] + w[k] * a) / (w[best] + w[k])
                out.append(w[best] * d(setting.means[best], u) + w[k] * d(a, u))
        return np.array(out)

    assert np.ptp(values(w)) < 1e-9
    rng = np.random.default_rng(0)
    for _ in range(20):
        other = w * np.exp(0.1 * rng.normal(size=len(w)))
        other[best] = 0
        other *= 0.5 / other.sum()
        other[best] = 0.5
        assert values(other).min() < values(w).min()


@pytest.mark.slow
def test_the_numbers_are_those_of_simulate(tmp_path, capsys):
    arguments = [
        "--runs", "6", "--instances", "gk16", "--rules", "eb-tci", "--workers=0",
        "--output", str(tmp_path),
    ]  # fmt: skip
    assert top_two.main(arguments) == 0
    page = capsys.readouterr().out
    assert (tmp_path / "top_two.md").read_text() in page
    with open(tmp_path / "top_two.csv", newline="") as file:
        (line,) = csv.DictReader(file)
    setting = top_two.INSTANCES["gk16"]
    known = je.simulate(setting.instance("gk16"), je.BestArm(), je.EBTCI(), delta=0.1, runs=6,
                        threshold=je.GK16())  # fmt: skip
    assert float(line["mean"]) == pytest.approx(known.samples.mean())
    assert float(line["leader"]) == pytest.approx(known.pulls[0, 0, :, 0].sum() / known.pulls.sum())
    assert float(line["bound"]) == pytest.approx(574.2, abs=0.1) and line["other"] == "1555"
    with open(tmp_path / "top_two_shares.csv", newline="") as file:
        shares = list(csv.DictReader(file))
    swept = je.simulate(top_two.INSTANCES["menard"].instance("menard"), je.BestArm(), je.EBTCI(),
                        delta=top_two.DELTAS, runs=6, threshold=je.GK16())  # fmt: skip
    assert len(shares) == 8 and swept.stopped.all()
    last = (swept.pulls[0, -1, :, 0] / swept.samples[0, -1]).mean()
    assert float(shares[-1]["leader"]) == pytest.approx(last)
    assert (tmp_path / "top_two_shares.png").stat().st_size > 5000
    assert (tmp_path / "top_two_gk16.pdf").stat().st_size > 5000
