"""Which options of `Engine` change a run where choices tie: a slice of `tests.ties`."""

import pytest

import jaxelim as je
from tests import ties

OPTIONS = {name: ties.OPTIONS[name] for name in ("form square", "vmapped", "one lane")}


def test_a_slice():
    """32 runs of LinGapE on arms whose scores tie at every second choice."""
    given = [ties.independent], [je.BestArm()], [je.LinGapE()], 2, 10.0
    counts = ties.counted(*given, OPTIONS)
    assert {key[3] for key in counts} == set(OPTIONS)
    assert {(count.runs, count.changed) for count in counts.values()} == {(32, 0)}


@pytest.mark.slow
def test_rules_on_best_arm():
    """As far as twenty minutes of the processor reach; the command counts all problems."""
    given = ["--minutes", "20", "--instances", "2", "--problems", "best-arm"]
    assert ties.main(given) == 0


COUNTS = {
    ("plain", "best-arm", "LinGapE(rate=2.0)", "one lane"): ties.Count(2, 1, 32, 3),
    ("plain", "top-m", "LinGapE(rate=2.0)", "one lane"): ties.Count(1, 0, 16, 0),
    ("plain", "top-m", "Uniform()", "one lane"): ties.Count(1, 0, 16, 0),
    ("plain", "top-m", "LinGapE(rate=2.0)", "form square"): ties.Count(1, 1, 16, 2),
    ("basis", "top-m", "LinGapE(rate=2.0)", "form square"): ties.Count(1, 1, 16, 1),
}


def test_a_changed_run_is_reported():
    """Of one lane, and of a form where scores tie to the last digit."""
    first, *_, last = COUNTS
    assert list(ties.unexpected(COUNTS)) == [first, last]


def test_counts_are_added_up():
    table = ties.table(COUNTS, 2, "rule").splitlines()
    assert table[2] == "| LinGapE(rate=2.0) | 3/32 |  |  |  | 3/48 |  |"
    assert table[3] == "| Uniform() |  |  |  |  | 0/16 |  |"
