"""The file of a live run: nothing is lost, and damage is found.

That arguments come back from their texts: tests/results/test_saved.py.
The fast tests share one compiled program with tests/live/test_live_runs.py.
"""

import contextlib
import dataclasses
import json
import signal
import sqlite3
import subprocess
import sys
import time
import zlib
from pathlib import Path

import numpy as np
import pytest

import jaxelim as je
from jaxelim.live import fold, log
from tests.calls import rows
from tests.live.live_cases import CASES, PROVEN, Case, fed, same_run

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
    assert live.summary().equals(copy.summary())


def restored(live: je.LiveRun, path: Path) -> bool:
    """Whether the state in a file can be read."""
    return live._fold.restored(log.read(path).state) is not None


def changed(path: Path, statement: str, *values) -> None:
    """Change the database of a live run that nobody has open."""
    with contextlib.closing(sqlite3.connect(path)) as base, base:
        base.execute(statement, values)


def test_damage_is_an_error(tmp_path):
    """An event with another body or checksum, without one before it, another file."""
    path = tmp_path / "mine.live"
    live, _ = begun(path)
    live.close()
    whole, last = path.read_bytes(), len(live._events) - 1
    for n in (0, 5, last):
        for statement, message in (
            ("UPDATE event SET checksum = checksum + 1 WHERE n = ?", f"event {n} is not as"),
            ("UPDATE event SET body = body || ' ' WHERE n = ?", f"event {n} is not as"),
            ("UPDATE event SET n = 99 WHERE n = ?", f"event {n} is not as"),
            ("DELETE FROM event WHERE n = ? AND n < 6", f"event {n} is not as"),
        )[: 4 if n < last else 3]:
            path.write_bytes(whole)
            changed(path, statement, n)
            for attach in (True, False):
                with pytest.raises(je.errors.DamagedFileError, match=message):
                    je.LiveRun.load(path, attach=attach)
    for contents in (b"", b"theta\n", b"theta\n" * 999, whole[:2000], whole[:100]):
        path.write_bytes(contents)
        for attach in (True, False):
            with pytest.raises(je.errors.DamagedFileError, match="no file of a live run"):
                je.LiveRun.load(path, attach=attach)
    path.write_bytes(whole)
    changed(path, "UPDATE head SET format = ?", log.FORMAT + 1)
    with pytest.raises(je.errors.StoreError, match=r"its format is 7; .* reads 6"):
        je.LiveRun.load(path)
    with pytest.raises(je.errors.StoreError, match="cannot be read: No such file"):
        je.LiveRun.load(tmp_path / "none.live")


def test_a_state_of_another_version_is_replayed(tmp_path, monkeypatch):
    path = tmp_path / "mine.live"
    live, traced = begun(path)
    live.save()
    live.close()
    monkeypatch.setattr(log, "STATE", log.STATE + 1)
    calls = []
    told = fold.Fold._told
    monkeypatch.setattr(fold.Fold, "_told", lambda *given: calls.append(1) or told(*given))
    again = je.LiveRun.load(path)
    assert len(calls) == 12
    equal(again, live)
    again.close()
    monkeypatch.undo()
    assert restored(je.LiveRun.load(path), path)
    third = je.LiveRun.load(path, attach=False)
    fed(third, traced)
    same_run(third, traced)


def test_other_choices_of_another_version_keep_the_recorded_ones(tmp_path):
    """An event that says another arm than the rule chooses: the record stays, with a warning."""
    path = tmp_path / "mine.live"
    live, _ = begun(path, 4)
    asked = live.ask()
    live.close()
    other, last = (asked + 1) % 3, len(live._events) - 1
    assert log.read(path).events[last] == {"ask": [asked]}
    body = json.dumps({"ask": [other]})
    given = body, zlib.crc32(body.encode()), last
    changed(path, "UPDATE event SET body = ?, checksum = ? WHERE n = ?", *given)
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
    with pytest.raises(je.errors.ArgumentError, match="rule: got Uniform.*the LUCB.pulls=2. that"):
        je.LiveRun.load(path, attach=False, rule=je.Uniform())
    live.close()
    with je.LiveRun.load(path) as again:
        assert again.told == live.told
    del again
    again = je.LiveRun.load(path)
    del again  # an object that is gone holds no file
    je.LiveRun.load(path).close()


@pytest.mark.slow
def test_a_full_disk_changes_nothing(tmp_path):
    path = tmp_path / "mine.live"
    live, traced = begun(path)
    base = live._log._base
    (pages,) = base.execute("PRAGMA page_count").fetchone()
    base.execute(f"PRAGMA max_page_count = {pages}")
    refused = pytest.raises(je.errors.StoreError, match="cannot be written: .* is full")
    counts = live.counts
    for _ in range(2):
        with refused:
            live.tell([0, 1] * 5000, [1, 0] * 5000)
    with refused:
        live.save()
    assert live.told == 12 and len(log.read(path).events) == len(live._events)
    base.execute("PRAGMA max_page_count = 1000000")
    np.testing.assert_array_equal(live.counts, counts)
    fed(live, traced)
    same_run(live, traced)
    live.close()
    assert [one.name for one in tmp_path.iterdir()] == ["mine.live"]
    same_run(je.LiveRun.load(path, attach=False), traced)


def test_bad_paths(tmp_path):
    live = PAIRS.live()
    with pytest.raises(je.errors.ArgumentError, match="path: got None"):
        live.save()
    for path in (tmp_path, tmp_path / "none" / "mine.live"):
        with pytest.raises(je.errors.ArgumentError, match="path: got"):
            live.save(path)
    nameless = je.LiveRun(2, je.BestArm(), je.LUCB(), threshold=lambda t, delta: t / delta)
    with pytest.raises(je.errors.ArgumentError, match="threshold"):
        nameless.save(tmp_path / "mine.live")
    assert not list(tmp_path.iterdir())


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


KEPT = ("resets", "items", "optimistic-tas", "xy-adaptive", "top-two", "lingifa", "oracle", *PROVEN)


@pytest.mark.parametrize("name", rows(KEPT, {"signs", "full"}))
def test_states_of_rules_are_saved_and_loaded(name, tmp_path):
    """Saved and loaded at every 20th pull, between ask and tell, the run stays the same.

    With the default threshold it has p-values, intervals and a forecast.
    """
    case = CASES[name]
    traced, path = case.traced(), tmp_path / "mine.live"
    live = case.live()
    live.save(path)
    for s in range(traced.samples):
        last = s == traced.samples - 1
        if last and name in PROVEN:
            found, pair = live.intervals(), live.difference(0, 1)
            assert ((found.low < found.values) & (found.values < found.high)).all()
            assert pair.low < pair.value < pair.high
            forecast = live.forecast(runs=4, most=2000)
            assert forecast.stopped.any() and (forecast.more > 0).all()
        arm = live.ask()
        assert arm == traced.arms[s], s
        if s % 20 == 10 or last:
            live.save()
            live.close()
            live = je.LiveRun.load(path)
            assert live.ask() == arm
            assert (s < live.first) or restored(live, path)
        live.tell(arm, traced.rewards[s])
    same_run(live, traced)
    if name in PROVEN:
        assert live.evidence[["log_e", "p"]].notna().all(axis=None)
        assert live.p_values.answer <= case.delta and "proven" in str(live.summary())
        live.figure()
        of_arms = case.problem.answer_axis is None
        assert of_arms == any(live.summary()["state"])
    replayed = case.live()
    for event in log.read(path).events:
        replayed._commit(event)
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
@pytest.mark.filterwarnings("ignore::jaxelim.errors.LiveFileWarning")
@pytest.mark.parametrize("part", range(4))
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
        found = je.LiveRun.load(path, attach=False)
        assert found.told >= told
        told = found.told
        np.testing.assert_array_equal(
            found.counts, np.bincount(traced.arms[:told], minlength=3), err_msg=str(told)
        )
    assert 20 < told < traced.samples
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
