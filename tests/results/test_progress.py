"""Progress: when it shows, and what it says."""

import io
import sys
import types

import pytest

import jaxelim as je
from jaxelim import progress
from jaxelim.progress import Progress
from jaxelim.testing.checking import by_parts


class Terminal(io.StringIO):
    def isatty(self):
        return True


def at_terminal(monkeypatch, shown=None):
    """A terminal, outside tests as far as a bar can see.

    No fixture: pytest puts its own in place when the test itself begins.
    """
    for name in ("PYTEST_CURRENT_TEST", "CI", "READTHEDOCS"):
        monkeypatch.delenv(name, raising=False)
    shown = shown or Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    return shown


def automatic():
    """Whether a bar is shown by itself."""
    return progress._may_show() and (progress._in_notebook() or progress._terminal())


def test_progress_shows_by_itself_at_a_terminal(monkeypatch):
    at_terminal(monkeypatch)
    assert automatic()
    for name in ("PYTEST_CURRENT_TEST", "CI", "READTHEDOCS"):
        with monkeypatch.context() as inside:
            inside.setenv(name, "1")
            assert not automatic()
    for place in ("multiprocessing.parent_process", "threading.main_thread"):
        with monkeypatch.context() as inside:
            inside.setattr(f"jaxelim.progress.{place}", lambda: object())
            assert not automatic()
    monkeypatch.setitem(sys.modules, "sphinx", types.ModuleType("sphinx"))
    assert not automatic()


def test_progress_shows_by_itself_in_a_notebook(monkeypatch):
    at_terminal(monkeypatch, io.StringIO())
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


@pytest.mark.parametrize(("show", "there"), [(None, True), (True, True), (False, False)])
def test_a_bar_says_what_it_does(show, there, monkeypatch):
    terminal = at_terminal(monkeypatch)
    with Progress(show, 10) as bar:
        bar.compiling()
        assert ("compiling" in terminal.getvalue()) == there
        bar.running()
        bar.update(0, 500)
        first = terminal.getvalue().split("\r")[-1]
        assert ("0/10" in first and "M samples/s" in first) == there
        assert "compiling" not in first
        bar.update(10, 1000)
    last = terminal.getvalue().split("\r")[-1]
    assert (last.endswith("\n") and "10/10" in last) == there
    assert there or not terminal.getvalue()


@pytest.mark.parametrize(
    ("show", "step", "seconds", "least", "most"),
    [(None, 1.0, 59, 0, 0), (None, 1.0, 290, 4, 6), (True, 0.01, 3, 3, 6)],
)
def test_a_file_has_lines_far_apart(show, step, seconds, least, most, monkeypatch):
    """A line a minute by itself, and none of a short call; at most one a second where asked."""
    file = at_terminal(monkeypatch, io.StringIO())
    now = [0.0]
    monkeypatch.setattr("time.time", lambda: now[0])
    monkeypatch.setattr("tqdm.std.time", lambda: now[0])
    steps = int(seconds / step)
    with Progress(show, steps) as bar:
        bar.running()
        for done in range(1, steps + 1):
            now[0] += step
            bar.update(done, 1000 * done)
    shown = file.getvalue().splitlines()
    assert least <= len(shown) <= most and "\r" not in file.getvalue()
    assert not shown or f"{steps}/{steps}" in shown[-1]


def test_parts_share_one_line(monkeypatch):
    terminal = at_terminal(monkeypatch)

    def part():
        assert not automatic()
        with Progress(None, 40) as inside:
            inside.compiling()
            inside.update(30, 500)

    by_parts([("one", part), ("two", part)], None)
    assert automatic()
    text = terminal.getvalue()
    assert all(words in text for words in ("one:   0%", "two:  50%", "2/2")) and "30/40" not in text
    assert text.count("\n") == 1
    for show in (False, lambda *_: None):
        by_parts([("one", part)], show)
    assert terminal.getvalue() == text
    with pytest.raises(je.errors.ArgumentError, match="^progress: .*callable"):
        by_parts([], 3)


def test_a_bar_ends_its_line_on_an_interrupt(monkeypatch):
    terminal = at_terminal(monkeypatch)
    with pytest.raises(KeyboardInterrupt), Progress(True, 10) as bar:
        bar.compiling()
        raise KeyboardInterrupt
    assert terminal.getvalue().endswith("\n")
