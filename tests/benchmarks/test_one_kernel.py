"""The benchmark of one kernel against many."""

import pytest

import jaxelim as je
from benchmarks import one_kernel
from benchmarks.kernels import in_many_kernels


@pytest.mark.parametrize("rule", [je.LinGapE(rate=1.5), je.EBTCI(share=0.3)], ids=repr)
def test_a_rule_in_many_kernels_differs_by_its_trait_alone(rule):
    other = in_many_kernels(rule)
    assert repr(other) == repr(rule) and isinstance(other, type(rule))
    assert rule.traits.one_kernel and other.traits.one_kernel == ()


@pytest.mark.slow
def test_a_row_times_both_ways_on_the_same_pulls(capsys):
    one_kernel.main(["uniform", "--repeats", "1", "--runs", "16"])
    row = capsys.readouterr().out.splitlines()[-1].strip("| ").split(" | ")
    assert row[:2] == ["uniform, best-arm", "linear-d20"] and row[-1] == "True"
    many, one, ratio = map(float, row[2:5])
    assert abs(one / many - ratio) < 0.02
