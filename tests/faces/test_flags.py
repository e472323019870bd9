"""Every flag of JAX and XLA either leaves the numbers equal or is refused.

`python -m tests.faces.test_flags` prints the digest of a small job's arrays, or the error.
"""

import functools
import hashlib
import json
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxelim as je
from jaxelim import cli, engine, scope
from jaxelim.families import draws as noise

ROOT = Path(__file__).parents[2]

EQUAL = {
    "generators and devices": (
        "JAX_DEFAULT_PRNG_IMPL=rbg", "JAX_THREEFRY_PARTITIONABLE=0", "JAX_RANDOM_SEED_OFFSET=7",
        "JAX_LEGACY_PRNG_KEY=error", "JAX_ENABLE_CUSTOM_PRNG=1", "JAX_DEBUG_KEY_REUSE=1",
        "JAX_NUM_CPU_DEVICES=3", "JAX_USE_SHARDY_PARTITIONER=0", "NPROC=2", "OMP_NUM_THREADS=2",
        "JAX_CPU_ENABLE_ASYNC_DISPATCH=0", "XLA_FLAGS=--xla_cpu_multi_thread_eigen=false",
        "XLA_FLAGS=--xla_cpu_max_isa=SSE4_2",
    ),
    "types and code": (
        "JAX_DEFAULT_PRNG_IMPL=unsafe_rbg", "JAX_ENABLE_X64=1",
        "JAX_DEFAULT_MATMUL_PRECISION=bfloat16", "JAX_NUMPY_DTYPE_PROMOTION=strict",
        "JAX_NUMPY_RANK_PROMOTION=raise", "JAX_TRANSFER_GUARD=disallow",
        "JAX_ENABLE_COMPILATION_CACHE=0", "XLA_FLAGS=--xla_cpu_max_isa=AVX",
        "XLA_FLAGS=--xla_force_host_platform_device_count=4",
        "XLA_FLAGS=--xla_cpu_prefer_vector_width=128",
        "XLA_FLAGS=--xla_allow_excess_precision=false",
        "XLA_FLAGS=--xla_cpu_enable_fast_min_max=true",
        "XLA_FLAGS=--xla_cpu_enable_fast_math=false",
    ),
    "checks": (
        "JAX_DEBUG_NANS=1", "JAX_DEBUG_INFS=1", "JAX_CHECK_TRACER_LEAKS=1", "JAX_ENABLE_CHECKS=1",
    ),
    "not compiled": ("JAX_DISABLE_JIT=1",),
    "less optimised": (
        "JAX_DISABLE_MOST_OPTIMIZATIONS=1", "XLA_FLAGS=--xla_backend_optimization_level=0",
    ),
}  # fmt: skip
"""Flags that are set together, by process."""
REFUSED = {
    "JAX_NO_TRACING=1": "jax_no_tracing is set",
    "JAX_NO_EXECUTION=1": "jax_no_execution is set",
    "JAX_PLATFORMS=cuda": "JAX finds no device to compute on (JAX_PLATFORMS is 'cuda')",
    "XLA_FLAGS=--xla_cpu_enable_fast_math=true": "XLA_FLAGS has --xla_cpu_enable_fast_math",
    "XLA_FLAGS=--xla_cpu_enable_fast_math": "XLA_FLAGS has --xla_cpu_enable_fast_math",
}


def digest() -> str:
    """SHA-256 of samples, stopped, answer and pulls of two observers."""
    arms = [[1.0, 0.0, 0.2], [0.0, 1.0, 0.1], [0.6, -0.8, 0.3], [-0.5, 0.5, 0.9], [0.3, 0.3, -1.0]]
    stopping = (je.LLR(), je.SelectiveElimination())
    result = je.simulate(je.Instance(arms, [0.9, 0.2, -0.1]), je.BestArm(), je.LinGapE(), delta=0.1,
                         stopping=stopping, runs=41, seed=2**40 + 5)  # fmt: skip
    arrays = [getattr(result, name) for name in ("samples", "stopped", "answer", "pulls")]
    return hashlib.sha256(b"".join(np.ascontiguousarray(x).tobytes() for x in arrays)).hexdigest()


def plain() -> dict[str, str]:
    """The environment of this process without most variables that JAX or XLA read."""
    kept = ("JAX_COMPILATION_CACHE_DIR", "JAX_NUM_CPU_DEVICES", "XLA_FLAGS")
    return {
        key: value for key, value in os.environ.items()
        if key in kept or not key.startswith(("JAX_", "XLA_", "NPROC", "OMP_"))
    }  # fmt: skip


def said(*flags: str) -> dict:
    """The job's output under some flags."""
    environment = plain()
    for name, value in (flag.split("=", 1) for flag in flags):
        more = [environment[name]] if name == "XLA_FLAGS" and name in environment else []
        environment[name] = " ".join([*more, value])
    command = [sys.executable, "-m", "tests.faces.test_flags"]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, f"{flags}: {done.stderr[-2000:]}"
    return json.loads(done.stdout.splitlines()[-1])


here = functools.cache(digest)


@pytest.mark.slow
@pytest.mark.parametrize("flags", EQUAL)
def test_numbers_are_the_same_under(flags):
    known = {"digest": here()}  # first: the child may find this program in the cache
    assert said(*EQUAL[flags]) == known


@pytest.mark.slow
def test_refused_under():
    for flag, words in REFUSED.items():
        found = said(flag)
        assert found["error"] == "SetupError" and found["text"].startswith(words), flag


def test_the_digest_depends_on_the_generator(monkeypatch):
    """Another key gives another digest."""
    known = here()  # before the key is another
    other = lambda seed: jax.random.key(seed % 2**31 + 1, impl="threefry2x32")  # noqa: E731
    monkeypatch.setattr(noise, "key", other)
    assert digest() != known


@pytest.mark.parametrize("name, value", [
    ("jax_default_prng_impl", "rbg"), ("jax_threefry_partitionable", False),
    ("jax_random_seed_offset", 3), ("jax_transfer_guard", "disallow"),
    ("jax_default_matmul_precision", "bfloat16"),
])  # fmt: skip
def test_flags_changed_between_two_calls(name, value):
    """Nothing is traced again, but for the offset, which JAX has in the key of each program."""
    first, before = digest(), getattr(jax.config, name)
    programs = {program: program.traces for program in engine.program.values()}
    jax.config.update(name, value)
    try:
        assert digest() == first == here()
        assert getattr(jax.config, name) == value
    finally:
        jax.config.update(name, before)
    same = {program: program.traces for program in engine.program.values()} == programs
    assert same or name == "jax_random_seed_offset"


def refused(*words):
    two = je.Instance(np.eye(2), [1.0, 0.0])
    with pytest.raises(je.errors.SetupError) as caught:
        je.simulate(two, je.BestArm(), je.Uniform(), runs=1, max_samples=5)
    assert all(word in str(caught.value) for word in words)


def test_inside_jit():
    @jax.jit
    def outer(x):
        refused("a call from inside a function that JAX is tracing")
        return x

    outer(jnp.float32(1))


def test_no_tracing_by_the_context():
    with jax.no_tracing(True):
        refused("jax_no_tracing is set", "unset it")


def _in_child(connection):
    try:
        refused("forked after JAX had started", "'spawn'")
        connection.send("refused")
    except BaseException as error:
        connection.send(repr(error))
    finally:
        os._exit(0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child():
    jax.devices()
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    child = context.Process(target=_in_child, args=(there,))
    with pytest.warns(RuntimeWarning, match="fork"):  # from JAX itself
        child.start()
    assert here.poll(60) and here.recv() == "refused"
    child.join(10)


def test_use_all_cores_after_jax_has_started(monkeypatch):
    jax.devices()
    assert scope.jax_started()
    monkeypatch.delenv("JAX_NUM_CPU_DEVICES", raising=False)
    words = "JAX has started, so the number of its CPU devices is fixed"
    with pytest.raises(je.errors.SetupError, match=words):
        cli.use_all_cores()


if __name__ == "__main__":
    try:
        print(json.dumps({"digest": digest()}))
    except je.errors.JaxelimError as error:
        print(json.dumps({"error": type(error).__name__, "text": str(error)}))
