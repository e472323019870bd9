"""The store of finished blocks loses nothing, repeats nothing and detects damage."""

import dataclasses
import errno
import json
import os
import pickle
import resource
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import jaxelim as je
from experiments import cells
from jaxelim import cli, files, store
from jaxelim.store.held import joined
from tests.store.store_worker import BLOCK, RUNS, Cheap, jobs, options

ROOT = Path(__file__).parents[2]


def finished(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "blocks").iterdir())}


def run(folder: Path, cells_=None, **changes) -> cells.Done:
    return cells.run_cells(
        jobs() if cells_ is None else cells_, dataclasses.replace(options(folder), **changes)
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """The folder of an undisturbed job."""
    folder = tmp_path_factory.mktemp("whole")
    assert run(folder).computed == 2 * RUNS
    return folder


@pytest.fixture
def copy(whole, tmp_path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "copy"))


def killed(folder: Path, kills: int, seed: int, whole: Path) -> None:
    command = [sys.executable, "-m", "tests.store.store_worker", str(folder), str(kills), str(seed)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["kills"] == kills and seen["lost"] == seen["rewritten"] == 0
    # Some kills hit a write, and some hit a job that was killed before.
    assert seen["in_write"] >= kills // 6 and seen["resumed"] >= kills // 4
    for one in seen["folders"]:
        assert finished(Path(one)) == finished(whole)


@pytest.mark.slow
def test_kill(tmp_path, whole):
    """After kill -9 at random moments the files equal those of an undisturbed job."""
    killed(tmp_path, 4, 1, whole)


@pytest.mark.slow
def test_kill_at_fifty_moments(tmp_path, whole):
    killed(tmp_path, 50, 2, whole)


def test_blocks_are_readable_by_anyone(whole):
    path = sorted((whole / "blocks").iterdir())[0]
    with xr.open_dataset(path, engine="h5netcdf") as data:
        block = store.Block.read(path)
        xr.testing.assert_equal(data.load(), block.data)
        assert (
            data["pulls"].dtype == np.int32
            and data["stopped"].dtype == bool
            and data["samples"].attrs["units"] == "samples"
        )
        assert (
            data.attrs["name"] == "cheap/one"
            and json.loads(data.attrs["settings"]) == Cheap().settings()
        )
    assert block.encoded() == path.read_bytes()
    expected, _ = Cheap().compute(block.runs)
    assert block.data.identical(expected)


def test_adding_runs_computes_only_the_new(tmp_path):
    first, second = Cheap(), Cheap()
    assert run(tmp_path, [first], runs=8, block=5).computed == 8
    assert [(one[0], one[-1]) for one in first.asked] == [(0, 4), (5, 7)]
    before = finished(tmp_path)
    assert run(tmp_path, [second], runs=21, block=10) == cells.Done(13, 8, 0)
    assert [(one[0], one[-1]) for one in second.asked] == [(8, 9), (10, 19), (20, 20)]
    assert finished(tmp_path).items() >= before.items()
    held = store.Store(tmp_path).held(second.settings())
    assert (
        held.data.identical(Cheap().compute(np.arange(21))[0]) and held.work("samples_drawn") == 5
    )
    third = Cheap()
    assert run(tmp_path, [third], runs=21, block=3).computed == 0 and third.asked == []
    # Only the requested runs are loaded, though there are more.
    loaded = cells.load([third], dataclasses.replace(options(tmp_path), runs=4))
    np.testing.assert_array_equal(loaded["cheap/one"].runs, np.arange(4))


def test_shards_make_the_whole(tmp_path, whole, capsys):
    shards = [tmp_path / str(i) for i in range(3)]
    for i, folder in enumerate(shards):
        run(folder, shard=f"{i + 1}/3")
    names = [set(finished(folder)) for folder in shards]
    assert all(names) and sum(map(len, names)) == len(set.union(*names))  # disjoint
    assert (
        cells.load(jobs(), options(shards[0])) is None
        and "jaxelim merge" in capsys.readouterr().out
    )
    # A shard that lost a block computes that block and no other.
    lost = sorted((shards[1] / "blocks").iterdir())[0]
    lost.unlink()
    assert run(shards[1], shard="2/3").computed == BLOCK and set(finished(shards[1])) == names[1]
    code = cli.main(["merge", *map(str, shards[:2]), str(shards[2]), "-o", str(tmp_path / "all")])
    assert code == 0 and "6 blocks copied, 0 there already" in capsys.readouterr().out
    assert finished(tmp_path / "all") == finished(whole)
    assert not store.merge(shards, tmp_path / "all").copied  # a second merge changes nothing
    loaded = cells.load(jobs(), options(tmp_path / "all"))
    assert loaded["cheap/two"].data.identical(Cheap(seed=1, arms=60).compute(np.arange(RUNS))[0])


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "a/b", "1/2/3", "-1/2", ""])
def test_bad_shards(text):
    with pytest.raises(je.ArgumentError, match="i/n"):
        cells.Options(shard=text)


def test_merge_refuses_different_settings_under_one_name(tmp_path):
    run(tmp_path / "a", [Cheap(seed=0)])
    run(tmp_path / "b", [Cheap(seed=5)])
    with pytest.raises(je.ConflictError, match="seed is 0 there and 5 here"):
        store.merge([tmp_path / "a", tmp_path / "b"], tmp_path / "c")
    assert not (tmp_path / "c").exists()
    assert (
        cli.main(["merge", str(tmp_path / "a"), str(tmp_path / "b"), "-o", str(tmp_path / "c")])
        == 2
    )
    with pytest.raises(je.ConflictError, match="seed is 0 there and 5 here"):
        run(tmp_path / "a", [Cheap(seed=5)])
    # Other names may have other settings; equal settings may have two names.
    run(tmp_path / "d", [Cheap("cheap/five", seed=5), Cheap("cheap/again", seed=0)])
    store.merge([tmp_path / "a", tmp_path / "d"], tmp_path / "e")
    assert len(store.Store(tmp_path / "e").cells()) == 2
    with pytest.raises(je.StoreError, match="no store"):
        store.merge([tmp_path / "nowhere"], tmp_path / "f")


def test_machines_that_disagree_are_refused(tmp_path):
    class Other(Cheap):
        def compute(self, runs, progress=None):
            data, work = super().compute(runs)
            data["samples"][0, 0, -1] += 1
            return data, work

    run(tmp_path / "a", [Cheap()])
    run(tmp_path / "b", [Other()])
    with pytest.raises(je.ConflictError, match="other numbers"):
        store.merge([tmp_path / "a", tmp_path / "b"], tmp_path / "c")
    run(tmp_path / "d", [Other()], block=7)
    with pytest.raises(je.ConflictError, match="other numbers"):
        store.merge([tmp_path / "a", tmp_path / "d"], tmp_path / "c")
    # Blocks that overlap and agree are joined, each run once.
    run(tmp_path / "e", [Cheap()], block=7)
    store.merge([tmp_path / "a", tmp_path / "e"], tmp_path / "c")
    held = store.Store(tmp_path / "c").held(Cheap().settings())
    assert len(held.blocks) > RUNS // BLOCK and held.data.identical(
        Cheap().compute(np.arange(RUNS))[0]
    )


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def empty(path: Path) -> None:
    os.truncate(path, 0)


def zeros(path: Path) -> None:
    """Zeros, as some file systems leave after a power failure."""
    path.write_bytes(bytes(path.stat().st_size))


def text(path: Path) -> None:
    path.write_text("not a block")


def swapped(path: Path) -> None:
    """The contents of another block."""
    other = next(one for one in sorted(path.parent.iterdir()) if one != path)
    shutil.copy(other, path)


def another_number(path: Path) -> None:
    """A well-formed file with one number changed."""
    with xr.open_dataset(path, engine="h5netcdf") as data:
        data = data.load()
    data["pulls"][0, 0, 0, 0] += 1
    data.to_netcdf(path, engine="h5netcdf")


@pytest.mark.parametrize("damage", [truncate, empty, zeros, text, swapped, another_number])
def test_damaged_files_are_detected_and_recomputed(damage, copy, whole, capsys):
    path = sorted((copy / "blocks").iterdir())[3]
    damage(path)
    with pytest.raises(je.DamagedFileError, match=path.name):
        store.Block.read(path)
    assert cli.main(["results", str(copy)]) == 1
    shown = capsys.readouterr().out
    assert f"DAMAGED {path}" in shown and "1 damaged" in shown
    # left out, with a message
    assert cli.main(["merge", str(copy), "-o", str(copy / "merged")]) == 1
    assert path.name not in finished(copy / "merged") and "DAMAGED" in capsys.readouterr().out
    assert run(copy) == cells.Done(BLOCK, 2 * RUNS - BLOCK, 1)
    assert str(path) in capsys.readouterr().err
    after = finished(copy)
    assert after.pop(path.name + ".damaged") is not None and after == finished(whole)
    assert cli.main(["results", str(copy)]) == 0 and "set aside" in capsys.readouterr().out


def test_any_flipped_bit_is_detected_or_harmless(copy):
    """HDF5 leaves gaps in a file: flipped bits in unused places may go unnoticed."""
    path = sorted((copy / "blocks").iterdir())[0]
    good, right = path.read_bytes(), store.Block.read(path)
    rng = np.random.default_rng(0)
    found = 0
    for place in rng.integers(0, len(good), 150):
        bad = bytearray(good)
        bad[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(bad)
        try:
            block = store.Block.read(path)
        except je.StoreError:  # a flipped bit of the format number makes it a newer one
            found += 1
        else:
            assert (
                block.data.identical(right.data)
                and block.settings == right.settings
                and block.work == right.work
            )
    assert found > 25


def test_newer_formats_are_refused_and_unchanged(copy, monkeypatch):
    path = sorted((copy / "blocks").iterdir())[0]
    block = store.Block.read(path)
    monkeypatch.setattr(store.block, "FORMAT", 2)
    path.write_bytes(block.encoded())
    monkeypatch.setattr(store.block, "FORMAT", 1)
    with pytest.raises(je.StoreError, match="format is 2") as caught:
        run(copy)
    assert not isinstance(caught.value, je.DamagedFileError) and path.exists()


def test_disk_full(tmp_path, whole, monkeypatch):
    """A disk that fills up in the fourth block: an error, three blocks, then resume."""
    write, left = (
        os.write,
        [sum(path.stat().st_size for path in sorted((whole / "blocks").iterdir())[:3]) + 10_000],
    )

    def full(handle, contents):
        room = min(len(contents), left[0], 4096)
        if not room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        left[0] -= room
        return write(handle, contents[:room])

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(
        je.StoreError, match="the disk is full; files that were there before are kept"
    ):
        run(tmp_path)
    monkeypatch.undo()
    kept = finished(tmp_path)
    assert len(kept) == 3 and kept.items() <= finished(whole).items()
    assert run(tmp_path) == cells.Done(2 * RUNS - 3 * BLOCK, 3 * BLOCK, 0) and finished(
        tmp_path
    ) == finished(whole)


def test_a_system_limit_on_file_sizes(tmp_path):
    """The kernel refuses to extend the file."""
    before, handler = (
        resource.getrlimit(resource.RLIMIT_FSIZE),
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN),
    )
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (9000, before[1]))
        with pytest.raises(je.StoreError, match="larger than allowed"):
            run(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert finished(tmp_path) == {}


@pytest.mark.parametrize(
    "number,words", [(errno.EROFS, "read-only"), (errno.EACCES, "no permission")]
)
def test_a_folder_that_cannot_be_written(number, words, copy, whole, monkeypatch):
    opened = os.open

    def refuse(path, flags, *more, **named):
        if flags & os.O_CREAT:
            raise OSError(number, os.strerror(number))
        return opened(path, flags, *more, **named)

    (copy / "blocks" / sorted(finished(whole))[0]).unlink()
    before, job = finished(copy), Cheap()
    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(je.StoreError, match=words):
        run(copy, [job])
    monkeypatch.undo()
    assert job.asked == [] and finished(copy) == before  # refused before any computation


def test_a_path_below_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(je.StoreError, match="a part of the path is a file"):
        run(tmp_path / "file" / "results")


def test_an_interrupt_keeps_finished_blocks(tmp_path, whole):
    class Interrupted(Cheap):
        def compute(self, runs, progress=None):
            if len(self.asked) == 2:
                raise KeyboardInterrupt
            return super().compute(runs)

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, [Interrupted()])
    assert len(finished(tmp_path)) == 2
    assert run(tmp_path).found == 2 * BLOCK and finished(tmp_path) == finished(whole)


def test_an_interrupt_within_a_write_comes_after_it(tmp_path, monkeypatch):
    """It would be lost in callbacks of HDF5's packages, or leave their locks taken."""
    target, block = store.Store(tmp_path), store.Block("x", {}, *Cheap().compute(np.arange(2)))
    encoded, steps = store.Block.encoded, []

    def slowly(self):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.05)
        steps.append("encoded")
        return encoded(self)

    monkeypatch.setattr(store.Block, "encoded", slowly)
    with pytest.raises(KeyboardInterrupt):
        target.write(block)
    assert steps == ["encoded"]
    assert store.Block.read(target.folder / block.filename).data.identical(block.data)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_leftovers_of_dead_processes_are_removed(copy):
    """A live process, one of another host and one of a container with this name keep theirs."""
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    folder, host, identity = copy / "blocks", files.host(), files._identity()
    block = folder / ".some-block.nc"
    names = {
        "gone": f"{host}.{identity}-{dead.pid}-7",
        "alive": f"{host}.{identity}-{os.getpid()}-7",
        "elsewhere": f"not-{host}.{identity}-{dead.pid}-7",
        "container": f"{host}.{'0' * 8}-{dead.pid}-7",
        "old": f"{host}.{'1' * 8}-{dead.pid}-7",
        "old elsewhere": f"not-{host}.{'1' * 8}-{dead.pid}-7",
    }
    paths = {key: block.with_name(f"{block.name}.{name}.part") for key, name in names.items()}
    for key, path in paths.items():
        path.write_bytes(b"half")
        if key.startswith("old"):
            os.utime(path, (time.time() - 2 * files.LONG_AGO,) * 2)
    assert store.Store(copy).leftovers() == sorted(paths.values())
    run(copy)
    left = {key for key, path in paths.items() if path.exists()}
    assert left == {"alive", "elsewhere", "container", "old elsewhere"}


def test_a_temporary_file_names_its_writer(tmp_path):
    """It is not abandoned while its thread writes, and no other thread has its name."""
    mine = files._part_of(tmp_path / "x.nc")
    mine.write_bytes(b"half")
    others: list[Path] = []
    thread = threading.Thread(target=lambda: others.append(files._part_of(tmp_path / "x.nc")))
    thread.start()
    thread.join()
    assert not files.abandoned(mine) and others[0] != mine


def folder_(path: Path) -> None:
    """A folder, where a folder of that name was set aside before."""
    path.mkdir()
    (path / "x").write_text("")
    path.with_name(path.name + ".damaged").mkdir()


def pipe(path: Path) -> None:
    """A pipe, where a folder of that name was set aside before."""
    os.mkfifo(path)
    path.with_name(path.name + ".damaged").mkdir()


def dangling(path: Path) -> None:
    path.symlink_to("nothing")


def circular(path: Path) -> None:
    path.symlink_to(path.name)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("place", [folder_, pipe, dangling, circular, device])
def test_no_file_in_place_of_a_block(place, copy, whole, capsys):
    """It is set aside with a line; nobody waits for a writer of a pipe."""
    path = sorted((copy / "blocks").iterdir())[3]
    path.unlink()
    place(path)
    with pytest.raises(je.DamagedFileError, match="not a file"):
        store.Block.read(path)
    assert run(copy) == cells.Done(BLOCK, 2 * RUNS - BLOCK, 1)
    assert f"computed again: {path}: it is" in capsys.readouterr().err
    aside = {one.name for one in (copy / "blocks").iterdir()} - {*os.listdir(whole / "blocks")}
    assert aside and all(name.endswith(".damaged") for name in aside)
    assert path.read_bytes() == (whole / "blocks" / path.name).read_bytes()


def test_a_linked_block_is_a_block(copy, whole):
    path = sorted((copy / "blocks").iterdir())[3]
    path.unlink()
    path.symlink_to(whole / "blocks" / path.name)
    assert run(copy).computed == 0


def test_a_block_that_another_process_sets_aside(copy, monkeypatch):
    """It is listed, and gone when it is read."""
    gone = store.Store(copy).entries()[0]
    listed = store.Store(copy).entries
    monkeypatch.setattr(store.Store, "entries", lambda _: listed())
    entries = store.Store(copy).entries()
    gone.path.unlink()
    monkeypatch.setattr(store.Store, "entries", lambda _: entries)
    assert store.Store(copy).held(Cheap().settings()).runs.size == RUNS - BLOCK
    assert len(store.Store(copy).cells()) == 2


def test_writes_where_a_dask_client_is_the_default(tmp_path):
    """xarray would take a lock of the cluster, whose name the scheduler does not know."""
    distributed = pytest.importorskip("distributed")
    block = store.Block("x", {}, *Cheap().compute(np.arange(2)))
    alone = block.encoded()
    with (
        warnings.catch_warnings(),
        distributed.LocalCluster(
            n_workers=0, processes=False, protocol="tcp://", dashboard_address=None
        ) as cluster,
        distributed.Client(cluster, set_as_default=True),
    ):
        warnings.simplefilter("ignore")
        assert block.encoded() == alone
        assert store.Store(tmp_path).write(block).read_bytes() == alone


def test_the_list_of_results(copy, tmp_path, capsys):
    sorted((copy / "blocks").iterdir())[1].unlink()
    assert cli.main(["results", str(copy)]) == 0
    shown = capsys.readouterr().out
    expected, _ = Cheap().compute(np.setdiff1d(np.arange(RUNS), np.arange(6, 12)))
    stopped = expected["stopped"].values[0, 0]
    assert f"{expected['samples'].values[0, 0][stopped].mean():.0f}" in shown
    assert (
        "cheap/one" in shown
        and "0-5, 12-17" in shown
        and f"2 cells, {2 * RUNS - 6} runs, 5 files, 0 damaged" in shown
    )
    assert cli.main(["results", str(tmp_path / "nowhere")]) == 2
    assert "holds no results" in capsys.readouterr().err


def test_rows_average_the_runs_that_stopped():
    data = xr.Dataset(
        {
            "samples": (("stopping", "delta", "run"), [[[10, 30, 500, 20]]]),
            "stopped": (("stopping", "delta", "run"), [[[True, True, False, True]]]),
            "correct": (("stopping", "delta", "run"), [[[True, False, False, True]]]),
        },
        {"stopping": ["llr"], "delta": [0.1], "run": [0, 1, 2, 3]},
    )
    (row,) = store.Stored("cell", store.Held(data, (), ())).rows()
    assert (row["cut off"], row["mean tau"], row["wrong"]) == (1, 20.0, "1/3")
    assert row["sd"] == pytest.approx(10)


def test_blocks_that_overlap_have_each_run_once():
    job = Cheap()
    blocks = [store.Block("cell", job.settings(), *job.compute(runs))
              for runs in (np.arange(2, 7), np.arange(4), np.arange(3))]  # fmt: skip
    assert joined(blocks).identical(job.compute(np.arange(7))[0])


def test_units_are_in_the_checksum():
    data, _ = Cheap().compute(np.arange(2))
    other = data.copy()
    other["samples"].attrs["units"] = "seconds"
    one, two = (store.Block("cell", Cheap().settings(), x, {}).checksum for x in (data, other))
    assert data["samples"].attrs["units"] == "samples" and one != two


EASY = je.Instance(np.eye(4), [1.0, 0.2, 0.0, -0.5], name="easy")
CELL = cells.Cell("one", EASY, je.BestArm(), je.LinGapE(), (je.LLR(), je.SelectiveElimination()))


@pytest.mark.parametrize(
    "change",
    [
        {"instance": je.Instance(np.eye(4), [1.0, 0.2, 0.0, -0.25])},
        {"instance": je.Instance(np.eye(4), [1.0, 0.2, 0.0, -0.5], noise_std=2.0)},
        {"problem": je.TopM(1)},
        {"rule": je.LinGame()},
        {"rule": je.LinGapE(rate=1.0)},
        {"stopping": (je.LLR(),)},
        {"stopping": (je.SelectiveElimination(), je.LLR())},
        {"elimination": je.SelectiveElimination(), "stopping": (je.SelectiveElimination(),)},
        {"delta": (0.1,)},
        {"delta": (0.01, 0.1)},
        {"seed": 1},
        {"max_samples": 100},
        {"threshold": je.GK16()},
        {"ridge": 0.5},
        {"record": ("pair_times",)},
        {"precision": "float32"},
        {"rule": je.Oracle()},
        {"rule": je.Oracle([0.25] * 4)},
        {"rule": je.Oracle([0.5, 0.5, 0, 0])},
    ],
    ids=lambda change: str(change)[:60],
)
def test_every_setting_counts(change):
    others = ({}, {"stopping": change["stopping"]}) if "elimination" in change else ({},)
    seen = [dataclasses.replace(CELL, **one).settings() for one in (*others, change)]
    assert len(set(map(store.digest, seen))) == len(seen)
    assert set(change) <= set(CELL.settings())


def test_names_do_not_count_and_digests_last():
    renamed = dataclasses.replace(
        CELL, name="other", instance=je.Instance(np.eye(4), [1.0, 0.2, 0.0, -0.5], name="new")
    )
    assert renamed.settings() == CELL.settings()
    # Results outlive releases: another digest would make all stored results unfindable.
    assert store.digest(CELL.settings()) == "a78d5113f25c85ac1487"


def test_settings_without_a_value_are_refused():
    with pytest.raises(je.ArgumentError, match="threshold: .*with a store"):
        dataclasses.replace(CELL, threshold=lambda t, delta: t / delta).settings()
    with pytest.raises(je.ArgumentError, match="settings"):
        store.canonical({"x": float("nan")})


def test_blocks_hold_consecutive_runs(tmp_path):
    data, work = Cheap().compute(np.array([0, 2]))
    with pytest.raises(je.ArgumentError, match="consecutive"):
        store.Store(tmp_path).write(store.Block("x", {}, data, work))


def test_a_block_is_flushed_before_its_rename(tmp_path, monkeypatch):
    """Contents, name, folder entry: a power failure loses the newest block at most."""
    calls, target = [], store.Store(tmp_path)
    target.prepare()
    fsync, replace = os.fsync, os.replace

    def flush(handle):
        calls.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        fsync(handle)

    monkeypatch.setattr(os, "fsync", flush)
    monkeypatch.setattr(os, "replace", lambda *paths: (calls.append("rename"), replace(*paths)))
    target.write(store.Block("x", {}, *Cheap().compute(np.arange(2))))
    assert calls == ["file", "rename", "folder"]


@pytest.mark.slow
def test_a_batch_of_instances_is_a_cell(tmp_path, capsys):
    batch = je.Instance(np.stack([np.eye(3)] * 2), [[1.0, 0.0, 0.0], [0.0, 0.5, 0.0]], name="two")
    cell = cells.Cell(
        "batch",
        batch,
        je.BestArm(),
        je.Uniform(),
        (je.LLR(), je.SelectiveElimination()),
        delta=(0.1, 0.01),
    )
    assert run(tmp_path, [cell], runs=3, block=2).computed == 3
    expected = je.simulate(
        batch,
        je.BestArm(),
        je.Uniform(),
        stopping=cell.stopping,
        delta=cell.delta,
        runs=3,
        ridge=1.0,
    )
    data = store.Store(tmp_path).held(cell.settings()).data
    assert data["samples"].dims == ("instance", "stopping", "delta", "run")
    np.testing.assert_array_equal(data["samples"], expected.samples)
    np.testing.assert_array_equal(data["elimination_times"], expected.elimination_times)
    assert cli.main(["results", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert (
        "batch[0]" in shown
        and "batch[1]" in shown
        and f"{expected.samples[1, 1, 1].mean():.4g}" in shown
    )


@pytest.mark.parametrize("kind", [je.StoreError, je.DamagedFileError, je.ConflictError])
def test_errors_survive_pickling(kind):
    error = pickle.loads(pickle.dumps(kind(Path("here"), "is bad")))
    assert (
        type(error) is kind and str(error) == "here: is bad" and isinstance(error, je.JaxelimError)
    )
