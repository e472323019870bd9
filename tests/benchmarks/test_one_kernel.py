"""The benchmark of one kernel against many."""

import pytest

from benchmarks import one_kernel


@pytest.mark.slow
def test_a_row_times_both_ways_on_the_same_pulls(capsys):
    one_kernel.main(["uniform", "--repeats", "1", "--runs", "16"])
    row = capsys.readouterr().out.splitlines()[-1].strip("| ").split(" | ")
    assert row[:2] == ["uniform, best-arm", "linear-d20"] and row[-1] == "True"
    many, one, ratio = map(float, row[2:5])
    assert abs(one / many - ratio) < 0.02
