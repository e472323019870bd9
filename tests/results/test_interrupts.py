"""Ctrl-C: every run that was started is kept, with the numbers of a call without Ctrl-C."""

import os
import pickle
import signal
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

import jaxelim as je
from jaxelim.engine.loop import Program
from jaxelim.simulation.results.descriptions import same_array

EASY = je.Instance(np.eye(3), [1.0, 0.8, 0.0], name="easy")
BATCH = je.Instance(np.stack([np.eye(3)] * 2), [[1.0, 0.7, 0.0], [0.0, 0.4, 1.1]])
RULES = (je.LLR(), je.SelectiveElimination())
SMALL = je.Engine(lanes=16, chunk=16, devices=1, shrink=False)
PER_RUN = ("samples", "stopped", "answer", "correct", "pulls", "elimination_times",
           "tests_stopping", "tests_sampling", "solves")  # fmt: skip

ONE = dict(runs=60, stopping=RULES, delta=[0.1, 0.01], seed=3, engine=SMALL)
CASES: dict[str, tuple] = {
    "shared deltas": (EASY, je.BestArm(), je.Uniform(), ONE),
    "a batch": (BATCH, je.BestArm(), je.Uniform(), ONE | {"delta": 0.01}),
    "two devices": (EASY, je.BestArm(), je.Uniform(), ONE | {"engine": je.Engine(
        lanes=16, chunk=16, devices=2, shrink=False)}),
    "a trajectory for each delta": (EASY, je.BestArm(), je.LinGapE(), ONE),
    "two speeds": (EASY, je.BestArm(), je.TrackAndStop(), ONE),
}  # fmt: skip
FAST = (("two devices", 6), ("a trajectory for each delta", 6))
SLOW = ("a batch", "two devices", "a trajectory for each delta", "two speeds")


def simulated(case: str, **changes: Any) -> je.Result:
    instance, problem, rule, settings = CASES[case]
    return je.simulate(instance, problem, rule, **(settings | changes))


def interrupted(case: str, poll: int, act: Any, **changes: Any) -> je.Interrupted:
    """The exception of a call in which `act` is called at a poll."""
    polls = []

    def progress(*_):
        polls.append(1)
        if len(polls) == poll:
            act()

    with pytest.raises(je.Interrupted) as caught:
        simulated(case, progress=progress, **changes)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    return caught.value


def press():
    """Ctrl-C."""
    signal.raise_signal(signal.SIGINT)


def raise_it():
    """What a function of the caller's may do."""
    raise KeyboardInterrupt


def assert_part_of(found: je.Result, whole: je.Result, case: str) -> None:
    """Finished runs have the numbers of the whole; the others those of a cap at their samples."""
    at = np.isin(whole.runs, found.runs)
    assert at.sum() == found.runs.size and found.truncated.any()
    for name in PER_RUN:
        mine, theirs = getattr(found, name), getattr(whole, name)
        if theirs is None:
            assert mine is None
            continue
        run = found.samples.ndim - 1
        theirs = np.compress(at, theirs, run)
        done = found.stopped.reshape(found.stopped.shape + (1,) * (mine.ndim - run - 1))
        assert same_array(np.where(done, mine, 0), np.where(done, theirs, 0)), name
    # Up to three of the others, each in a call of its own.
    cut = np.argwhere(found.truncated & (found.samples > 0))
    for where in cut[np.linspace(0, len(cut) - 1, 3).astype(int)]:
        *lead, d, r = where
        samples = int(found.samples[tuple(where)])
        alone = simulated(case, runs=[found.runs[r]], max_samples=samples)
        for name in PER_RUN:
            mine, theirs = getattr(found, name), getattr(alone, name)
            if mine is not None:
                np.testing.assert_array_equal(mine[(*lead, d, r)], theirs[(*lead, d, 0)], name)
    absent = found.samples == 0
    assert not found.stopped[absent].any() and not found.pulls[absent].any()


@pytest.fixture(scope="module")
def wholes() -> dict[str, je.Result]:
    return {}


def mark(case: str, poll: int):
    return pytest.mark.slow if case in SLOW and (case, poll) not in FAST else ()


@pytest.mark.slow_rows("two devices-6")
@pytest.mark.parametrize(
    ("case", "poll"),
    [pytest.param(case, poll, marks=mark(case, poll)) for case in CASES for poll in (1, 6, 8)],
)
def test_runs_that_were_started_are_kept(case, poll, wholes, tmp_path):
    whole = wholes.setdefault(case, simulated(case) if case not in wholes else None)
    error = interrupted(case, poll, press if poll % 2 else raise_it)
    found = error.result
    assert_part_of(found, whole, case)
    n = found.runs.size
    assert str(error).startswith(f"interrupted: {n} of 60 runs were started")
    text = str(found.summary())
    assert f"Interrupted: {n} of 60 runs were started" in text and "by the interruption" in text
    if case != "shared deltas":
        return
    # Continue with the others, and with those that were cut off.
    over = found.runs[found.stopped.all((0, 1))]
    rest = simulated(case, runs=np.setdiff1d(np.arange(60), over))
    runs = np.concatenate([over, rest.runs])
    kept = np.isin(found.runs, over)
    for name in ("samples", "pulls", "answer", "tests_stopping"):
        joined = np.concatenate([getattr(found, name)[:, :, kept], getattr(rest, name)], 2)
        np.testing.assert_array_equal(joined[:, :, np.argsort(runs)], getattr(whole, name), name)
    found.save(tmp_path / "part.nc")
    back = je.load_result(tmp_path / "part.nc")
    assert back.equals(found) and not back.equals(whole) and str(back.summary()) == text


def test_some_runs_were_over():
    """Else the test above would compare nothing."""
    assert interrupted("shared deltas", 8, press).result.stopped.any()


@pytest.mark.slow
def test_runs_that_were_started_on_some_instances():
    part = interrupted("a batch", 1, press).result
    assert part.runs.size == 16 and (part.samples[1] == 0).all()
    assert "0 samples were not" in part.settings["interrupted"]


@pytest.mark.parametrize("presses", [1, 2])
def test_an_interrupt_while_the_first_program_compiles(presses, monkeypatch):
    """The first waits for the program, the second does not."""
    began, passed = Program.begun, []

    def begun(self, *given):
        for _ in range(presses):
            press()
        passed.append(1)
        return began(self, *given)

    monkeypatch.setattr(Program, "begun", begun)
    with pytest.raises(je.Interrupted, match="before a run was started") as caught:
        simulated("shared deltas")
    assert caught.value.result is None and len(passed) == 2 - presses
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.slow
def test_an_interrupt_while_a_smaller_program_compiles(monkeypatch):
    began = Program.begun

    def begun(self, *given):
        if self.spec.execution.lanes < 64:
            press()
        return began(self, *given)

    monkeypatch.setattr(Program, "begun", begun)
    layout = je.Engine(lanes=64, chunk=16, devices=1, shrink=True)
    with pytest.raises(je.Interrupted, match="60 of 60") as caught:
        simulated("shared deltas", engine=layout)
    found = caught.value.result
    assert 0 < found.truncated.sum() < found.truncated.size
    monkeypatch.undo()
    assert_part_of(found, simulated("shared deltas"), "shared deltas")


def test_an_interrupt_after_the_last_run_is_raised_with_the_whole_result():
    def last(done, total, *_):
        if done == total:
            press()

    with pytest.raises(je.Interrupted, match="60 of 60") as caught:
        simulated("shared deltas", progress=last)
    assert caught.value.result.equals(simulated("shared deltas"))


def test_the_third_ctrl_c_is_raised_at_once():
    def thrice():
        for _ in range(3):
            press()

    assert interrupted("shared deltas", 2, thrice).result is None


def test_an_interrupt_of_the_checks():
    def threshold(t, delta):
        raise KeyboardInterrupt

    with pytest.raises(je.Interrupted, match="before a run was started") as caught:
        je.simulate(EASY, je.BestArm(), je.Uniform(), threshold=threshold)
    assert caught.value.result is None and not isinstance(caught.value, Exception)
    assert isinstance(caught.value, KeyboardInterrupt)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.result) == (str(caught.value), None)


def test_threads_leave_the_handler_alone():
    found = []
    thread = threading.Thread(target=lambda: found.append(simulated("shared deltas")))
    thread.start()
    thread.join()
    assert found[0].equals(simulated("shared deltas"))


LONG = """
import signal, sys
import numpy as np
import jaxelim as je
signal.signal(signal.SIGINT, signal.default_int_handler)
easy = je.Instance(np.eye(3), [1.0, 0.999, 0.0])
def shown(done, *_):
    print("polled", flush=True)
try:
    je.simulate(easy, je.BestArm(), je.Uniform(), runs=100, max_samples=10**9,
                engine=je.Engine(lanes=16, devices=1), progress=shown)
except je.Interrupted as error:
    result = error.result
    print(error)
    print(result.summary().notes[0], result.truncated.all(), (result.samples > 0).all())
    print((result.pulls.sum(-1) == result.samples).all())
"""


@pytest.mark.shipped
def test_ctrl_c_in_another_process():
    # Without kept programs, of which JAX 0.10.1 writes to standard error as it reads them.
    own = {**os.environ, "JAX_ENABLE_COMPILATION_CACHE": "false"}
    process = subprocess.Popen(
        [sys.executable, "-c", LONG], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=own,
    )  # fmt: skip
    assert process.stdout is not None
    for _ in range(3):
        assert process.stdout.readline() == "polled\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    lines = [line for line in out.splitlines() if line != "polled"]
    assert process.returncode == 0 and err == ""
    assert lines == [
        "interrupted: 16 of 100 runs were started, and the exception's `result` has them",
        "Interrupted: 16 of 100 runs were started. True True",
        "True",
    ]
