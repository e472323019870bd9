"""How blocks are dealt to workers, with pools that the test holds in hand."""

import concurrent.futures
import dataclasses
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest

import jaxelim as je
from jaxelim import cluster
from jaxelim.cluster import clients, dispatch, environment, executors, remote
from jaxelim.cluster.remote import Answer

ROOT = Path(__file__).parents[2]


class Task:
    def __init__(self, outcome=None):
        self.outcome = outcome

    def compute(self, runs, progress):
        if isinstance(self.outcome, Exception):
            raise self.outcome
        progress(1, runs.size, 5, 0.1)
        return runs.sum()


class KilledWorker(Exception):
    """Named as Dask's."""


class Held(executors.Pool):
    """A pool of two workers, whose blocks end when the test says so, in order."""

    def __init__(self, outcomes=None, workers=2, platforms=("",) * 99):
        self._platforms = iter(platforms)
        self.asked: list[tuple[int, str]] = []
        self._idle = [f"worker {n}" for n in range(workers)]
        self._outcomes, self._workers, self._under_way = outcomes or {}, workers, []
        self.cancelled: list = []

    def workers(self):
        return self._workers

    def submit(self, number, label, task, runs):
        future = concurrent.futures.Future()
        worker = self._idle.pop(0)
        self.asked.append((number, worker))
        self._under_way.append((future, number, runs, worker))
        assert len(self._under_way) <= self._workers
        return future

    def progress(self):
        """Called at every turn: the oldest block ends."""
        if self._under_way:
            future, number, runs, worker = self._under_way.pop(0)
            self._idle.append(worker)
            outcome = self._outcomes.get((number, sum(n == number for n, _ in self.asked)))
            if outcome is None:
                future.set_result(Answer(runs.sum(), worker, next(self._platforms)))
            else:
                future.set_exception(outcome)
        return [(0, 1, 7, 0.5)]

    def ended_workers(self, error):
        return isinstance(error, KilledWorker)

    def cancel(self, futures):
        self.cancelled = futures


class Heard:
    def __init__(self):
        self.begun, self.moves, self.found = [], [], {}

    def began(self, number):
        self.begun.append(number)

    def moved(self, number, *more):
        self.moves.append((number, *more))

    def finished(self, number, content):
        self.found[number] = content


def blocks(programs):
    return [
        cluster.WorkBlock(Task(), np.arange(2 * i, 2 * i + 2), f"block {i}", program)
        for i, program in enumerate(programs)
    ]


def deal(pool, programs, monkeypatch) -> Heard:
    monkeypatch.setattr(dispatch, "pool_of", lambda _: pool)
    heard = Heard()
    dispatch.compute_all("any", blocks(programs), heard)
    return heard


def test_every_block_is_computed_once(monkeypatch):
    pool = Held()
    heard = deal(pool, "aaaaa", monkeypatch)
    assert heard.found == {i: 4 * i + 1 for i in range(5)} and len(pool.asked) == 5
    assert heard.moves[0] == (0, 1, 7, 0.5) and pool.cancelled == []


def test_workers_begin_with_different_programs_and_keep_them(monkeypatch):
    pool = Held()
    deal(pool, "aaabbb", monkeypatch)
    # blocks 0 and 3 first; then each worker has the rest of its own program
    assert [number for number, _ in pool.asked[:2]] == [0, 3]
    worker = dict(pool.asked)
    assert worker[0] == worker[1] == worker[2] != worker[3] == worker[4] == worker[5]


def test_a_block_that_ends_its_workers_is_tried_twice(monkeypatch):
    once = {(1, 1): KilledWorker()}
    pool = Held(once)
    assert set(deal(pool, "aaaa", monkeypatch).found) == {0, 1, 2, 3}
    assert [number for number, _ in pool.asked].index(1) < 3 and pool.asked[-1][0] == 1
    pool = Held({**once, (1, 2): KilledWorker()})
    heard = Heard()
    monkeypatch.setattr(dispatch, "pool_of", lambda _: pool)
    with pytest.raises(je.WorkersLost, match="block 1: each worker .* out of memory"):
        dispatch.compute_all("any", blocks("aaaa"), heard)
    assert set(heard.found) == {0, 2, 3}  # its neighbours finish


def test_an_error_of_a_task_ends_the_call(monkeypatch):
    pool = Held({(0, 1): je.ArgumentError("seed", 1, "another")})
    with pytest.raises(je.ArgumentError, match="another"):
        deal(pool, "aaaa", monkeypatch)
    assert len(pool.cancelled) == 1  # the other that was under way


def test_unlike_platforms_are_refused(monkeypatch):
    with pytest.raises(je.WorkerMismatch, match="gpu, others on cpu"):
        deal(Held(platforms=("cpu", "", "gpu")), "aaa", monkeypatch)


@pytest.mark.parametrize("executor", [None, "any"])
def test_an_interrupt_while_a_block_is_stored(executor, monkeypatch):
    """The block is stored whole, and no other follows."""

    class Interrupted(Heard):
        def finished(self, number, content):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.2)
            super().finished(number, content)

    monkeypatch.setattr(dispatch, "pool_of", lambda _: Held(workers=1))
    heard = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        dispatch.compute_all(executor, blocks("aaa"), heard)
    assert list(heard.found) == [0]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("executor, found", [(None, [0]), ("any", [])])
def test_an_interrupt_that_a_callback_loses(executor, found, monkeypatch):
    """Python prints an exception in a weak reference's callback, and goes on.

    In this process the block is over and stored; on a pool it has only begun.
    """

    class Interrupted(Heard):
        def began(self, number):
            super().began(number)
            try:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(1)
            except KeyboardInterrupt:
                pass

    monkeypatch.setattr(dispatch, "pool_of", lambda _: Held(workers=1))
    heard = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        dispatch.compute_all(executor, blocks("aaa"), heard)
    assert list(heard.found) == found
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_in_this_process():
    heard = Heard()
    dispatch.compute_all(None, blocks("ab"), heard)
    assert heard.found == {0: 1, 1: 5} and heard.begun == [0, 1]
    assert heard.moves == [(0, 1, 5, 0.1), (1, 1, 5, 0.1)]


@pytest.mark.parametrize(
    "make,told",
    [
        (concurrent.futures.ThreadPoolExecutor, "threads; use spawn"),
        (
            lambda: concurrent.futures.ProcessPoolExecutor(
                mp_context=multiprocessing.get_context("fork")
            ),
            "fork; use spawn",
        ),
        (lambda: 3, "a Dask Client"),
        (object, "a Dask Client"),
    ],
)
def test_executors_that_cannot_work(make, told):
    with pytest.raises(je.ArgumentError, match=f"executor: .*{told}"):
        je.simulate(
            je.Instance(np.eye(3), [1.0, 0, 0]), je.BestArm(), je.Uniform(), executor=make()
        )


def test_an_executor_of_threads_is_found_out():
    """One that is no ThreadPoolExecutor: the task finds itself in the client's process."""

    class Hidden(concurrent.futures.Executor):
        def submit(self, function, *arguments):
            future = concurrent.futures.Future()
            try:
                future.set_result(function(*arguments))
            except Exception as error:
                future.set_exception(error)
            return future

    with pytest.raises(je.SetupError, match="in this process, on threads; use spawn"):
        dispatch.compute_all(Hidden(), blocks("a"), Heard())


@pytest.fixture
def unprepared(monkeypatch):
    """A client of another process; this one prepares itself, and ignores Ctrl-C meanwhile."""
    monkeypatch.setattr(environment._Process, "ready", None)
    before = signal.getsignal(signal.SIGINT)
    yield dataclasses.replace(environment.Client.here(), process=-1, cache=None)
    signal.signal(signal.SIGINT, before)


def test_other_versions_are_refused(unprepared):
    client = dataclasses.replace(unprepared, versions={**unprepared.versions, "jaxlib": "0.0.1"})
    with pytest.raises(je.WorkerMismatch, match="jaxlib is .* there and 0.0.1 here") as caught:
        remote.compute(Task(), np.arange(2), client, "", 0)
    assert environment.host() in str(caught.value)


def test_a_worker_whose_jax_has_started(unprepared, monkeypatch):
    jax.devices()
    with pytest.raises(je.SetupError, match="JAX has started with 2 devices in worker"):
        remote.compute(Task(), np.arange(2), unprepared, "", 0)
    monkeypatch.setattr(jax, "devices", lambda: jax.local_devices()[:1])
    monkeypatch.setenv("NPROC", "2")
    with pytest.raises(je.SetupError, match="threads of its own"):
        remote.compute(Task(), np.arange(2), unprepared, "", 0)


@pytest.mark.slow
def test_the_library_imports_no_dask():
    code = (
        "import sys, jaxelim, jaxelim.cluster; jaxelim.simulate; jaxelim.cluster.local;"
        "assert not {'dask', 'distributed', 'xarray'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


@pytest.mark.parametrize("workers", [0, -1, 1.5, "two"])
def test_bad_numbers_of_workers(workers):
    with pytest.raises(je.ArgumentError, match="workers"), cluster.local(workers):
        pass


def test_bad_addresses(monkeypatch):
    with pytest.raises(je.ArgumentError, match="address"), cluster.connect(3):
        pass
    with pytest.raises(je.ArgumentError, match="timeout"), cluster.connect("tcp://x:1", timeout=0):
        pass

    def missing(name):
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(clients.importlib, "import_module", missing)
    with pytest.raises(je.SetupError, match=r"pip install '\.\[cluster\]'"), cluster.local(1):
        pass


@pytest.mark.parametrize("kind", [je.WorkersLost, je.SchedulerLost, je.WorkerMismatch])
def test_errors_survive_pickling(kind):
    error = pickle.loads(pickle.dumps(kind("is gone", "start it")))
    assert type(error) is kind and str(error) == "is gone; start it"
    assert isinstance(error, je.ClusterError)
