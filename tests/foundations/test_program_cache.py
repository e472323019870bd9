"""Compiled programs that are kept: where, for whom, and what a damaged entry does."""

import os
import subprocess
import sys
import warnings
import zlib

import jax
import pytest

from jaxelim import cli, program_cache


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
                program_cache.delete_unreadable()
            warnings.warn(f"{program_cache.UNREADABLE} 'jit_a': Error: x", stacklevel=1)
    finally:
        jax.config.update("jax_compilation_cache_dir", before)
    assert {path.name for path in tmp_path.iterdir()} == {"jit_a-1-cache", "jit_b-4-cache"}
    assert not recwarn.list


def options(monkeypatch, *given: str) -> list:
    """What a command passes to `use_all_cores`; the command itself is refused."""
    heard: list = []
    monkeypatch.setattr(cli, "use_all_cores", heard.append)
    assert cli.main([*given, "--rule", "none-of-ours"]) == 2
    return heard


def test_commands_may_do_without(monkeypatch, tmp_path, capsys):
    assert options(monkeypatch, "run", "linear-d10") == [True]
    assert options(monkeypatch, "run", "linear-d10", "--no-cache") == [False]
    file = str(tmp_path / "a.live")
    assert options(monkeypatch, "live", "new", file, "--arms", "3", "--no-cache") == [False]
    assert "none-of-ours" in capsys.readouterr().err


def test_the_folder_is_the_users(monkeypatch):
    told: dict = {}
    monkeypatch.setattr(jax.config, "update", told.__setitem__)
    monkeypatch.setenv("JAX_NUM_CPU_DEVICES", "2")
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    cli.use_all_cores()
    assert told == {"jax_compilation_cache_dir": str(program_cache.own_folder())}
    assert program_cache.own_folder().name == "jaxelim"
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
