"""Files of instances are whole or absent."""

import os

import pytest

import jaxelim as je

ONE, OTHER = je.Instance.unstructured([1.0, 0.5]), je.Instance.unstructured([1.0, 0.5, 0.2])


def test_a_write_that_fails_leaves_the_older_file(tmp_path, monkeypatch):
    path = tmp_path / "one.json"
    ONE.to_json(path)

    def full(handle, contents):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(je.errors.StoreError, match="the disk is full"):
        OTHER.to_json(path)
    monkeypatch.undo()
    assert je.load_instance(path) == ONE and list(tmp_path.iterdir()) == [path]


def test_a_place_that_takes_no_file(tmp_path):
    for path in (tmp_path, tmp_path / "none" / "one.json"):
        with pytest.raises(je.errors.ArgumentError, match="path: .*a file in a folder that exists"):
            ONE.to_json(path)


def test_means_make_an_instance(tmp_path):
    """Means and a family alone; also a batch of them."""
    path, family = tmp_path / "coins.json", je.Bernoulli()
    path.write_text('{"name": "coins", "family": "bernoulli", "means": [0.9, 0.3, 0.2]}')
    assert je.load_instance(path) == je.Instance.unstructured([0.9, 0.3, 0.2], family=family)
    assert je.load_instance(path).name == "coins"
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
