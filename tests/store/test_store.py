"""Blocks in a store: nothing is lost, nothing is computed twice, damage is found."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

import jaxelim as je
from jaxelim import files, store
from jaxelim.simulation import api
from jaxelim.store import Store
from tests.calls import checked

BATCH = je.Instance(np.stack([np.eye(4)] * 2), [[1.0, 0.6, 0, -0.5], [0, 2.0, 0.7, 0.1]])
ONE = je.Instance(np.eye(4), [1.0, 0.6, 0, -0.5])
EVERYTHING = {
    "delta": [0.1, 0.05],
    "stopping": (je.LLR(), je.SelectiveElimination()),
    "record": ("pair_times", "means"),
    "noise": np.random.default_rng(0).normal(size=(5, 300)),
    "runs": [7, 3, 4, 9, 1],
    "engine": je.Engine(devices=1),
}


def everything(**more) -> je.Result:
    """A batch of instances, top m with pair times, two deltas, and given noise."""
    return je.simulate(BATCH, je.TopM(2), je.Uniform(), **{**EVERYTHING, **more})


def simple(rule=None, **more) -> je.Result:
    given = {"runs": 6, "delta": 0.1, "max_samples": 400, "engine": je.Engine(devices=1), **more}
    return je.simulate(ONE, je.BestArm(), rule or je.Uniform(), **given)


def asked(monkeypatch) -> list:
    """The runs that blocks compute from now on."""
    seen: list = []
    compute = api.compute

    def noted(call, bar=None):
        seen.extend(call.runs.tolist())
        return compute(call, bar)

    monkeypatch.setattr(api, "compute", noted)
    return seen


def interrupt(done, *_, runs=4) -> None:
    """Ctrl-C when some runs are done."""
    if done >= runs:
        signal.raise_signal(signal.SIGINT)


def paths(folder) -> list:
    return sorted(folder.glob("blocks/*/*.npz"))


@pytest.fixture(scope="module")
def whole() -> je.Result:
    return simple()


def test_stored_blocks_are_the_call(tmp_path, monkeypatch):
    """Batches, pair times, deltas, noise, runs in any order; also without computing."""
    seen, plain = asked(monkeypatch), everything()
    assert everything(store=tmp_path, block=2).equals(plain) and len(seen) == 10
    assert len(paths(tmp_path)) == 5  # cut at multiples of 2
    again = everything(store=tmp_path)
    assert again.equals(plain) and len(seen) == 10 and again.layout["blocks"] == 5
    assert again.timings["samples_drawn"] == plain.timings["samples_drawn"]


def test_a_store_keeps_finished_blocks(tmp_path, whole, monkeypatch):
    """More runs compute only the new; an interrupt leaves what is finished."""
    seen = asked(monkeypatch)
    with pytest.raises(je.errors.Interrupted, match="2 of 6 runs are in finished") as caught:
        simple(store=tmp_path, block=2, progress=interrupt)
    assert seen == [0, 1, 2, 3]  # the interrupt came within the second block
    part = caught.value.result
    assert part.runs.tolist() == [0, 1]
    np.testing.assert_array_equal(part.pulls, simple(runs=2).pulls)
    assert simple(store=tmp_path, block=2).equals(whole)
    assert seen[6:] == [2, 3, 4, 5]
    simple(store=tmp_path, runs=[8, 2])
    assert seen[10:] == [8]
    simple(store=tmp_path, seed=1, runs=1)  # other settings have blocks of their own
    assert seen[11:] == [0] and len(Store(tmp_path).cells()) == 2


def test_an_interrupt_without_a_store(whole):
    with pytest.raises(je.errors.Interrupted, match="0 of 6 .*Nothing is kept") as caught:
        simple(progress=lambda *_: signal.raise_signal(signal.SIGINT))
    assert caught.value.result is None and isinstance(caught.value, KeyboardInterrupt)
    with pytest.raises(je.errors.Interrupted, match="2 of 6") as caught:
        simple(progress=interrupt, block=2)
    assert caught.value.result.runs.tolist() == [0, 1]
    assert simple().equals(whole)


KILLED = """
import os, signal, sys
from tests.store.test_store import simple

def killed(done, *_):
    if done >= 4:  # the second block is done, and not written
        os.kill(os.getpid(), signal.SIGKILL)

simple(store=sys.argv[1], block=2, progress=killed)
"""


def test_a_killed_call_is_resumed_by_another_process(tmp_path, whole, monkeypatch):
    """The blocks of a process that was killed, and those of the next, are one call's arrays."""
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    ended = subprocess.run(
        command, cwd=Path(__file__).parents[2], capture_output=True, timeout=300, check=False
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    before = {path: path.read_bytes() for path in paths(tmp_path)}
    assert len(before) == 1
    seen = asked(monkeypatch)
    assert simple(store=tmp_path, block=2).equals(whole) and seen == [2, 3, 4, 5]
    assert all(path.read_bytes() == text for path, text in before.items())


DAMAGES = {
    "truncated": lambda x: x[:-9],
    "empty": lambda _: b"",
    "flipped": lambda x: x[:200] + bytes([x[200] ^ 1]) + x[201:],
    "text": lambda _: b"text",
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damaged_files_are_set_aside_and_computed_again(damage, tmp_path, whole, monkeypatch):
    simple(store=tmp_path, block=3)
    first, second = paths(tmp_path)
    good = second.read_bytes()
    second.write_bytes(damage(good))
    seen = asked(monkeypatch)
    with pytest.warns(UserWarning, match=f"set aside: .*{second.name}.damaged"):
        assert simple(store=tmp_path, block=3).equals(whole)
    assert seen == [3, 4, 5] and paths(tmp_path) == [first, second]
    assert Store(tmp_path).damaged() == [second.with_name(f"{second.name}.damaged")]


def test_folders_are_merged(tmp_path, whole):
    parts = [tmp_path / name for name in "ab"]
    simple(store=parts[0], runs=range(4))
    simple(store=parts[1], runs=range(2, 6), block=3)
    copied = store.merge(parts, tmp_path / "both")
    assert copied == paths(tmp_path / "both") and store.merge(parts, tmp_path / "both") == []
    (found,) = je.load_store(tmp_path / "both").results.values()
    assert found.equals(whole)
    with pytest.raises(je.errors.ArgumentError, match="sources"):
        store.merge([], tmp_path / "none")
    with pytest.raises(je.errors.StoreError, match="no store"):
        store.merge([tmp_path / "nowhere"], tmp_path / "none")
    path = paths(parts[0])[0]
    with np.load(path) as file:
        arrays = dict(file)
    arrays["samples"] = arrays["samples"] + 1
    np.savez(path, **arrays)
    with pytest.raises(je.errors.StoreError, match="other numbers than the output for samples"):
        store.merge(parts, tmp_path / "both")


def test_a_folder_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(je.errors.StoreError, match="a file, not a folder"):
        simple(store=tmp_path / "file" / "below")
    with pytest.raises(je.errors.ArgumentError, match="store: got 3"):
        simple(store=3)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "write", full)
    with pytest.raises(je.errors.StoreError, match="the disk is full"):
        simple(store=tmp_path / "full")
    assert list((tmp_path / "full").rglob("*.*")) == []


class Mine(je.Uniform):
    """A rule of one's own."""

    extra: ClassVar[int] = 1


def key(rule=None, instance=ONE, **more) -> str:
    given = {"runs": 6, "delta": 0.1, "max_samples": 400, **more}
    return checked(instance, je.BestArm(), rule or je.Uniform(), **given).key


def test_what_a_key_has():
    noise, plain = np.random.default_rng(0).normal(size=(6, 50)), key()
    others = [
        key(delta=0.2), key(seed=1), key(max_samples=401), key(noise=noise), key(Mine()),
        key(noise=noise + 1e-9), key(threshold=je.GK16()), key(initial_pulls=2), key(batch=3),
        key(stopping=je.SelectiveElimination()), key(record=("means",)), key(je.LUCB()),
        key(instance=je.Instance(np.eye(4), [1.0, 0.6, 0, -0.4])),
        key(instance=je.Instance(np.eye(4), [1.0, 0.6, 0, -0.5], noise_std=2.0)),
    ]  # fmt: skip
    assert len({plain, *others}) == len(others) + 1
    # The layout, the runs and the names of instances do not count.
    named = je.Instance(np.eye(4), [1.0, 0.6, 0, -0.5], name="one")
    layout = je.Engine(lanes=16, chunk=16, devices=1)
    same = key(engine=layout), key(runs=7), key(instance=named), key(initial_pulls=1)
    assert set(same) == {plain}


def test_another_source_is_another_class(monkeypatch):
    before = key(Mine())
    monkeypatch.setattr("inspect.getsource", lambda kind: "class Mine: pass")
    assert key(Mine()) != before

    def none(kind):
        raise OSError("could not get source code")

    monkeypatch.setattr("inspect.getsource", none)
    with pytest.raises(je.errors.ArgumentError, match="rule: .*whose source is in a file"):
        key(Mine())


def named_threshold(t, delta):
    return 3.0 + t - t


@pytest.mark.parametrize("threshold", [named_threshold, lambda t, delta: 3.0 + t - t])
def test_functions_have_no_key(threshold, tmp_path):
    with pytest.raises(je.errors.ArgumentError, match="threshold"):
        simple(store=tmp_path, threshold=threshold)
    assert list(tmp_path.iterdir()) == []


def test_the_default_block():
    assert [api._size(*given) for given in ((1, 1), (100, 2), (10**6, 4))] == [1, 16, 10_000]
