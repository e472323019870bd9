"""`jaxelim live`, and the example. The commands share the program of test_live_runs.py."""

import importlib
import re
from pathlib import Path

import pytest

import jaxelim as je
from jaxelim.live import log

pytestmark = pytest.mark.xdist_group("live")
ROOT = Path(__file__).parents[2]
NEW = ["--arms", "red", "green", "blue", "--family", "bernoulli", "--rule", "lucb(pulls=2)",
       "--stopping", "selective", "--elimination", "selective", "--delta", "0.1",
       "--threshold", "heuristic"]  # fmt: skip


def test_a_run_from_the_shell(shell, tmp_path):
    """new, ask, tell, show: the file holds the run, and prints say what is next."""
    path, figure = tmp_path / "mine.live", tmp_path / "mine.png"
    assert shell("new", *NEW).endswith(
        "LUCB(pulls=2), BestArm(), 3 arms of Bernoulli(), delta 0.1. First: red\n")
    assert shell("ask", "--n", "3") == "red\ngreen\nblue\n"
    assert "0 rewards; a check needs the first of red, green, blue." in shell("show")
    said = shell("tell", "red", "1", "green", "0", "blue", "0")
    assert "The run is open after 3 rewards. In the lead: red; an answer" in said
    found = log.read(path)
    assert found.state and found.after == len(found.events)  # none to replay
    shown = shell("show", "--figure", str(figure))
    assert re.search(r"^Log-likelihood ratio of each .* more than 3.689$", shown, re.M)
    assert re.search(r"^red > green +1.386 +3.689 +True$", shown, re.M) and figure.exists()
    for _ in range(40):
        with je.LiveRun.load(path) as run:
            if run.stopped:
                break
            arm = run.ask()
            run.tell(arm, int(arm == "red"))
    assert "the run ended after" in shell("ask", code=2)
    assert "The run stopped after" in shell("show")


def test_costs_from_the_shell(shell):
    shell("new", "--arms", "a", "b", "--rule", "uniform", "--costs", "1", "5")
    assert "cost" in shell("show").splitlines()[1]


BAD = {
    "an unknown arm": (["tell", "purple", "1"], "arm: got 'purple'"),
    "no number": (["tell", "red", "one"], "reward: got 'one' (row 1); allowed: a number"),
    "a reward too few": (["tell", "red"], "rewards: got"),
    "out of range": (["tell", "red", "0.5"], "0.5 is not"),
    "the file again": (["new", *NEW], "path: got"),
    "no arms at once": (["ask", "--n", "0"], "n: got 0"),
    "no such family": (["new", "--arms", "3", "--family", "cauchy"], "family: got 'cauchy'"),
    "no arms": (["new"], "arms: got"),
    "linear": (["new", "--arms", "3", "--threshold", "linear"], "threshold: got 'linear'"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_commands(name, shell, tmp_path):
    given, message = BAD[name]
    shell("new", *NEW)
    before = (tmp_path / "mine.live").read_bytes()
    assert message in shell(*given, code=2) and (tmp_path / "mine.live").read_bytes() == before


@pytest.mark.slow
def test_the_example(tmp_path, capsys, monkeypatch):
    """The stream drops variants and names the best; the table has its rows."""
    monkeypatch.syspath_prepend(ROOT / "examples")
    ab_test = importlib.import_module("ab_test")
    monkeypatch.setattr(ab_test, "RATES", {"a": 0.2, "b": 0.6, "c": 0.4, "d": 0.1})
    ab_test.main([])
    shown = capsys.readouterr().out
    assert re.search(r"The answer: b \(p = \S+\)\. 200 rewards came after that", shown)
    assert "200 of them before the end was seen" in shown
    ab_test.main(["--table", str(tmp_path / "table.md"), "--runs", "64"])
    rows = (tmp_path / "table.md").read_text().splitlines()[7:]
    assert len(rows) == 10 and all(line.count("|") == 7 for line in rows)
    committed = (ROOT / "docs" / "results" / "ab_test.md").read_text().splitlines()
    assert [row.split("|")[1] for row in committed[7:]] == [row.split("|")[1] for row in rows]
