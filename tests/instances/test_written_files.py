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
