"""`simulate` with executor, block and store gives the arrays of one process."""

import multiprocessing
import signal
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from typing import ClassVar

import jax
import numpy as np
import pytest

import jaxelim as je
from experiments.cell import Cell
from jaxelim import cluster, store
from jaxelim.simulation import blocks
from jaxelim.store import calls

ARRAYS = (
    "samples", "stopped", "truncated", "answer", "correct", "pulls", "elimination_times",
    "tests_stopping", "tests_sampling", "solves", "means",
)  # fmt: skip
BATCH = je.Instance(np.stack([np.eye(4)] * 2), [[1.0, 0.6, 0, -0.5], [0, 2.0, 0.7, 0.1]])
ONE = je.Instance(np.eye(4), [1.0, 0.6, 0, -0.5])
NOISE = np.random.default_rng(0).normal(size=(5, 300))
EVERYTHING = {
    "delta": [0.1, 0.05],
    "stopping": (je.LLR(), je.SelectiveElimination()),
    "record": ("pair_times", "means"),
    "noise": NOISE,
    "runs": [7, 3, 4, 9, 1],
    "engine": je.Engine(devices=1),
}


def everything(**more) -> je.Result:
    """A batch of instances, top m with pair times, two deltas, and given noise."""
    return je.simulate(BATCH, je.TopM(2), je.Uniform(), **{**EVERYTHING, **more})


def same(a: je.Result, b: je.Result) -> None:
    for name in ARRAYS:
        one, other = getattr(a, name), getattr(b, name)
        if one is None:
            assert other is None
            continue
        assert one.dtype == other.dtype, name
        np.testing.assert_array_equal(one, other, err_msg=name)
    np.testing.assert_array_equal(a.runs, b.runs)


def spawned(workers: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))


@pytest.mark.slow
def test_a_pool_of_processes_computes_what_one_does(tmp_path):
    whole, heard = everything(), []
    with spawned(1) as pool:
        cut = everything(
            executor=pool, block=2, store=tmp_path, progress=lambda *told: heard.append(told)
        )
    same(whole, cut)
    assert cut.layout["blocks"] == 5  # stored blocks are cut at multiples of 2
    assert cut.timings["samples_drawn"] == whole.timings["samples_drawn"]
    assert {key: heard[-1][key] for key in (0, 1, 2)} == {
        0: 10, 1: 10, 2: whole.timings["samples_drawn"]
    }  # fmt: skip
    # The stored blocks give the same, in this process and without any run.
    again = everything(store=tmp_path)
    same(whole, again)
    assert again.layout["blocks"] == 5
    found = sorted((tmp_path / "blocks").iterdir())
    found[1].unlink()
    found[2].write_bytes(b"")
    same(whole, everything(store=tmp_path))
    names = {path.name for path in (tmp_path / "blocks").iterdir()}
    assert names == {*(path.name for path in found), found[2].name + ".damaged"}


def simple(rule=None, **more) -> je.Result:
    given = {"runs": 6, "delta": 0.1, "max_samples": 400, "engine": je.Engine(devices=1), **more}
    return je.simulate(ONE, je.BestArm(), rule or je.Uniform(), **given)


def asked(monkeypatch) -> list:
    """The runs that blocks compute from now on."""
    seen: list = []
    compute = blocks.Simulation.compute

    def noted(self, runs, progress):
        seen.extend(runs.tolist())
        return compute(self, runs, progress)

    monkeypatch.setattr(blocks.Simulation, "compute", noted)
    return seen


def test_a_store_keeps_finished_blocks(tmp_path, monkeypatch):
    """More runs compute only the new; an interrupt leaves what is finished."""
    seen, whole = asked(monkeypatch), simple()
    assert seen == []

    def stop(done, runs, samples, seconds):
        if done >= 4:
            raise KeyboardInterrupt

    with pytest.raises(je.Interrupted, match="2 of 6 runs are in finished") as caught:
        simple(store=tmp_path, block=2, progress=stop)
    assert seen == [0, 1, 2, 3]  # the interrupt came within the second block
    part = caught.value.result
    assert part.runs.tolist() == [0, 1] and part.layout["blocks"] == 1
    assert "Interrupted: 2 of 6 runs are in finished blocks" in str(part.summary())
    np.testing.assert_array_equal(part.pulls, simple(runs=2).pulls)
    same(whole, simple(store=tmp_path, block=2))
    assert seen[4:] == [2, 3, 4, 5]
    same(simple(runs=[8, 2]), simple(store=tmp_path, runs=[8, 2]))
    assert seen[8:] == [8]
    # Other settings have blocks of their own.
    simple(store=tmp_path, seed=1, runs=1)
    assert seen[9:] == [0] and len(store.Store(tmp_path).cells()) == 2
    store.merge([tmp_path], tmp_path / "merged")


LINEAR = """
import os, signal, sys
import numpy as np
import jaxelim as je
from jaxelim.simulation import blocks

arms = np.random.default_rng(0).normal(size=(8, 4))

def linear(**more):
    return je.simulate(
        je.Instance(arms, [0.2, 0.3, -0.6, 1.0]), je.BestArm(), je.LinGapE(), delta=0.05,
        stopping=(je.LLR(), je.SelectiveElimination()), runs=40, seed=5, max_samples=5000,
        engine=je.Engine(lanes=16, devices=1, shrink=False), **more
    )
"""
KILLED = """
def killed(done, *_):
    if done >= 20:  # the second block is done, and not written
        os.kill(os.getpid(), signal.SIGKILL)

linear(store=sys.argv[1], block=10, progress=killed)
"""
RESUMED = """
compute = blocks.Simulation.compute

def noted(self, runs, progress):
    print(*runs)
    return compute(self, runs, progress)

blocks.Simulation.compute = noted
linear(store=sys.argv[1], block=10)
"""


@pytest.mark.shipped
def test_a_killed_call_is_resumed_by_another_process(tmp_path, monkeypatch):
    """The blocks of a process that was killed, and those of the next, are one call's arrays."""

    def process(source):
        command = [sys.executable, "-c", LINEAR + source, str(tmp_path)]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)

    assert process(KILLED).returncode == -signal.SIGKILL
    before = {path: path.read_bytes() for path in (tmp_path / "blocks").glob("[!.]*")}
    assert len(before) == 1
    resumed = process(RESUMED)
    assert resumed.returncode == 0, resumed.stderr
    computed = [int(run) for run in resumed.stdout.split()]
    assert computed == list(range(10, 40))
    assert all(path.read_bytes() == text for path, text in before.items())
    here: dict = {}
    exec(LINEAR, here)
    seen, whole = asked(monkeypatch), here["linear"]()
    same(whole, here["linear"](store=tmp_path))
    assert seen == []
    assert whole.stopped.all() and whole.samples.max() > 2 * whole.samples.min()


def test_a_call_finds_the_blocks_of_a_cell(tmp_path, monkeypatch):
    seen = asked(monkeypatch)
    cell = Cell("a", ONE, je.BestArm(), je.Uniform(), (je.LLR(),), delta=(0.1,), max_samples=400)
    job = cell.job(np.arange(6))
    data, work = job.task(job.runs).compute(job.runs, lambda *_: None)
    store.Store(tmp_path).write(store.Block("a", job.settings, data, work))
    computed = list(seen)
    same(simple(ridge=1.0), simple(ridge=1.0, store=tmp_path))
    assert seen == computed


class Mine(je.Uniform):
    """A rule of one's own."""

    extra: ClassVar[int] = 1


def settings(**more) -> dict:
    """The settings under which a call would be stored."""
    kept = {}

    class Stopped(Exception):
        pass

    def noted(job):
        kept.update(calls_settings(job))
        raise Stopped

    calls_settings = calls.settings
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calls, "settings", noted)
        with pytest.raises(Stopped):
            simple(store="nowhere", **more)
    return kept


def test_noise_and_sources_count():
    noise = np.random.default_rng(0).normal(size=(6, 50))
    plain = settings()
    given = settings(noise=noise)
    assert "noise" not in plain and "sources" not in plain
    assert store.digest(given) != store.digest(plain)
    assert store.digest(settings(noise=noise + 1e-9)) != store.digest(given)
    # Noise goes with its run: another order of both is the same.
    order = np.array([3, 0, 1, 5, 4, 2])
    assert settings(noise=noise[order], runs=order) == given
    assert settings(noise=noise[order]) != given
    assert settings(engine=je.Engine(lanes=16, chunk=16)) == plain
    mine = settings(rule=Mine())
    assert list(mine["sources"]) == [f"{__name__}.Mine"]


def test_another_source_is_another_class():
    """The same module and name, with a changed method or attribute."""
    made = []
    for body in ("return 1", "return 2", "return 1"):
        space: dict = {"__name__": "elsewhere"}
        exec(f"class Rule:\n    rate = 3\n    def choose(self):\n        {body}", space)
        made.append(calls.source_hash(space["Rule"]))
    assert made[0] == made[2] != made[1]


def test_arguments_that_do_not_go_together(tmp_path):
    with pytest.raises(je.ArgumentError, match="block: .*None without executor and store"):
        simple(block=3)
    with pytest.raises(je.ArgumentError, match="block"):
        simple(block=0, store=tmp_path)
    with pytest.raises(je.ArgumentError, match="threshold: .*with a store"):
        simple(store=tmp_path, threshold=lambda t, delta: 3.0 + t - t)
    with spawned(1) as pool:
        with pytest.raises(je.ArgumentError, match="engine: .*one device"):
            simple(executor=pool, engine=je.Engine(devices=2))
        with pytest.raises(je.ArgumentError, match="threshold: .*pickled"):
            simple(executor=pool, threshold=lambda t, delta: 3.0 + t - t)
    with pytest.raises(je.WorkersLost, match="takes no work.*Nothing is kept"):
        simple(executor=pool)
    assert list(tmp_path.iterdir()) == []


def test_the_default_block():
    assert blocks._size(10**6, 2) == 10_000 and blocks._size(1000, 2) == 128
    assert blocks._size(1, 8) == 1 and blocks._size(100, 1) == 32


@pytest.mark.slow
def test_a_pool_that_breaks(tmp_path):
    """The pool does not survive; what was finished is kept."""
    whole = simple(runs=40)
    with spawned(2) as pool:

        def kill(done, runs, samples, seconds):
            if done >= 8:
                for process in list(pool._processes.values()):
                    process.kill()

        with pytest.raises(je.WorkersLost, match="a worker process died.*are kept in"):
            simple(runs=40, executor=pool, block=4, store=tmp_path, progress=kill)
    kept = len(list((tmp_path / "blocks").iterdir()))
    assert 2 <= kept < 10
    same(whole, simple(runs=40, store=tmp_path, block=4))


@pytest.mark.slow
def test_a_dask_client_computes_what_one_process_does(tmp_path):
    whole, heard = everything(), []
    with cluster.local(2) as client:
        cut = everything(executor=client, block=2, progress=lambda *told: heard.append(told))
        same(whole, cut)
        assert cut.layout["blocks"] == 3 and heard[-1][:2] == (10, 10)
        # A lambda and a rule of this module: Dask pickles them.
        rising = lambda t, delta: 3.0 + 0.001 * t - delta  # noqa: E731
        same(
            simple(Mine(), threshold=rising),
            simple(Mine(), threshold=rising, executor=client, block=2),
        )
        # Given noise is cut with the runs, also in a store that another call began.
        everything(executor=client, block=2, store=tmp_path, runs=[7, 3, 4, 9, 1])
        same(whole, everything(executor=client, store=tmp_path))
        # Inside one block progress arrives before its end.
        inside: list = []
        je.simulate(
            ONE, je.BestArm(), je.Uniform(), delta=1e-6, runs=4000, block=4000, executor=client,
            engine=je.Engine(lanes=16), progress=lambda *told: inside.append(told[0]),
        )  # fmt: skip
        assert inside[-1] == 4000 and any(0 < done < 4000 for done in inside)


@pytest.mark.slow
def test_a_truncated_entry_of_the_cache_is_written_again(tmp_path):
    """A worker killed while it writes leaves one; the results stay the same."""
    before = jax.config.jax_compilation_cache_dir
    whole, sizes = simple(), []
    jax.config.update("jax_compilation_cache_dir", str(tmp_path))
    try:
        for _ in range(3):
            with spawned(1) as pool:
                same(whole, simple(executor=pool))
            entries = sorted(tmp_path.glob("*-cache"))
            sizes.append({path.name: path.stat().st_size for path in entries})
            if len(sizes) == 1:
                for path in entries:
                    path.write_bytes(path.read_bytes()[: sizes[0][path.name] // 2])
    finally:
        jax.config.update("jax_compilation_cache_dir", before)
    assert sizes[0] and not sizes[0].keys() & sizes[1].keys()
    assert sizes[2].keys() >= sizes[0].keys()
    assert all(abs(sizes[2][name] - size) < 0.1 * size for name, size in sizes[0].items())
