"""What dies, and what the user sees: nothing is lost, nothing waits for ever.

The cells are cheap: no JAX in the workers' tasks. Processes are ended by their ids, and
each test ends what it starts.
"""

import contextlib
import dataclasses
import importlib.util
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import jaxelim as je
from experiments import cells
from experiments.cell import Cell
from jaxelim import cluster, store
from jaxelim.cluster import clients, environment, executors
from jaxelim.store import Block
from tests.cluster import tasks

psutil = pytest.importorskip("psutil")
pytest.importorskip("distributed")

ROOT = Path(__file__).parents[2]
BLOCKS = 2 * tasks.RUNS // tasks.BLOCK
UNENDING = ("--last", "3600")
"""The last blocks outlast the test, so that Ctrl-C comes before the end on a busy machine too."""


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "blocks").iterdir())}


def finished(folder: Path) -> dict[str, tuple]:
    """What every process writes alike: arrays and settings, by their checksum, name and work."""
    blocks = (Block.read(path) for path in sorted((folder / "blocks").iterdir()))
    return {block.filename: (block.checksum, block.name, block.work) for block in blocks}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> Path:
    """The folder of an undisturbed job in this process."""
    folder = tmp_path_factory.mktemp("whole")
    cells.run_cells(tasks.two(seconds=0), tasks.Options(output=folder, workers=0))
    return folder


@pytest.fixture(scope="module")
def whole(undisturbed) -> dict[str, tuple]:
    return finished(undisturbed)


@contextlib.contextmanager
def started(*command: str, **more) -> Iterator[subprocess.Popen]:
    """A process in a group of its own, which is ended with its children."""
    given = {"cwd": ROOT, "env": {**os.environ, "PYTHONPATH": str(ROOT)}, **more}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command, start_new_session=True, **pipes, **given)
    try:
        yield process
    finally:
        for one in family(process.pid):
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()
        process.communicate(timeout=60)


def client(folder: Path, *options: str):
    return started(sys.executable, "-m", "tests.cluster.tasks", str(folder), *options)


def family(process: int) -> list:
    """A process and its descendants."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return [psutil.Process(process), *psutil.Process(process).children(recursive=True)]
    return []


def workers(process: int) -> list:
    """The worker processes below a process, oldest first."""
    found = []
    for one in family(process)[1:]:
        with contextlib.suppress(psutil.NoSuchProcess):
            if "spawn_main" in " ".join(one.cmdline()):
                found.append(one)
    return found


def count(folder: Path) -> int:
    return len(list((folder / "blocks").glob("*.nc")))


def wait_until(true, seconds: float = 90, process: subprocess.Popen | None = None) -> None:
    end = time.monotonic() + seconds
    while not true():
        if process is not None and process.poll() is not None:
            raise AssertionError(process.communicate())
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)


def end_of(process: subprocess.Popen, seconds: float = 120) -> tuple[int, str]:
    """Its exit code and what it said on standard error."""
    _, said = process.communicate(timeout=seconds)
    return process.returncode, said


def none_left(processes: list, seconds: float = 10) -> None:
    wait_until(lambda: not any(one.is_running() for one in processes), seconds)


def listeners(processes: list) -> set[str]:
    """Local addresses, in hexadecimal, of all listening TCP sockets of the processes."""
    inodes = set()
    for one in processes:
        for path in Path(f"/proc/{one.pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                inodes.update(re.findall(r"socket:\[(\d+)\]", os.readlink(path)))
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            local, state, inode = (line.split()[place] for place in (1, 3, 9))
            if state == "0A" and inode in inodes:
                found.add(local.partition(":")[0])
    return found


LOOPBACK = {"0100007F"}


@pytest.mark.slow
def test_a_local_cluster(tmp_path, whole, capsys):
    """Equal blocks, listeners on loopback, progress from inside a block; it ends whole."""
    heard: list = []

    class Heard:
        def began(self, number):
            pass

        def moved(self, number, runs, samples, seconds):
            heard.append((number, runs, samples))

        def finished(self, number, content):
            kept.write(Block("slow/one", job.settings(), *content))

    job, kept = tasks.Slow("slow/one", seconds=1.5), store.Store(tmp_path)
    mine = {name: one for name, one in whole.items() if "one" in name}
    with cluster.local(1) as here:
        started_here = workers(os.getpid())
        assert started_here and listeners(family(os.getpid())) == LOOPBACK
        parts = np.split(np.arange(4), 2)
        asked = [cluster.WorkBlock(job, runs, "slow") for runs in parts]
        cluster.compute_all(here, asked, Heard())
    assert finished(tmp_path).items() <= mine.items() and count(tmp_path) == 2
    assert {number for number, *_ in heard} == {0, 1} and heard[0][1:] == (1, 10)
    assert not capsys.readouterr().err
    none_left(started_here)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(26))
def test_workers_killed_at_random(tmp_path, whole, seed):
    """More than four deaths within 15 s, both workers at once among them."""
    rng = np.random.default_rng(seed)
    with client(tmp_path, "--workers", "2", "--seconds", "2") as process:
        wait_until(lambda: count(tmp_path) >= 1, process=process)
        began, killed = time.monotonic(), 0
        while killed < 7 and process.poll() is None:
            for one in workers(process.pid)[: 2 if killed == 3 else 1]:
                one.kill()
                killed += 1
            time.sleep(rng.uniform(0.2, 2.0))
        took = time.monotonic() - began
        code, said = end_of(process)
    assert code == 0 and finished(tmp_path) == whole and killed >= 7
    assert took < 15 and "a worker was lost; computed again: slow/" in said
    assert "Traceback" not in said


@pytest.mark.slow
@pytest.mark.parametrize("to_group", [False, True])
def test_ctrl_c(tmp_path, whole, undisturbed, to_group):
    """Exit code 130, the command to go on, no traceback and no process left.

    Finished blocks stay as they are, to the byte; the others, which this process computes, have
    the bytes of its undisturbed job.
    """
    options = ("--workers", "2", "--seconds", "1", *UNENDING)
    with client(tmp_path, *options) as process:
        wait_until(lambda: count(tmp_path) >= 2, process=process)
        all_of_it = family(process.pid)
        assert len(workers(process.pid)) == 2
        (os.killpg if to_group else os.kill)(process.pid, signal.SIGINT)
        code, said = end_of(process, 30)
        none_left(all_of_it)
    assert code == 130 and "Traceback" not in said
    assert "Every finished block is kept" in said and "--workers 2 --seconds 1" in said
    assert finished(tmp_path).items() < whole.items()
    kept, own = files(tmp_path), files(undisturbed)
    cells.run_cells(tasks.two(seconds=0), tasks.Options(output=tmp_path, workers=0))
    assert finished(tmp_path) == whole
    assert files(tmp_path) == {**own, **kept}


@pytest.mark.slow
@pytest.mark.parametrize("to_group", [False, True])
def test_ctrl_c_while_workers_start(tmp_path, to_group):
    """The first, and one while they are ended: no traceback of Dask, and no process left."""
    with client(tmp_path, "--workers", "2", "--seconds", "1") as process:
        wait_until(lambda: workers(process.pid), process=process)
        all_of_it = family(process.pid)
        for _ in range(2):
            (os.killpg if to_group else os.kill)(process.pid, signal.SIGINT)
            time.sleep(1)
        code, said = end_of(process, 60)
        none_left(all_of_it)
    assert code == 130 and "Every finished block is kept" in said
    assert "Traceback" not in said and "distributed" not in said and "Nanny" not in said


@pytest.mark.slow
def test_ctrl_c_with_a_frozen_worker(tmp_path, whole):
    with client(tmp_path, "--workers", "2", "--seconds", "1", *UNENDING) as process:
        wait_until(lambda: count(tmp_path) >= 2, process=process)
        all_of_it = family(process.pid)
        os.kill(workers(process.pid)[0].pid, signal.SIGSTOP)
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        code, said = end_of(process, 60)
        none_left(all_of_it)
    assert code == 130 and "Traceback" not in said
    assert finished(tmp_path).items() < whole.items()


@pytest.mark.slow
def test_a_frozen_worker_is_replaced(tmp_path, whole, monkeypatch):
    monkeypatch.setattr(clients, "SILENCE", "3 s")

    def freeze():
        wait_until(lambda: count(tmp_path) >= 2)
        os.kill(workers(os.getpid())[0].pid, signal.SIGSTOP)

    thread = threading.Thread(target=freeze)
    thread.start()
    done = cells.run_cells(tasks.two(seconds=1), tasks.Options(output=tmp_path, workers=2))
    thread.join()
    assert done.computed == 2 * tasks.RUNS and finished(tmp_path) == whole


@pytest.mark.slow
def test_a_block_that_ends_its_workers(tmp_path, whole, monkeypatch):
    monkeypatch.setattr(clients, "ALLOWED_FAILURES", 1)
    jobs = [tasks.Killer("slow/one"), tasks.Slow("slow/two", seed=1, arms=60)]
    with pytest.raises(je.WorkersLost, match="slow/one runs 4-5: .*out of memory") as caught:
        cells.run_cells(jobs, tasks.Options(output=tmp_path, workers=2))
    assert "slow/two" not in str(caught.value)
    assert count(tmp_path) == BLOCKS - 1 and finished(tmp_path).items() < whole.items()


class Collected:
    """Collects the contents of blocks."""

    def __init__(self):
        self.found: dict = {}

    def began(self, number):
        pass

    def moved(self, *_):
        pass

    def finished(self, number, content):
        self.found[number] = content


def computed(executor, job, runs=8) -> dict:
    collected = Collected()
    parts = np.split(np.arange(runs), runs // tasks.BLOCK)
    asked = [cluster.WorkBlock(job, part, f"runs {part[0]}-{part[-1]}") for part in parts]
    try:
        cluster.compute_all(executor, asked, collected)
    finally:
        computed.last = collected.found
    return collected.found


@pytest.mark.slow
def test_a_block_that_hoards_memory(monkeypatch):
    """Each worker may have 700 MB; the others' blocks are computed."""
    monkeypatch.setattr(clients, "ALLOWED_FAILURES", 1)
    with cluster.local(2, memory="700 MB") as here:
        with pytest.raises(je.WorkersLost, match="runs 4-5: .*out of memory"):
            computed(here, tasks.Hoarder())
        assert set(computed.last) == {0, 1, 3}
        assert len(computed(here, tasks.Slow(seconds=0))) == 4  # usable after


@pytest.mark.slow
def test_errors_of_tasks_and_versions(monkeypatch):
    with cluster.local(1) as here:
        with pytest.raises(je.ArgumentError, match="allowed: another"):
            computed(here, tasks.Refused())
        real = environment.versions()
        with monkeypatch.context() as patch:
            patch.setattr(environment, "versions", lambda: {**real, "revision": "-1"})
            with pytest.raises(je.WorkerMismatch, match="revision is .* there and -1 here"):
                computed(here, tasks.Slow())
        # A worker of threads, whose JAX is this process's.
    import distributed

    with (
        distributed.LocalCluster(
            n_workers=1, processes=False, protocol="tcp://", dashboard_address=None
        ) as threads,
        distributed.Client(threads, set_as_default=False) as client_,
    ):
        with pytest.raises(je.SetupError, match="in this process, on threads"):
            computed(client_, tasks.Slow())


@contextlib.contextmanager
def by_hand(folder: Path, machines: int, **more) -> Iterator[tuple[Path, subprocess.Popen, list]]:
    """A scheduler and workers with nannies, as from the shell, on loopback."""
    file = folder / "scheduler.json"
    dask = str(Path(sys.executable).with_name("dask"))
    with contextlib.ExitStack() as stack:
        scheduler = stack.enter_context(
            started(dask, "scheduler", "--host", "127.0.0.1", "--port", "0",
                    "--dashboard-address", "127.0.0.1:0", "--scheduler-file", str(file))
        )  # fmt: skip
        wait_until(file.exists, process=scheduler)
        nannies = [
            stack.enter_context(
                started(dask, "worker", "--scheduler-file", str(file), "--host", "127.0.0.1",
                        "--nthreads", "1", "--dashboard-address", "127.0.0.1:0",
                        "--local-directory", str(folder), "--preload", clients.PRELOAD, **more)
            )
            for _ in range(machines)
        ]  # fmt: skip
        for one in (scheduler, *nannies):  # nobody may wait for a reader of its log
            for pipe in (one.stdout, one.stderr):
                threading.Thread(target=pipe.read, daemon=True).start()
        yield file, scheduler, nannies


@pytest.mark.slow
def test_a_cluster_by_hand_and_a_machine_killed(tmp_path, whole):
    """A nanny and its worker are killed; then the only worker of the other."""
    with by_hand(tmp_path, 2) as (file, scheduler, nannies):
        with client(tmp_path / "out", "--scheduler-file", str(file), "--seconds", "1") as process:
            wait_until(lambda: count(tmp_path / "out") >= 2, process=process)
            everyone = [one for n in (scheduler, *nannies) for one in family(n.pid)]
            assert listeners([*everyone, *family(process.pid)]) == LOOPBACK
            for one in family(nannies[0].pid):
                one.kill()
            wait_until(lambda: count(tmp_path / "out") >= 5, process=process)
            workers(nannies[1].pid)[0].kill()
            code, said = end_of(process)
    assert code == 0 and finished(tmp_path / "out") == whole
    assert "a worker was lost; computed again" in said and "Traceback" not in said


@pytest.mark.slow
def test_the_scheduler_killed(tmp_path, whole):
    with by_hand(tmp_path, 1) as (file, scheduler, _):
        with client(tmp_path / "out", "--scheduler-file", str(file), "--seconds", "1") as process:
            wait_until(lambda: count(tmp_path / "out") >= 2, process=process)
            scheduler.kill()
            code, said = end_of(process, 30)
    assert code == 2 and "SchedulerLost" in said and "start it and its workers again" in said
    assert f"--scheduler-file {file}" in said and "Traceback" not in said, said
    kept = finished(tmp_path / "out")
    assert len(kept) >= 2 and kept.items() <= whole.items()


@pytest.mark.slow
def test_no_workers(tmp_path, monkeypatch):
    began = time.monotonic()
    with pytest.raises(je.SchedulerLost, match="no scheduler answers at tcp://127.0.0.1:1"):
        with cluster.connect("tcp://127.0.0.1:1", timeout=2):
            pass
    assert time.monotonic() - began < 20
    with by_hand(tmp_path, 0) as (file, *_):
        with pytest.raises(je.WorkersLost, match="no worker joined .*start workers: dask worker"):
            with cluster.connect(file, timeout=2):
                pass
    (tmp_path / "b").mkdir()
    monkeypatch.setattr(executors, "PATIENCE", 5.0)
    with by_hand(tmp_path / "b", 1) as (file, _, nannies), cluster.connect(file) as here:

        def kill():
            time.sleep(3)
            for one in family(nannies[0].pid):
                one.kill()

        thread = threading.Thread(target=kill)
        thread.start()
        with pytest.raises(je.WorkersLost, match="has had no worker for 5 s; start workers"):
            computed(here, tasks.Slow(seconds=3), 12)
        thread.join()


@pytest.mark.slow
def test_two_clients_on_one_store(tmp_path, whole):
    with client(tmp_path, "--workers", "1") as one, client(tmp_path, "--workers", "1") as other:
        codes = [end_of(process) for process in (one, other)]
    assert [code for code, _ in codes] == [0, 0], codes
    assert finished(tmp_path) == whole


@pytest.mark.slow
def test_a_client_that_is_killed(tmp_path, whole):
    """Its workers end with it; the same command goes on from its blocks."""
    with client(tmp_path, "--workers", "2", "--seconds", "1") as process:
        wait_until(lambda: count(tmp_path) >= 3, process=process)
        all_of_it = family(process.pid)
        process.kill()
        none_left(all_of_it[1:], 30)
    kept = finished(tmp_path)
    assert 3 <= sum(name.endswith(".nc") for name in kept) < BLOCKS
    done = cells.run_cells(tasks.two(seconds=0), tasks.Options(output=tmp_path, workers=0))
    assert done.found >= 3 * tasks.BLOCK and finished(tmp_path) == whole


@pytest.mark.slow
def test_workers_need_the_library_alone(tmp_path):
    """A real cell on workers that have jaxelim, but neither experiments nor tests."""
    library = tmp_path / "library"
    library.mkdir()
    (library / "jaxelim").symlink_to(ROOT / "jaxelim")
    # An editable install has all of its folder on the path: `site` runs this after it.
    (library / "sitecustomize.py").write_text(
        "import os, sys\n"
        "sys.path[:] = [x for x in sys.path if not os.path.isdir(os.path.join(x, 'experiments'))]\n"
    )
    instance = je.Instance(np.eye(4), [1.0, 0.6, 0.0, -0.5])
    cell = Cell("real", instance, je.BestArm(), je.Uniform(), (je.LLR(),), max_samples=2000)
    run_here = tasks.Options(runs=4, output=tmp_path / "here", workers=0)
    cells.run_cells([cell], run_here)
    only = {"cwd": library, "env": {**os.environ, "PYTHONPATH": str(library)}}
    with by_hand(tmp_path, 1, **only) as (file, *_), cluster.connect(file) as there:
        for name in ("experiments", "tests"):
            assert list(there.run(importlib.util.find_spec, name).values()) == [None]
        run_there = dataclasses.replace(
            run_here, output=tmp_path / "there", workers=None, scheduler_file=file
        )
        cells.run_cells([cell], run_there)
    found = [store.Store(one.output).cells()[0].held for one in (run_here, run_there)]
    assert len(found[1].blocks) == 2 and found[0].data.identical(found[1].data)
