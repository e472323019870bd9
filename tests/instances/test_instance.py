"""Instances: construction, batches, files, and invariants."""

import copy
import dataclasses
import io
import json
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from jaxelim import catalogue, cli
from jaxelim.errors import StoreError
from jaxelim.families import Bernoulli, Bounded
from jaxelim.instances import load_instance, load_items
from jaxelim.instances.instance import Instance
from jaxelim.problems import BestArm
from tests.calls import stack

PHI = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
THETA = np.array([1.0, 0.5])
NUMBERS = st.floats(-1e6, 1e6)
NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


@st.composite
def drawn_instances(draw, batched=None):
    K, d, size = draw(st.integers(2, 5)), draw(st.integers(1, 4)), draw(st.integers(1, 3))
    lead = (size,) if (draw(st.booleans()) if batched is None else batched) else ()
    arms = draw(hnp.arrays(np.float64, (*lead, K, d), elements=NUMBERS))
    theta = draw(hnp.arrays(np.float64, (*lead, d), elements=NUMBERS))
    return Instance(arms, theta, draw(st.floats(0.01, 100)), draw(st.none() | NAMES))


# Construction


def test_fields_and_sizes():
    one = Instance(PHI.tolist(), [1, 0.5])
    assert (one.K, one.d, one.size, len(one), one.batched) == (3, 2, 1, 1, False)
    assert one.noise_std == 1.0 and type(one.noise_std) is float and one.name is None
    assert one.arms.dtype == one.theta.dtype == one.means.dtype == np.float64
    np.testing.assert_allclose(one.means, [1.0, 0.5, 1.0], rtol=1e-15)
    assert one.structure == "linear" and stack(one) == Instance([PHI], [THETA])
    assert Instance(PHI, THETA * 1e200, 1e200).K == 3


def test_a_batch():
    batch = Instance(np.stack([PHI, 2 * PHI]), [THETA, -THETA], noise_std=2, name="two")
    assert (batch.K, batch.d, batch.size, len(batch), batch.batched) == (3, 2, 2, 2, True)
    assert batch.means.shape == (2, 3) and batch.noise_std == 2.0
    assert batch[1] == Instance(2 * PHI, -THETA, 2) and batch[-1] == batch[1]
    assert batch[np.int64(1)].name == "two[1]" and batch[-1].name == "two[1]"
    assert [one.batched for one in batch] == [False, False]
    assert batch[:1].batched and batch[:1].size == 1 and batch[::-1] == stack([batch[1], batch[0]])
    shared = Instance(PHI, [THETA, 2 * THETA])
    assert shared == Instance(np.stack([PHI, PHI]), [THETA, 2 * THETA])
    for index in (2, -3):
        with pytest.raises(IndexError, match="from -2 to 1"):
            batch[index]


def test_arrays_are_copies_and_read_only():
    arms, theta = PHI.copy(), THETA.copy()
    one = Instance(arms, theta)
    arms[0, 0] = theta[0] = 7.0
    assert one == Instance(PHI, THETA)
    again, twin = pickle.loads(pickle.dumps(one)), copy.deepcopy(one)
    for array in (one.arms, one.theta, one.means, again.arms, twin.theta):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.noise_std = 2.0


@pytest.mark.parametrize("arms, theta, structure", [
    (np.eye(3), np.ones(3), "unstructured"), (np.eye(3), np.ones((4, 3)), "unstructured"),
    (np.eye(3)[::-1], np.ones(3), "linear"), (np.eye(3, 2), np.ones(2), "linear"),
    (np.eye(2, 3), np.ones(3), "linear"), (np.eye(3) * (1 + 1e-15), np.ones(3), "linear"),
    ([np.eye(3), 2 * np.eye(3)], np.ones((2, 3)), "linear"),
])  # fmt: skip
def test_structure(arms, theta, structure):
    assert Instance(arms, theta).structure == structure


def test_repr_of_small_instances_evaluates_back():
    for one in (Instance(PHI, THETA), Instance(PHI, [THETA, THETA], 0.5, "a 'name'")):
        assert eval(repr(one)) == one
    assert repr(load_instance("linear-d20")) == (
        "Instance(arms=<50x20>, theta=<20>, noise_std=1.0, name='linear-d20')"
    )


@settings(max_examples=40)
@given(name=NAMES)
def test_every_other_name_can_be_stored(name):
    named = xr.Dataset(attrs={"instance": Instance(PHI, THETA, name=name).name})
    contents = io.BytesIO(named.to_netcdf(engine="h5netcdf"))
    with xr.open_dataset(contents, engine="h5netcdf") as back:
        assert back.attrs["instance"] == name


# Invariants


@given(drawn_instances())
def test_equality_and_hash_by_content(one):
    twin = Instance(one.arms.copy(), one.theta.copy(), one.noise_std, "another label")
    assert one == twin and hash(one) == hash(twin) and one != "instance"
    for again in (pickle.loads(pickle.dumps(one)), copy.deepcopy(one), dataclasses.replace(one)):
        assert again == one and again.name == one.name
    # zeros with the sign changed
    negative = Instance(-(-one.arms + 0.0), -(-one.theta + 0.0), one.noise_std)
    assert negative == one and hash(negative) == hash(one)
    moved = one.theta.copy()
    moved.flat[-1] = moved.flat[-1] + 1.0
    bent = one.arms.copy()
    bent.flat[0] = bent.flat[0] - 1.0
    wider = Instance(one.arms, one.theta, one.noise_std * 2)
    assert one not in (one.replace(theta=moved), one.replace(arms=bent), wider)
    assert stack([one]) != one or one.batched


def test_an_instance_of_ones_own_class_is_replaced_by_an_instance():
    class Steps(Instance):
        def __init__(self, k):
            super().__init__(np.eye(k), np.arange(k) / k, 2.0)

    found = Steps(3).replace(name="steps")
    assert type(found) is Instance and found == Steps(3) and found.name == "steps"


@given(drawn_instances(batched=True))
def test_batch_indexing(batch):
    assert stack(list(batch)) == batch == stack(batch) == batch[:]
    for i, one in enumerate(batch):
        assert np.array_equal(one.arms, batch.arms[i]) and np.array_equal(one.theta, batch.theta[i])
        assert np.array_equal(one.means, batch.means[i]) and one == batch[i - batch.size]
    assert stack([batch, batch[0]]).size == batch.size + 1


@settings(max_examples=40)
@given(one=drawn_instances())
def test_json_round_trip(tmp_path_factory, one):
    path = tmp_path_factory.mktemp("json") / "one.json"
    one.to_json(path)
    for again in (load_instance(path), load_instance(str(path))):
        assert again == one and again.name == one.name


# Files

GOOD = '{"theta": [1, 0.5], "arms": [[1, 0], [0, 1]], "_other": {"a": [null]}}'


KNOWN = '"name": "one", "used_in": "", "problems": ["bai"], "m": null, "family"'
PLAIN, HELD = Instance(np.eye(2), [1.0, 0.5]), Instance.unstructured([1.5, 4.0], Bounded(0, 5))
COINS = Instance.unstructured([0.9, 0.3, 0.2], Bernoulli(), name="coins")
BATCH = Instance.unstructured([[1.0, 0.0], [0.0, 2.0]], noise_std=2.0)


@pytest.mark.parametrize("text, known", [
    (GOOD, PLAIN), (GOOD.replace('"_other"', f'{KNOWN}: null, "_other"'), PLAIN),
    (GOOD.replace('"_other"', f'{KNOWN}: "gaussian", "_other"'), PLAIN),
    ('{"means": [1.5, 4.0], "family": "Bounded(0, 5)"}', HELD),
    ('{"means": [1.5, 4.0], "family": "bounded(high=5, low=0)"}', HELD),
    ('{"name": "coins", "family": "bernoulli", "means": [0.9, 0.3, 0.2]}', COINS),
    ('{"means": [[1, 0], [0, 2]], "noise_std": 2}', BATCH),
])  # fmt: skip
def test_keys_of_a_file(tmp_path, text, known):
    """Known ones, and any with an underscore, which are ignored; families are texts."""
    path = tmp_path / "no-suffix"
    path.write_text(text)
    assert load_instance(path) == known
    assert known.name in (None, load_instance(path).name)


def test_a_file_without_a_name_gives_its_own(tmp_path):
    text = '"arms": [[1, 0], [0, 1]], "theta": [1, 0]}'
    for file, name in (("two arms.json", "two arms"), ("b", "b"), ("\udce9.json", "?")):
        (tmp_path / file).write_text("{" + text)
        assert load_instance(tmp_path / file).name == name
    (tmp_path / "c.json").write_text('{"name": null, ' + text)
    assert load_instance(tmp_path / "c.json").name is None


def test_a_name_without_suffix_may_be_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("mine", "linear-d20"):
        Path(name).write_text(GOOD)
    assert load_instance("mine").K == 2
    assert load_instance("linear-d20").K == 50
    assert load_instance("./linear-d20").K == 2


def test_to_json_is_plain_json(tmp_path):
    Instance(PHI, THETA, 0.5, "a").to_json(tmp_path / "a.json")
    content = json.loads((tmp_path / "a.json").read_text())
    assert content == {"name": "a", "noise_std": 0.5, "theta": THETA.tolist(), "arms": PHI.tolist()}


def test_items_of_a_file(tmp_path, capsys):
    """`to_json` and `load_items` round; the command line takes them as best-item."""
    items = np.array([[1.0, 0.0], [0.1, 1 / 3], [-2.0, 1.0]])
    one = Instance(PHI, THETA, 0.5, "a")
    one.to_json(tmp_path / "a.json", items)
    assert load_instance(tmp_path / "a.json") == one
    np.testing.assert_array_equal(load_items(tmp_path / "a.json"), items)
    assert catalogue.problem_on(str(tmp_path / "a.json"), "best-item") == BestArm(items=items)
    shown = "1.0, 0.0], [0.1, 0.3333333333333333], [-2.0, 1.0]"
    command = ["instances", "describe", str(tmp_path / "a.json"), "--problem", "best-item"]
    assert cli.main(command) == 0 and f"BestArm(items=[[{shown}]) on" in capsys.readouterr().out


def test_a_write_that_fails_leaves_the_older_file(tmp_path, monkeypatch):
    path, one, other = tmp_path / "one.json", Instance(PHI, THETA), Instance(PHI, -THETA)
    one.to_json(path)

    def full(handle, contents):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(StoreError, match="the disk is full"):
        other.to_json(path)
    monkeypatch.undo()
    assert load_instance(path) == one and list(tmp_path.iterdir()) == [path]
