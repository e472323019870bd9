"""`simulate` with an executor gives the arrays of one process."""

import concurrent.futures
import contextlib
import os
import signal

import pytest

import jaxelim as je
from jaxelim import parallel
from tests.store.test_store import everything, simple


@pytest.fixture(scope="module")
def pool():
    with parallel.processes(2) as executor:
        yield executor


@pytest.mark.slow
def test_processes_compute_what_one_does(pool, tmp_path):
    whole, heard = everything(), []
    cut = everything(
        executor=pool, block=2, store=tmp_path, progress=lambda *told: heard.append(told)
    )
    assert cut.equals(whole) and cut.layout["blocks"] == 5
    assert heard[-1][:3] == (10, 10, whole.timings["samples_drawn"])
    assert everything(store=tmp_path).equals(whole)
    assert everything(executor=pool).equals(whole)


def test_arguments_that_do_not_go_together(pool, tmp_path):
    for words, given in {
        "block": dict(block=0, store=tmp_path), "executor: got 3.*get_executor": dict(executor=3),
        "engine: .*one device": dict(executor=pool, engine=je.Engine(devices=2)),
        "threshold: .*pickled": dict(executor=pool, threshold=lambda t, delta: 3.0 + t - t),
    }.items():  # fmt: skip
        with pytest.raises(je.errors.ArgumentError, match=words):
            simple(**given)
    with pytest.raises(je.errors.ArgumentError, match="workers"), parallel.processes(0):
        pass
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        with pytest.raises(je.errors.SetupError, match="in this process, on threads"):
            simple(executor=threads)


def test_other_versions_are_refused(pool, monkeypatch):
    monkeypatch.setattr(parallel, "REVISION", -1)
    words = "revision is .* there and -1 here.*Nothing is kept"
    with pytest.raises(je.errors.WorkerError, match=words):
        simple(executor=pool)


def test_a_worker_whose_jax_has_started(monkeypatch):
    monkeypatch.setenv("NPROC", "4")
    with pytest.raises(je.errors.SetupError, match="JAX has started with"):
        parallel._set_one_device()


def test_a_worker_that_dies(tmp_path):
    """The same call goes on from the store."""
    with parallel.processes(1) as executor:

        def kill(done, *_):
            if done:
                for process in list(executor._processes.values()):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(process.pid, signal.SIGKILL)

        with pytest.raises(je.errors.WorkerError, match="died.*Finished blocks are kept"):
            simple(runs=200, executor=executor, block=2, store=tmp_path, progress=kill)
        with pytest.raises(je.errors.WorkerError):
            simple(executor=executor)
    assert simple(runs=200, store=tmp_path).equals(simple(runs=200))


def test_the_executor_that_a_command_asks_for(monkeypatch):
    with parallel.asked_for(0) as none, parallel.asked_for(1) as one:
        assert none is None and one is None
    monkeypatch.setattr(parallel, "cores", lambda: 1)
    with parallel.asked_for() as here:
        assert here is None
    with parallel.asked_for(2) as two:
        assert parallel.workers_of(two) == 2


@pytest.mark.slow
def test_a_dask_client_computes_what_one_process_does():
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0"
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        assert everything(executor=client.get_executor(), block=2).equals(everything())
        assert simple(executor=client.get_executor()).equals(simple())
