"""Progress: when it shows, what it says, and what a call is predicted to cost."""

import io
import sys
import time
import types

import numpy as np
import pytest

import jaxelim as je
from jaxelim.engine import progress
from jaxelim.engine.progress import Progress, automatic, by_parts, in_words, time_left
from jaxelim.simulation import run
from jaxelim.simulation.forecast import LARGEST, forecast, forecast_of
from tests.calls import checked
from tests.results.result_cases import COINS

EASY = je.Instance(np.eye(3), [1.0, 0.8, 0.0], name="easy")


class Terminal(io.StringIO):
    """A standard error that is a terminal."""

    def isatty(self):
        return True


def at_terminal(monkeypatch):
    """A terminal, outside tests as far as `automatic` can see.

    No fixture: pytest puts its own in place when the test itself begins.
    """
    for name in ("PYTEST_CURRENT_TEST", "CI", "READTHEDOCS"):
        monkeypatch.delenv(name, raising=False)
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    return shown


def test_progress_shows_by_itself_at_a_terminal(monkeypatch):
    at_terminal(monkeypatch)
    assert automatic()
    for name in ("PYTEST_CURRENT_TEST", "CI", "READTHEDOCS"):
        with monkeypatch.context() as inside:
            inside.setenv(name, "1")
            assert not automatic()
    with monkeypatch.context() as inside:
        inside.setattr(progress.multiprocessing, "parent_process", lambda: object())
        assert not automatic()
    with monkeypatch.context() as inside:
        inside.setattr(progress.threading, "main_thread", lambda: object())
        assert not automatic()
    with monkeypatch.context() as inside:
        inside.setitem(sys.modules, "sphinx", types.ModuleType("sphinx"))
        assert not automatic()


def test_progress_shows_by_itself_in_a_notebook(monkeypatch):
    at_terminal(monkeypatch)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert not automatic()
    shell = type("ZMQInteractiveShell", (), {})
    for kind, shows in ((shell, True), (type("Shell", (shell,), {}), True),
                        (type("TerminalInteractiveShell", (), {}), False)):  # fmt: skip
        module = types.ModuleType("IPython")
        module.get_ipython = lambda kind=kind: kind()
        monkeypatch.setitem(sys.modules, "IPython", module)
        assert automatic() == shows
    monkeypatch.setattr(sys, "stderr", None)
    monkeypatch.delitem(sys.modules, "IPython")
    assert not automatic()


def test_a_notebook_has_one_output(monkeypatch):
    """All ticks replace one output, so that an executed notebook has one line."""
    outputs = []

    class Handle:
        def update(self, data, raw):
            outputs[0] = data["text/plain"]

    def display(data, raw, display_id):
        outputs.append(data["text/plain"])
        return Handle()

    shell, own = type("ZMQInteractiveShell", (), {}), types.ModuleType("IPython.display")
    module = types.ModuleType("IPython")
    module.get_ipython, own.display = lambda: shell(), display  # pyright: ignore
    monkeypatch.setitem(sys.modules, "IPython", module)
    monkeypatch.setitem(sys.modules, "IPython.display", own)
    with Progress(True, 10) as bar:
        bar.compiling()
        assert len(outputs) == 1 and "compiling" in outputs[0]
        bar.running()
        for done in (2, 6, 10):
            bar.update(done, 100 * done)
            assert len(outputs) == 1 and f"{done}/10" in outputs[0]


@pytest.mark.parametrize(("show", "there"), [(None, True), (True, True), (False, False)])
def test_a_bar_says_what_it_does(show, there, monkeypatch):
    terminal = at_terminal(monkeypatch)
    monkeypatch.setattr(progress, "FIRST", 0.0)
    with Progress(show, 10, most=1000) as bar:
        bar.compiling()
        assert ("compiling" in terminal.getvalue()) == there
        bar.running()
        bar.update(0, 500)
        first = terminal.getvalue().split("\r")[-1]
        assert ("0/10" in first and "at most" in first and "left" in first) == there
        assert "compiling" not in first
        bar.update(10, 1000)
    last = terminal.getvalue().split("\r")[-1]
    assert (last.endswith("\n") and "10/10" in last) == there
    assert there or not terminal.getvalue()


def test_a_bar_says_how_long_it_compiles(monkeypatch):
    """The clock goes on while nothing is told, and the last line has the seconds."""
    terminal = at_terminal(monkeypatch)
    monkeypatch.setattr(progress, "TICK", 0.01)
    clock = types.SimpleNamespace(perf_counter=lambda: now[0])
    now = [100.0]
    monkeypatch.setattr(progress, "time", clock)
    with Progress(True, 10) as bar:
        bar.compiling()
        now[0] = 107.0
        deadline = time.monotonic() + 60
        while "compiling for 7 s" not in terminal.getvalue() and time.monotonic() < deadline:
            time.sleep(0.01)
        bar.running()
        now[0] = 108.0
        bar.update(10, 10**6)
    last = terminal.getvalue().split("\r")[-1]
    assert "compiling for 7 s" in terminal.getvalue()
    assert "7 s of it compiling, 1.00 M samples/s" in last and not bar._clock.is_alive()


def test_a_file_has_a_line_a_minute_by_itself(monkeypatch):
    """Nothing of a short call; else a line a minute, and the last one."""
    at_terminal(monkeypatch)
    file, now = io.StringIO(), [0.0]
    monkeypatch.setattr(sys, "stderr", file)
    monkeypatch.setattr(progress, "time", types.SimpleNamespace(perf_counter=lambda: now[0]))
    monkeypatch.setattr(progress, "TICK", 1e9)
    for seconds, lines in ((59, 0), (290, 5)):
        with Progress(None, 300) as bar:
            bar.running()
            for done in range(1, seconds + 1):
                now[0] += 1
                bar.update(done, 1000 * done)
        shown = file.getvalue().splitlines()
        assert len(shown) == lines and "\r" not in file.getvalue()
    assert "60/300" in shown[0] and "290/300" in shown[-1]


def test_a_file_has_at_most_a_line_a_second(monkeypatch):
    at_terminal(monkeypatch)
    file, now = io.StringIO(), [0.0]
    monkeypatch.setattr(sys, "stderr", file)
    monkeypatch.setattr(progress, "time", types.SimpleNamespace(perf_counter=lambda: now[0]))
    with Progress(True, 300) as bar:
        bar.running()
        for done in range(1, 301):
            now[0] += 0.01
            bar.update(done, 1000 * done)
    shown = file.getvalue().splitlines()
    assert 3 <= len(shown) <= 5 and "300/300" in shown[-1] and "\r" not in file.getvalue()


def test_parts_share_one_line(monkeypatch):
    terminal = at_terminal(monkeypatch)

    def part():
        assert not automatic()
        with Progress(None, 40) as inside:
            inside.compiling()
            inside.running()
            inside.update(30, 500)
        return 7

    assert by_parts([("one", part), ("two", part)], None) == [7, 7] and automatic()
    text = terminal.getvalue()
    for words in ("one:   0%", "two:  50%", "compiling]", "30/40 runs]", "2/2"):
        assert words in text
    assert text.count("\n") == 1
    for show in (False, lambda *_: None):
        by_parts([("one", part)], show)
    assert terminal.getvalue() == text
    with pytest.raises(je.ArgumentError, match="^progress: .*callable"):
        by_parts([], 3)


def test_a_bar_ends_its_line_on_an_interrupt(monkeypatch):
    terminal = at_terminal(monkeypatch)
    with pytest.raises(KeyboardInterrupt), Progress(True, 10) as bar:
        bar.compiling()
        raise KeyboardInterrupt
    assert terminal.getvalue().endswith("\n")


def test_no_bar_in_tests_and_workers(capsys):
    je.simulate(EASY, je.BestArm(), je.Uniform(), runs=2, max_samples=50)
    assert capsys.readouterr().err == ""


def test_time_left():
    assert time_left(0, 10, 0, 1.0, None) is None and time_left(0, 10, 5, 1.0, None) is None
    assert time_left(0, 10, 100, 2.0, 400.0) == 6  # 300 samples at 50 a second
    assert time_left(5, 10, 100, 2.0, None) == 2
    assert time_left(5, 10, 100, 2.0, 400.0) == 0.5 * 2 + 0.5 * 6
    assert time_left(5, 10, 500, 2.0, 400.0) == 2  # the prediction was too low
    assert time_left(0, 10, 500, 2.0, 400.0) is None
    assert time_left(10, 10, 500, 2.0, 400.0) == 0


def test_the_first_estimate_waits(monkeypatch):
    """Two seconds, and 2% of the runs or a forecast: the first runs that end are the shortest."""
    bar = Progress(False, 1000)
    assert bar._left(500, 9, 1.9) == "" and bar._left(19, 9, 60.0) == ""
    assert bar._left(20, 9, 60.0) == ", about 49 min left"
    bar._predicted = 900.0
    assert bar._left(0, 9, 60.0) == ", about 99 min left"


def test_a_notebook_keeps_one_line(monkeypatch):
    """The forecast goes into the estimate, and prints no lines of its own."""
    shown = at_terminal(monkeypatch)
    for inside, count in ((False, 2), (True, 0)):
        monkeypatch.setattr(progress, "_in_notebook", lambda inside=inside: inside)
        monkeypatch.setattr(progress, "stream", lambda: sys.stderr)
        with Progress(True, 10) as bar:
            bar._thread = object()
            bar._forecasts = [types.SimpleNamespace(total=50.0, lines=lambda _: ["one", "two"])]
            bar._predict(5.0)
            said = shown.getvalue()
            assert (said.count("one") + said.count("two")) == count and bar._predicted == 50
        shown.truncate(0)


def test_durations_in_words():
    given = {0.0: "1.0 s", 0.4: "1.0 s", 3.21: "3.2 s", 12.3: "12 s", 119: "120 s", 120: "2.0 min",
             1234: "21 min", 7199: "120 min", 7200: "2.0 h", 3600 * 30: "30 h",
             86400 * 2: "2.0 days", 86400 * 1234: "1,200 days"}  # fmt: skip
    assert {s: in_words(s) for s in given} == {s: f"about {text}" for s, text in given.items()}


def first(time, delta):
    """The first t with t >= T* log((1 + t)/delta), one by one."""
    t = 2
    while t < time * np.log((1 + t) / delta):
        t += 1
    return t


def test_the_forecast():
    times, deltas = [10.0, 40.0], np.array([0.1, 0.001])
    samples = [[first(time, delta) for delta in deltas] for time in times]
    shared = forecast(times, deltas, je.Heuristic(), 7, 10**6, True)
    np.testing.assert_array_equal(shared.samples, samples)
    assert shared.total == 7 * (samples[0][1] + samples[1][1])
    apart = forecast(times, deltas, je.Heuristic(), 7, 10**6, False)
    assert apart.total == 7 * np.sum(samples)
    assert apart.lines(10.0) == [
        "predicted by T* beta(t, delta), as without noise: "
        f"{samples[0][0]} to {samples[1][1]} samples a run, "
        f"{apart.total:,.0f} in all, {in_words(apart.total / 10)} at this rate"
    ]
    cap = samples[1][1] - 1
    cut = forecast(times, deltas, je.Heuristic(), 7, cap, True)
    assert cut.total == 7 * (samples[0][1] + cap)
    assert cut.lines(10.0)[1:] == [
        f"runs will be cut off at {cap} samples: at delta = 0.001 more are predicted"
    ]
    one = forecast([10.0], 0.1, je.Heuristic(), 7, 10**6, True)
    assert f": {samples[0][0]} samples a run" in one.lines(1.0)[0]


@pytest.mark.slow  # most of it compiles `complexity`
def test_the_forecast_of_a_call():
    call = checked(COINS, je.BestArm(), je.Uniform(), runs=5, noise=np.full((5, 40), 0.5))
    time = float(je.complexity(COINS, je.BestArm()).time)
    found = forecast_of(call)
    assert found.samples.shape == (1, 1) and found.cap == 40 and found.runs == 5
    assert found.samples[0, 0] == je.practical_time(0.1, 1 / time)
    K = int(LARGEST**0.5) + 1
    large = je.Instance(np.eye(K), np.arange(float(K)))
    assert forecast_of(checked(large, je.BestArm(), je.Uniform())) is None
    assert forecast_of(None) is None


def test_a_call_tells_its_cost(monkeypatch):
    """After `AFTER` seconds; the forecast itself runs in a thread."""
    terminal = at_terminal(monkeypatch)
    monkeypatch.setattr(progress, "AFTER", 0.0)
    monkeypatch.setattr(progress.threading, "Thread", AtOnce)
    found = forecast([1000.0], [0.1], je.Heuristic(), 20, 300, True)
    monkeypatch.setattr(run, "forecast_of", lambda call: found)
    hard = je.Instance(np.eye(3), [1.0, 0.99, 0.0])
    je.simulate(hard, je.BestArm(), je.Uniform(), runs=20, max_samples=300, progress=True)
    text = terminal.getvalue()
    assert found.lines(1.0)[0].split(" in all")[0] in text
    assert text.count("runs will be cut off at 300 samples") == 1 and "20/20" in text


class AtOnce:
    """A thread that is over when it starts."""

    def __init__(self, target):
        self.start = target


def test_a_forecast_that_fails_is_silent(monkeypatch):
    terminal = at_terminal(monkeypatch)
    monkeypatch.setattr(progress, "AFTER", 0.0)
    monkeypatch.setattr(progress.threading, "Thread", AtOnce)
    with Progress(True, 3, forecast=lambda: None) as bar:
        bar.update(1, 10)
        bar.update(2, 20)
    assert "predicted" not in terminal.getvalue()
