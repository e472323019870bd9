"""Caches of compiled programs: bounded, thread-safe, freed with the last reference; on disk too."""

import gc
import os
import subprocess
import sys
import threading
import warnings
import weakref
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import numpy as np
import pytest

import jaxelim as je
from jaxelim import cli, engine, parallel, scope
from jaxelim.cache import Cache, Jitted, jitted
from tests.calls import planned

ONE = je.Instance(np.eye(3), [1.0, 0.5, 0.0])
LAYOUT = je.Engine(devices=1, chunk=16)


def simulated(arms, **more):
    one = je.Instance(np.eye(arms), np.linspace(1, 0, arms))
    return je.simulate(one, je.BestArm(), je.Uniform(), runs=2, max_samples=arms + 40, ridge=1,
                       engine=LAYOUT, **more)  # fmt: skip


def test_the_least_recently_used_entry_is_dropped():
    made = []
    cache = Cache(lambda key, arrays: made.append(key) or [key], 2)
    x = np.zeros(3)
    a, b = cache("a", x), cache("b", x)
    assert cache("a", x) is a and made == ["a", "b"]
    c = cache("c", x)
    assert cache.values() == [a, c] and cache.peek("b", x) is None and cache.peek("a", x) is a
    # `peek` does not count as a use
    assert cache("b", x) is not b and cache.values() == [c, ["b"]]
    cache.cache_clear()
    assert cache.values() == []


def test_the_key_of_an_entry():
    """Key, structure, shapes and types; not the numbers."""
    cache = Cache(lambda key, arrays: object(), 10)
    given = {"x": np.zeros((2, 3)), "y": np.int32(1)}
    first = cache("a", given)
    assert cache("a", {"x": np.ones((2, 3)), "y": np.int32(7)}) is first
    changes = {"x": np.zeros((3, 2))}, {"y": np.int64(1)}, {"z": ()}
    others = [cache("a", {**given, **one}) for one in changes]
    others += [cache("b", given), cache("a", {"x": given["x"], "z": given["y"]})]
    assert len({first, *others}) == 6


def test_failures_are_not_cached():
    cache = Cache(lambda key, arrays: 1 / key, 2)
    with pytest.raises(ZeroDivisionError):
        cache(0, np.zeros(1))
    assert not cache.values() and cache(2, np.zeros(1)) == 0.5


def test_executables_are_freed_with_the_last_reference():
    def of_a_name_of_its_own(x):
        return x + 1

    program = Jitted(of_a_name_of_its_own)
    for n in range(3):
        program(np.zeros(n))
    assert executables("of_a_name_of_its_own") == 3
    del program
    assert executables("of_a_name_of_its_own") == 0


def test_functions_compile_once_per_key_and_layout():
    seen = []

    @jitted
    def f(key, x):
        seen.append((key, x.shape))
        return x + key

    for key, n in ((1, 2), (2, 2), (1, 3), (1, 2)):
        assert (f(key, np.zeros(n, np.float32)) == key).all()
    assert seen == [(1, (2,)), (2, (2,)), (1, (3,))]


@pytest.fixture
def two_programs(monkeypatch):
    engine.program.cache_clear()
    monkeypatch.setattr(engine.program, "_size", 2)
    yield
    engine.program.cache_clear()


def executables(name):
    """The number of live executables with this in their name."""
    gc.collect()
    live = jax.devices()[0].client.live_executables()
    return sum(name in one.hlo_modules()[0].name for one in live)


@pytest.mark.slow
def test_programs_are_bounded(two_programs):
    """Every new shape is a program; dropped programs leave no executable."""
    before, loops = executables("jit_advance"), []
    for arms in (3, 4, 5):
        simulated(arms)
        loops.append(weakref.ref(engine.program.values()[-1].loop))
    kept = engine.program.values()
    assert len(kept) == 2 and executables("jit_advance") - before == 2
    assert [loop() is not None for loop in loops] == [False, True, True]
    simulated(5)
    assert engine.program.values() == kept and [p.traces for p in kept] == [1, 1]


@pytest.mark.slow
def test_a_dropped_program_in_use_finishes(two_programs):
    plain = simulated(3)

    def more(*_):
        for spare in (9, 10):  # uncompiled programs take places in the cache too
            one = je.Instance(np.eye(spare), np.linspace(1, 0, spare))
            spec, inputs, _ = planned((one, je.BestArm(), je.Uniform()), {})
            with scope.engine():
                engine.program(spec, inputs)

    again = simulated(3, progress=more)
    assert len(engine.program.values()) == 2
    np.testing.assert_array_equal(again.pulls, plain.pulls)


def together(*calls):
    """Run all calls at once, each in a thread; raise the first error."""
    start = threading.Barrier(len(calls))

    def one(call):
        start.wait(60)
        call()

    with ThreadPoolExecutor(len(calls)) as pool:
        list(pool.map(one, calls))


def test_threads_get_the_same_entry():
    cache = Cache(lambda key, arrays: object(), 60)
    x, seen = np.zeros(1), [[], [], [], []]
    together(*(
        lambda mine=mine: mine.extend(cache(key % 60, x) for key in range(3000)) for mine in seen
    ))  # fmt: skip
    assert all(len(set(ones)) == 1 for ones in zip(*seen, strict=True))
    assert len({one for mine in seen for one in mine}) == len(cache.values()) == 60


def test_threads_compile_a_program_once():
    engine.program.cache_clear()
    results = []
    together(*[lambda: results.append(simulated(7))] * 2)
    (program,) = engine.program.values()
    assert program.traces == 1 and program.compiled
    np.testing.assert_array_equal(results[0].pulls, results[1].pulls)


CUT = ("uniform", 3), ("tas", 3)
"""Calls that their callers interrupt, after some of the runs are over."""
RULES = {"uniform": je.Uniform(), "tas": je.TrackAndStop()}


@pytest.mark.slow
def test_eight_calls_at_once_are_those_of_one_after_the_other():
    """Runs are equal, and an interrupted call leaves the others alone."""
    easy = je.Instance(np.eye(3), [1.0, 0.8, 0.0], name="easy")
    layout = je.Engine(lanes=16, chunk=16, devices=1, shrink=False)
    calls = [(name, seed) for seed in (3, 4, 5, 6) for name in RULES]
    engine.program.cache_clear()
    found = {}

    def run(name, seed, **more):
        return je.simulate(easy, je.BestArm(), RULES[name], runs=60, delta=[0.1, 0.01], seed=seed,
                           stopping=(je.LLR(), je.SelectiveElimination()), engine=layout,
                           **more)  # fmt: skip

    def progress(done, total, *_):
        if total > done >= 20:
            raise KeyboardInterrupt

    def call(name, seed):
        cut = (name, seed) in CUT
        try:
            found[name, seed] = run(name, seed, progress=progress if cut else False)
            assert not cut
        except je.errors.Interrupted:
            assert cut

    together(*(lambda each=each: call(*each) for each in calls))
    programs = engine.program.values()
    assert len(programs) == len(RULES) and {program.traces for program in programs} == {1}
    assert len(found) == len(calls) - len(CUT)
    for each, result in found.items():
        assert result.timings["seconds"] > 0 and result.timings["samples_drawn"] > 0
        assert result.equals(run(*each)), each


# Compiled programs on disk: where, for whom, and what a damaged entry does.


def test_an_unreadable_entry_of_the_cache_is_deleted(tmp_path, recwarn):
    whole = tmp_path / "jit_a-1-cache"
    whole.write_bytes(zlib.compress(b"program"))
    for name in ("jit_a-2-cache", "jit_a-3-cache", "jit_b-4-cache"):
        (tmp_path / name).write_bytes(whole.read_bytes()[:-4] if "3" not in name else b"")
    before = jax.config.jax_compilation_cache_dir
    jax.config.update("jax_compilation_cache_dir", str(tmp_path))
    try:
        with warnings.catch_warnings():
            for _ in range(2):
                parallel.delete_unreadable()
            warnings.warn(f"{parallel.UNREADABLE} 'jit_a': Error: x", stacklevel=1)
    finally:
        jax.config.update("jax_compilation_cache_dir", before)
    assert {path.name for path in tmp_path.iterdir()} == {"jit_a-1-cache", "jit_b-4-cache"}
    assert not recwarn.list


def test_commands_may_do_without(monkeypatch, tmp_path, capsys):
    """What commands pass to `use_all_cores`; they themselves are refused."""
    heard: list = []
    monkeypatch.setattr(cli, "use_all_cores", heard.append)
    live = ["live", "new", str(tmp_path / "a.live"), "--arms", "3", "--no-cache"]
    for given in (["run", "linear-d10"], ["run", "linear-d10", "--no-cache"], live):
        assert cli.main([*given, "--rule", "none-of-ours"]) == 2
        assert "none-of-ours" in capsys.readouterr().err
    assert heard == [True, False, False]


def test_the_folder_is_the_users(monkeypatch):
    told: dict = {}
    monkeypatch.setattr(jax.config, "update", told.__setitem__)
    monkeypatch.setenv("JAX_NUM_CPU_DEVICES", "2")
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    cli.use_all_cores()
    assert [*told] == ["jax_compilation_cache_dir"]
    assert Path(told["jax_compilation_cache_dir"]).name == "jaxelim"
    told.clear()
    cli.use_all_cores(False)
    assert told == {"jax_enable_compilation_cache": False}
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "elsewhere")
    told.clear()
    cli.use_all_cores()
    assert told == {}


@pytest.mark.parametrize("name, level", [("/bin/jaxelim", "3"), ("jaxelim.py", None)])
def test_the_command_alone_leaves_out_what_jax_writes_of_kept_programs(name, level):
    """It says so before it imports JAX, which has a level of its own where nobody does."""
    code = f"import os, sys; sys.argv[0] = {name!r}; import jaxelim; "
    code += "print(os.environ.get('TF_CPP_MIN_LOG_LEVEL'))"
    plain = {key: word for key, word in os.environ.items() if key != "TF_CPP_MIN_LOG_LEVEL"}
    found = subprocess.run([sys.executable, "-c", code], env=plain, text=True, capture_output=True)
    assert (found.stdout.strip() == "3") == (level == "3")


@pytest.mark.slow
def test_a_command_with_truncated_entries(tmp_path):
    """The same table without a warning; the next command writes them again."""
    command = ["run", "linear-d10", "--runs", "4", "--delta", "0.1", "--stopping", "selective"]

    def run(*more: str) -> str:
        environment = {**os.environ, "JAX_COMPILATION_CACHE_DIR": str(tmp_path),
                       "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}  # fmt: skip
        environment.pop("TF_CPP_MIN_LOG_LEVEL", None)  # JAX has set it in this process
        code = "import sys; sys.argv[0] = 'jaxelim'; from jaxelim.cli import console; console()"
        done = subprocess.run(
            [sys.executable, "-c", code, *command, *more], env=environment, text=True,
            capture_output=True, check=True,
        )  # fmt: skip
        assert done.stderr == ""
        return "\n".join(line for line in done.stdout.splitlines() if "samples in" not in line)

    def entries() -> dict[str, int]:
        return {path.name: path.stat().st_size for path in tmp_path.glob("*-cache")}

    first = run("--no-cache")
    assert not entries()
    assert run() == first
    whole = entries()
    large = max(whole, key=lambda name: whole[name])
    (tmp_path / large).write_bytes((tmp_path / large).read_bytes()[: whole[large] // 2])
    assert run() == first
    assert run() == first and abs(entries()[large] - whole[large]) < 0.1 * whole[large]
