"""The file of a live run: nothing is lost, and damage is found.

The fast tests share one compiled program with tests/live/test_live_runs.py.
"""

import dataclasses
import errno
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

import jaxelim as je
from jaxelim import catalogue
from jaxelim.live import arguments, book, run
from jaxelim.live.arguments import decoded, encoded
from tests.live.live_cases import CASES, Case, fed, same_run

pytestmark = pytest.mark.xdist_group("live")
PAIRS = CASES["lucb-pairs"]


def begun(path: Path, samples: int = 12) -> tuple[je.LiveRun, je.Trace]:
    """A live run of `PAIRS` in a file, after some rewards, and the simulated run."""
    traced, live = PAIRS.traced(), PAIRS.live()
    live.save(path)
    fed(live, traced, samples)
    return live, traced


def equal(one: je.LiveRun, two: je.LiveRun) -> None:
    assert (one.told, one.samples, one.stopped) == (two.told, two.samples, two.stopped)
    assert one.waiting == two.waiting
    for name in ("counts", "means", "answer", "elimination_times"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name), err_msg=name)


def test_saved_and_loaded_at_every_pull(tmp_path):
    """Between ask and tell and after, by the state and by the events; then it goes on."""
    path = tmp_path / "mine.live"
    traced, live = PAIRS.traced(), PAIRS.live()
    live.save(path)
    for s in range(traced.samples):
        arm = live.ask()
        if s % 3 == 0:
            live.save()
        live.close()
        live = je.LiveRun.load(path)
        assert live.ask() == arm == traced.arms[s] and live.told == s
        live.tell(arm, traced.rewards[s])
        copy = je.LiveRun.load(path, attach=False)
        assert copy.told == live.told and copy.stopped == live.stopped
    same_run(live, traced)
    equal(live, copy)
    held = live._moments.program
    assert held is PAIRS.live()._moments.program and held.traces <= 3  # start, turn, look
    assert live.summary().rows == copy.summary().rows


def test_a_torn_last_line_is_dropped_with_a_warning(tmp_path):
    """Cut at every byte of the last line, and with a wrong byte in it."""
    path = tmp_path / "mine.live"
    live, traced = begun(path)
    live.close()
    whole = path.read_bytes()
    last = whole.rstrip(b"\n").rfind(b"\n") + 1
    for length in range(last + 1, len(whole)):
        path.write_bytes(whole[:length])
        found = book.read(path)
        assert found.torn and found.length == last and len(found.events) == len(live._events) - 1
    path.write_bytes(whole[:-5] + b"x" + whole[-4:])
    with pytest.warns(je.errors.LiveFileWarning, match="checksum is wrong at the end is dropped"):
        again = je.LiveRun.load(path)
    assert again.told == live.told - 1 and path.read_bytes() == whole[:last]
    fed(again, traced)
    same_run(again, traced)


def test_damage_elsewhere_is_an_error(tmp_path):
    """A wrong byte in any line but the last, a missing line, a line twice, another file."""
    path = tmp_path / "mine.live"
    live, _ = begun(path)
    live.close()
    lines = path.read_bytes().splitlines(keepends=True)
    for n, one in enumerate(lines[:-1]):
        wrong = one[:-9] + bytes([one[-9] ^ 1]) + one[-8:]
        path.write_bytes(b"".join([*lines[:n], wrong, *lines[n + 1 :]]))
        with pytest.raises(
            je.errors.DamagedFileError, match=rf"line {n + 1} does not have the checksum"
        ):
            book.read(path)
    for contents, message in (
        (lines[:4] + lines[5:], "line 5 is event"), (lines[:5] + lines[4:], "line 6 is event"),
        (lines[1:], "does not begin"), ([], "does not begin"), ([b"theta\n", *lines], "line 1"),
    ):  # fmt: skip
        path.write_bytes(b"".join(contents))
        with pytest.raises(je.errors.DamagedFileError, match=message):
            je.LiveRun.load(path)
    head = book.line({"jaxelim_live": book.FORMAT + 1, "settings": {}})
    path.write_bytes(head)
    with pytest.raises(je.errors.StoreError, match=r"its format is 3; .* reads 2"):
        je.LiveRun.load(path)
    with pytest.raises(je.errors.StoreError, match="cannot be read: No such file"):
        je.LiveRun.load(tmp_path / "none.live")


def test_a_state_of_another_version_is_replayed(tmp_path, monkeypatch):
    path = tmp_path / "mine.live"
    live, traced = begun(path)
    live.save()
    live.close()
    monkeypatch.setattr(arguments, "STATE", arguments.STATE + 1)
    calls = []
    told = run.Moments.told
    monkeypatch.setattr(run.Moments, "told", lambda *given: calls.append(1) or told(*given))
    again = je.LiveRun.load(path)
    assert len(calls) == 12
    equal(again, live)
    again.close()
    monkeypatch.undo()
    assert je.LiveRun.load(path)._restore(book.read(path).state)
    third = je.LiveRun.load(path, attach=False)
    fed(third, traced)
    same_run(third, traced)


def test_other_choices_of_another_version_keep_the_recorded_ones(tmp_path):
    """An event that says another arm than the rule chooses: the record stays, with a warning."""
    path = tmp_path / "mine.live"
    live, _ = begun(path, 4)
    asked = live.ask()
    live.close()
    found = book.read(path)
    other = (asked + 1) % 3
    events = [dict(one) for one in found.events]
    assert events[-1]["ask"] == [asked]
    events[-1]["ask"] = [other]
    head = book.line({"jaxelim_live": book.FORMAT, "settings": found.settings})
    path.write_bytes(b"".join([head, *map(book.line, events)]))
    with pytest.warns(je.errors.LiveFileWarning, match="chooses other arms here"):
        again = je.LiveRun.load(path)
    assert again.ask() == other and again.told == 4
    again.tell(other, 1)
    assert again.waiting == () and again.told == 5


def test_one_file_has_one_owner(tmp_path):
    """A second object of this process is refused; looking is allowed; `close` gives it back."""
    path = tmp_path / "mine.live"
    live, _ = begun(path)
    with pytest.raises(je.errors.StoreError, match="has it open; close that one first"):
        je.LiveRun.load(path)
    with pytest.raises(je.errors.ArgumentError, match="path: got .*a new file; this one exists"):
        PAIRS.live().save(path)
    for same in (str(path), tmp_path / ".." / tmp_path.name / "mine.live"):
        live.save(same)  # the file that it has
    assert je.LiveRun.load(path, attach=False).told == live.told
    live.close()
    with je.LiveRun.load(path) as again:
        assert again.told == live.told
    del again
    again = je.LiveRun.load(path)
    del again  # an object that is gone holds no file
    je.LiveRun.load(path).close()


def test_a_full_disk_changes_nothing(tmp_path, monkeypatch):
    path = tmp_path / "mine.live"
    live, traced = begun(path)
    arm, before, counts = live.ask(), path.read_bytes(), live.counts
    write = os.write

    def full(handle, contents):
        write(handle, bytes(contents)[:5])
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(je.errors.StoreError, match="the disk is full"):
        live.tell(arm, traced.rewards[12])
    with pytest.raises(je.errors.StoreError, match="the disk is full"):
        live.save()
    monkeypatch.undo()
    assert path.read_bytes() == before and live.told == 12
    np.testing.assert_array_equal(live.counts, counts)
    fed(live, traced)
    same_run(live, traced)
    assert sorted(one.name for one in tmp_path.iterdir()) == [".mine.live.lock", "mine.live"]


def test_bad_paths(tmp_path):
    live = PAIRS.live()
    with pytest.raises(je.errors.ArgumentError, match="path: got None"):
        live.save()
    for path in (tmp_path, tmp_path / "none" / "mine.live"):
        with pytest.raises(je.errors.ArgumentError, match="path: got"):
            live.save(path)


def test_settings_survive_a_file():
    """Every shipped rule, family, problem, stopping rule and threshold, by value."""
    coins, gaps = je.Bernoulli(), je.TrackAndStop(gap_share=0.2)
    rules = [one() for one in catalogue.rules().values()]
    values = [
        *rules, je.Oracle(weights=[0.25, 0.75]), je.TTTS(), gaps, je.LUCB(pulls=2),
        coins, je.Gaussian(2.0), je.Gaussian([1.0, 0.1]), je.Poisson(), je.Exponential(),
        je.GaussianUnknownVariance("glr"), je.BestArm(), je.BestArm(0.1),
        je.BestArm(items=[[1.0, 0.1], [0.2, 1.0]]), je.TopM(3), je.Thresholding(0.1),
        je.LLR(), je.Native(), je.SelectiveElimination(), je.FullElimination(), None,
        je.Resets(je.FullElimination(), t0=3.0), je.GK16(),
        je.thresholds.LinearThreshold(3, 1.0, 0.1), je.thresholds.KaufmannKoolen(3, 2),
        0.1, 1e-300, (1, "two", None),
    ]  # fmt: skip
    for value in values:
        written = encoded(value)
        assert "'own'" not in str(written)
        assert decoded(written, None) == value
    own = [lambda t, delta: t, je.Resets(je.FullElimination(), alpha=lambda t, delta: t)]
    for value in own:
        written = encoded(value)
        assert set(written) == {"own"} and decoded(written, value) is value
        with pytest.raises(
            je.errors.ArgumentError, match="threshold: got None; allowed: the .* given"
        ):
            decoded(written, None, "threshold")


@dataclasses.dataclass(frozen=True)
class Mine(je.contracts.SamplingRule):
    """A rule of one's own: the least pulled arm."""

    traits = je.contracts.Traits(families=None, reads=("rewards", "pieces"))

    def choose(self, view, state):
        return view.lanes.argmin(view.counts), state


@pytest.mark.slow
def test_a_rule_of_ones_own_is_given_again(tmp_path):
    path = tmp_path / "mine.live"
    live = je.LiveRun(["a", "b"], je.BestArm(), Mine(), family=je.Bernoulli())
    live.tell(["a", "b"], [1, 0])
    live.save(path)
    live.tell(live.ask(), 1)
    live.close()
    with pytest.raises(je.errors.ArgumentError, match="rule: got None; allowed: the tests.*Mine"):
        je.LiveRun.load(path)
    again = je.LiveRun.load(path, rule=Mine())
    equal(again, live)
    assert again.ask() == "b"


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_every_rule_is_saved_and_loaded(name, tmp_path):
    """Saved and loaded at every 20th pull and between ask and tell, the run stays the same."""
    case = CASES[name]
    traced, path = case.traced(), tmp_path / "mine.live"
    live = case.live()
    live.save(path)
    loads = 0
    for s in range(traced.samples):
        arm = live.ask()
        assert arm == traced.arms[s], s
        if s % 20 == 10:
            live.save()
            live.close()
            live, loads = je.LiveRun.load(path), loads + 1
            assert live.ask() == arm
            assert (s < live._job.first) or live._restore(book.read(path).state)
        live.tell(arm, traced.rewards[s])
    same_run(live, traced)
    assert loads >= 1
    replayed = case.live()
    for event in book.read(path).events:
        replayed._replay(event)
    same_run(replayed, traced)


LONG = Case(
    je.Instance.unstructured([0.6, 0.45, 0.4], je.Bernoulli()), PAIRS.problem, PAIRS.rule,
    PAIRS.stopping, PAIRS.elimination, delta=0.05,
)  # fmt: skip
"""A run of some hundred pulls, of the shape of `PAIRS`."""

CHILD = """
import sys, warnings
import numpy as np
import jaxelim as je
warnings.simplefilter("ignore", je.errors.LiveFileWarning)
path, table = sys.argv[1:]
rewards = np.load(table)
other = je.LiveRun.load(path, attach=False)  # compiles what the run needs
for reward in (0, 1, 0, 1):
    other.tell(other.ask(), reward)
live = je.LiveRun.load(path)
print("ready", flush=True)
while not live.stopped:
    arm = live.ask()
    live.tell(arm, rewards[live.told])
    if live.told % 7 == 0:
        live.save()
print("done", flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_killed_and_continued(part, tmp_path):
    """kill -9 at 10 random times or more in each part, while it asks, tells and saves.

    After each the file holds all that was returned. The run ends as the simulated one.
    """
    case = dataclasses.replace(LONG, run=part)
    traced, path, table = case.traced(), tmp_path / "mine.live", tmp_path / "rewards.npy"
    np.save(table, traced.rewards)
    live = case.live()
    live.save(path)
    live.close()
    rng, told, kills = np.random.default_rng(part), 0, 0
    while kills < 10 or told <= 20:  # a busy machine needs more of them
        kills += 1
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(path), str(table)], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None and child.stdout.readline() == "ready\n"
        time.sleep(rng.uniform(0, 0.05))
        child.send_signal(signal.SIGKILL)
        child.communicate()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", je.errors.LiveFileWarning)
            found = je.LiveRun.load(path, attach=False)
        assert found.told >= told
        told = found.told
        np.testing.assert_array_equal(
            found.counts, np.bincount(traced.arms[:told], minlength=3), err_msg=str(told)
        )
    assert 20 < told < traced.samples
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", je.errors.LiveFileWarning)
        live = je.LiveRun.load(path)
    fed(live, traced)
    same_run(live, traced)


@pytest.mark.slow
def test_another_process_is_refused(tmp_path):
    path = tmp_path / "mine.live"
    live, _ = begun(path)
    again = f"import jaxelim as je; je.LiveRun.load({str(path)!r})"
    given = [sys.executable, "-c", again]
    refused = subprocess.run(given, capture_output=True, text=True, check=False)
    assert refused.returncode == 1 and "StoreError" in refused.stderr
    live.close()
    assert subprocess.run(given, check=False).returncode == 0
