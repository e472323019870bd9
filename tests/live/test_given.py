"""Rewards as callers have them: bools, scalars, columns, data frames, and a CSV file."""

import io
import sys

import numpy as np
import pytest

import jaxelim as je
from jaxelim.cli import main
from tests.live.live_cases import COINS

pytestmark = pytest.mark.xdist_group("live")


class Index:
    def __init__(self, labels):
        self.labels = labels

    def equals(self, other):
        return self.labels == other.labels


class Column:
    """A column as pandas has it: labels, and its values by `to_numpy`."""

    def __init__(self, values, labels=None, kind=object):
        self.values = np.array(values, kind)
        self.index = Index(list(range(len(values))) if labels is None else labels)

    def to_numpy(self):
        return self.values


class Frame:
    def __init__(self, **columns):
        self.named = {name: Column(values) for name, values in columns.items()}
        self.columns = list(columns)

    def __getitem__(self, name):
        return self.named[name]


def run() -> je.LiveRun:
    return je.LiveRun(["red", "green", "blue"], je.BestArm(), je.Uniform(), family=je.Bernoulli())


ARMS, REWARDS = ["red", "green", "blue", "red"], [1, 0, 0, 1]
TOLD = {
    "bools": (ARMS, [True, False, False, True]),
    "NumPy bools": (ARMS, np.array(REWARDS, bool)),
    "NumPy names": (np.array(ARMS), np.array(REWARDS, np.int8)),
    "columns": (Column(ARMS), Column(REWARDS, kind=float)),
    "a nullable column": (Column(ARMS), Column([True, False, np.False_, np.int64(1)])),
    "a frame": (Frame(arm=ARMS, reward=REWARDS), None),
}


@pytest.mark.parametrize("name", TOLD)
def test_rewards_in_every_form(name):
    expected, told = run(), run()
    expected.tell(ARMS, REWARDS)
    told.tell(*(x for x in TOLD[name] if x is not None))
    assert told.told == 4 and told.counts.tolist() == expected.counts.tolist() == [2, 1, 1]
    np.testing.assert_array_equal(told.means, expected.means)


@pytest.mark.parametrize("reward", [True, np.True_, np.float32(1), np.int64(1), np.array(1.0)])
def test_scalars(reward):
    one = run()
    one.tell(np.str_("green"), reward)
    assert one.means[1] == 1 and one.told == 1


def test_what_is_refused():
    one = run()
    labels = Column(REWARDS, labels=[3, 2, 1, 0])
    for given, words in {
        (Column(ARMS), labels): "index of the arms",
        (Frame(arm=ARMS),): "two columns",
        (Frame(a=ARMS, b=REWARDS, c=REWARDS),): "two columns",
        ("red",): "reward: got None",
        ("red", "1"): "reward",
        ("red", 0.5): "0.5",
    }.items():
        with pytest.raises(je.errors.ArgumentError, match=words):
            one.tell(*given)
    with pytest.raises(je.errors.ArgumentError, match="reward"):
        one.tell(ARMS, [True, False, None, True])
    assert one.told == 0


def test_a_run_says_what_it_is():
    one = run()
    assert repr(one) == "<LiveRun of Uniform, 3 arms, 0 rewards, open>"
    one.tell(ARMS, REWARDS)
    assert repr(one) == "<LiveRun of Uniform, 3 arms, 4 rewards, open>"
    assert "<table" in one._repr_html_() and "green" in one._repr_html_()
    one.stop()
    assert repr(one) == "<LiveRun of Uniform, 3 arms, 4 rewards, ended by hand>"


def test_a_table_from_the_shell(tmp_path, capsys, monkeypatch):
    """A CSV file, and the same lines on standard input."""
    lines = "arm,reward\nred,1\ngreen,0\nblue,0\n"
    (tmp_path / "data.csv").write_text(lines)
    shown = []
    for name, source in (("file", str(tmp_path / "data.csv")), ("input", "-")):
        path = tmp_path / f"{name}.live"
        new = ["live", "new", str(path), "--arms", "red", "green", "blue", "--family", "bernoulli",
               "--rule", "uniform", "--threshold", "heuristic"]  # fmt: skip
        assert main(new) == 0
        capsys.readouterr()
        monkeypatch.setattr(sys, "stdin", io.StringIO(lines))
        assert main(["live", "tell", str(path), "--csv", source]) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1] and "The run is open after 3 rewards" in shown[0]


def test_means_make_an_instance(tmp_path):
    """Means and a family alone; also a batch of them."""
    path = tmp_path / "coins.json"
    path.write_text('{"name": "coins", "family": "bernoulli", "means": [0.9, 0.3, 0.2]}')
    assert je.load_instance(path) == COINS and je.load_instance(path).name == "coins"
    path.write_text('{"means": [[1, 0], [0, 2]], "noise_std": 2}')
    batch = je.Instance.unstructured([[1.0, 0.0], [0.0, 2.0]], noise_std=2.0)
    assert je.load_instance(path) == batch
    for text, words in {
        '{"means": [1, 0], "theta": [1, 0]}': "'means' and 'theta'",
        '{"means": [1, 2], "family": "bernoulli"}': "means",
        '{"means": 3}': "means",
    }.items():
        path.write_text(text)
        with pytest.raises(je.errors.ArgumentError, match=words):
            je.load_instance(path)
