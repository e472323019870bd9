"""Paths, options, Ctrl-C and full disks in the command line and the experiments."""

import errno
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import tomllib
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import xarray as xr

import jaxelim as je
import jaxelim.cli.instances
import jaxelim.cli.results
from experiments import __main__ as experiments
from experiments import demo, two_dimensional
from jaxelim import cli, figures
from jaxelim.files import writable_file
from tests.simulation.comparison_cases import made

ROOT = Path(__file__).parents[2]
never = mock.Mock(side_effect=AssertionError("nothing may run"))


def test_the_version_has_one_source(capsys):
    assert re.fullmatch(r"\d+\.\d+\.\d+", je.__version__)
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"jaxelim {je.__version__}\n"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" in project["project"]["dynamic"] and "version" not in project["project"]
    assert project["tool"]["hatch"]["version"] == {"path": "jaxelim/__init__.py"}


@pytest.fixture
def given(monkeypatch):
    """What `jaxelim run` passes to `simulate`, which runs nothing."""
    found = {}
    none, arms = np.zeros((1, 1, 3), int), np.ones((1, 1, 3, 2), int)
    found["result"] = made([3.0, 4.0, 5.0], tests_stopping=none, tests_sampling=none, pulls=arms,
                           answer=arms > 0)  # fmt: skip
    monkeypatch.setattr(cli.results, "simulate",
                        lambda *_, **settings: found.update(settings) or found["result"])
    return found


def test_options_reach_simulate(given):
    """Every option of `jaxelim run` that is an argument of `simulate`."""
    options = {"ridge": 0.5, "runs": 7, "seed": 11, "max_samples": 123, "initial_pulls": 3,
               "batch": 4, "delay": 5}  # fmt: skip
    words = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    assert cli.main(["run", "linear-d20", "--delta", "0.2", "0.1", "--lanes", "32",
                     "--record", "means", *words]) == 0  # fmt: skip
    assert {name: given[name] for name in options} == options and given["engine"].lanes == 32
    assert tuple(given["record"]) == ("means",) and tuple(given["delta"]) == (0.2, 0.1)


# Paths are checked before anything runs

FILES = {
    "": "it is a folder",
    "folder": "it is a folder",
    "file/x": "there is no folder 'file'",
    "/proc/x": "it cannot be written: No such file or directory",
    "/dev/null": "it is no regular file",
    "x" * 300: "it cannot be written: File name too long",
}


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("mine")
    return tmp_path


@pytest.mark.parametrize("path", FILES, ids=lambda path: path[:20])
def test_files_that_cannot_be_written(here, monkeypatch, capsys, path):
    monkeypatch.setattr(cli.results, "simulate", never)
    assert cli.main(["run", "linear-d10", "--output", path]) == 2
    shown = repr(str(Path(path)))
    if len(path) < 100:
        assert capsys.readouterr().err == (
            f"jaxelim: output: got {shown} ({FILES[path]}); "
            "allowed: a file in a folder that exists and can be written to\n"
        )
    assert sorted(one.name for one in here.iterdir()) == ["file", "folder"]
    assert (here / "file").read_text() == "mine" and not list((here / "folder").iterdir())


def test_checking_a_path_changes_no_file(here):
    for name in ("file", "new", Path("folder") / "new"):
        assert writable_file("output", name) == Path(name)
    assert (here / "file").read_text() == "mine"
    assert sorted(here.rglob("*")) == [here / "file", here / "folder"]
    with pytest.raises(je.errors.ArgumentError, match="output: got .*null"):
        writable_file("output", "a\0b")


@pytest.mark.parametrize("path, words", [
    (".", "it is a folder"), ("nope/w.png", "there is no folder 'nope'"),
    ("/proc/w.png", "it cannot be written"), ("w", "it ends in ''"),
    ("w.xyz", "it ends in '.xyz'"), ("w.pgf", "it ends in '.pgf'"), ("w.png.", "it ends in '"),
])  # fmt: skip
def test_figures_that_cannot_be_written(here, monkeypatch, capsys, path, words):
    monkeypatch.setattr(cli.instances, "complexity", never)
    assert cli.main(["instances", "describe", "linear-d10", "--figure", path]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(f"jaxelim: figure: got {path!r} (")
    assert words in err and err.count("\n") == 1
    with pytest.raises(je.errors.ArgumentError, match="figure: got"):
        demo.main(demo.Demo(figure=Path(path)))
    assert sorted(one.name for one in here.iterdir()) == ["file", "folder"]


@pytest.mark.parametrize("name", ["w.png", "w.PDF", "w.svg", "w.jpg"])
def test_figures_of_all_kinds(here, name):
    figure = figures.survival_figure(made([3.0, 4.0, 5.0]))
    figures.save(figure, figures.figure_file("figure", name))
    assert (here / name).stat().st_size > 1000 and len(list(here.iterdir())) == 3


EXPERIMENTS = {
    "figure1_left_tau.pdf": ["figure1_left", "--rules", "lingape", "--output", "results"],
    "figure1_middle_lingape.png": ["figure1_middle", "--rule", "lingape", "--output", "results"],
    "figure1_right.csv": ["figure1_right", "--rules", "lingape", "--output", "results"],
    "table4.nc": ["table4", "--rules", "lucb", "--output", "results"],
    "gk16.md": ["studies", "gk16", "--rules", "tas-d", "--output", "results"],
    "example-bounds.png": ["two_dimensional", "--results", "r", "--output", "results/example"],
}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_experiments_check_their_files_first(here, monkeypatch, capsys, name):
    """A folder has the name of a figure or of a table."""
    monkeypatch.setattr(je, "study", never)
    (here / "results" / name).mkdir(parents=True)
    assert experiments.main(EXPERIMENTS[name]) == 2
    told = f"ArgumentError: output: got 'results/{name}' (it is a folder); allowed: a file"
    assert capsys.readouterr().err.startswith(told)
    assert sorted(here.rglob("*.part")) == []


def test_the_example_in_two_dimensions_needs_a_name():
    with pytest.raises(je.errors.ArgumentError, match="output: got '.'"):
        two_dimensional.TwoDimensional(output=Path("."))


# Failures while writing


FULL = ("the disk is full; files that were there before are kept. "
        "Free some space and give the same command again")  # fmt: skip


@pytest.mark.parametrize(
    "number, words", [(errno.ENOSPC, FULL), (errno.EIO, "Input/output error")]
)
def test_a_result_that_cannot_be_written(here, given, monkeypatch, capsys, number, words):
    """An older file stays, until the same command can write."""
    (here / "r.nc").write_text("older")
    write = os.write

    def full(handle, contents):
        write(handle, contents[:100])
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "write", full)
    assert cli.main(["run", "linear-d10", "--output", "r.nc"]) == 2
    monkeypatch.setattr(os, "write", write)
    out, err = capsys.readouterr()
    assert err == f"jaxelim: r.nc: cannot be written: {words}\n"
    assert "mean tau" in out and "wrote" not in out
    assert (here / "r.nc").read_text() == "older" and len(list(here.iterdir())) == 3
    assert cli.main(["run", "linear-d10", "--output", "r.nc"]) == 0
    with xr.open_dataset("r.nc", engine="h5netcdf") as back:
        np.testing.assert_array_equal(back["samples"].values, given["result"].samples)
    assert len(list(here.iterdir())) == 3


# Ctrl-C


def test_a_reader_that_leaves():
    """As in `jaxelim instances list | head -1`: no traceback, and no message of Python's."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run([sys.executable, "-m", "jaxelim", "instances", "list"], text=True,
                              stdout=writer, stderr=subprocess.PIPE, timeout=120)  # fmt: skip
    finally:
        os.close(writer)
    assert done.returncode == 141 and done.stderr == ""


@pytest.mark.slow
def test_ctrl_c_on_a_run(tmp_path):
    """While it runs without end."""
    path = tmp_path / "hard.json"
    path.write_text(json.dumps({"means": [1e-9, 0.0, -1e-9]}))
    command = [sys.executable, "-m", "jaxelim", "run", str(path), "--runs", "100", "--max-samples",
               str(2**31 - 2**17), "--output", str(tmp_path / "r.nc")]  # fmt: skip
    flags = {"JAX_LOG_COMPILES": "1", "JAX_ENABLE_COMPILATION_CACHE": "false"}
    # A shell's background job ignores Ctrl-C, and so would its children.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True,
                                   env=os.environ | flags)  # fmt: skip
    finally:
        signal.signal(signal.SIGINT, before)
    late = threading.Timer(120, process.kill)
    late.start()
    try:
        assert any("Finished XLA compilation of jit(advance)" in line for line in process.stderr)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        said = process.communicate()[1]
    finally:
        late.cancel()
        process.kill()
    assert process.returncode == 130 and "Traceback" not in said
    assert said.splitlines()[-1] == "jaxelim: interrupted"
    assert [one.name for one in tmp_path.iterdir()] == ["hard.json"]


def test_a_guarded_command_says_how_it_ended(capsys, monkeypatch):
    """Ctrl-C, an error of the system, which is one line, and codes."""
    missing = FileNotFoundError(errno.ENOENT, "No such file or directory", "x")
    for error, code, words in (
        (KeyboardInterrupt, 130, "interrupted"),
        (missing, 2, "[Errno 2] No such file or directory: 'x'"),
    ):
        monkeypatch.setattr(cli.results, "simulate", mock.Mock(side_effect=error))
        assert cli.main(["run", "linear-d10"]) == code
        assert capsys.readouterr().err == f"jaxelim: {words}\n"
    assert cli.guarded("name", lambda: None) == 0 and cli.guarded("name", lambda: 1) == 1
