"""The command line: `jaxelim run`, `study`, `show`, `plot`, `complexity`, `rules`, `instances`,
`results`, `merge`, `live`.

`jaxelim --version` prints the version.
"""

import contextlib
import importlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import jax
import tyro

from jaxelim import __version__, program_cache, scope
from jaxelim.errors import JaxelimError, SetupError
from jaxelim.parallel import cores


def use_all_cores(cache: bool = True) -> None:
    """Set JAX to one CPU device per core, one thread each, and a persistent compilation cache.

    Call it before JAX starts. The command line and the experiments call it, the library
    never does. Settings in the environment stay.

    Args:
        cache: whether compiled programs are kept, in JAX_COMPILATION_CACHE_DIR or in the
            user's cache folder for jaxelim.

    Raises:
        SetupError: JAX has started.
    """
    os.environ.setdefault("NPROC", "1")
    if "JAX_NUM_CPU_DEVICES" not in os.environ:
        if scope.jax_started():
            raise SetupError(
                "JAX has started, so the number of its CPU devices is fixed",
                "call use_all_cores before anything that uses JAX, or set JAX_NUM_CPU_DEVICES",
            )
        jax.config.update("jax_num_cpu_devices", cores())
    if not cache:
        jax.config.update("jax_enable_compilation_cache", False)
    elif "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        jax.config.update("jax_compilation_cache_dir", str(program_cache.own_folder()))


def main(arguments: list[str] | None = None) -> int:
    """Run a command; returns the exit code: 0, 1 for damaged files, 2 for an error."""
    words = sys.argv[1:] if arguments is None else arguments
    if words[:1] == ["--version"]:
        print(f"jaxelim {__version__}")
        return 0

    def act() -> int | None:
        config: Any = _parsed(words)
        use_all_cores(getattr(config, "cache", True))
        with program_cache.mended:
            return config.act()

    return guarded("jaxelim", act)


_COMMANDS = {
    "run": "results.Run",
    "study": "studies.StudyOf",
    "plot": "results.Plot",
    "show": "results.Show",
    "complexity": "instances.Hardness",
    "rules": "instances.Rules",
    "instances": "instances.Instances",
    "results": "results.Results",
    "merge": "results.Merge",
    "live": "live_runs.Live",
}
"""Where each command is. Only the one that is called is imported: some need slow libraries."""


def _command(name: str) -> type:
    """The class of a command."""
    module, _, own = _COMMANDS[name].partition(".")
    return getattr(importlib.import_module(f"jaxelim.cli.{module}"), own)


def _parsed(words: list[str]) -> Any:
    """The command that the words name, with its settings."""
    if words and words[0] in _COMMANDS:
        return tyro.cli(_command(words[0]), args=words[1:], prog=f"jaxelim {words[0]}")
    commands = {name: _command(name) for name in _COMMANDS}
    return tyro.extras.subcommand_cli_from_dict(
        commands, args=words, prog="jaxelim", description=__doc__
    )


def guarded(name: str, act: Callable[[], int | None]) -> int:
    """Run `act` and return its exit code; 2 for an error and 130 for Ctrl-C, with a message."""
    try:
        with _obeyed(name):
            code = act() or 0
            sys.stdout.flush()
            return code
    except KeyboardInterrupt:
        _say_interrupted(name)
        return INTERRUPTED
    except BrokenPipeError:  # as of `jaxelim rules | head`; Python flushes again at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    except (JaxelimError, OSError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 2


INTERRUPTED = 130
PIPE_CLOSED = 141
GRACE = 1.0
"""Seconds for Python to handle Ctrl-C, before the process is ended."""


def _say_interrupted(name: str) -> None:
    print(f"{name}: interrupted", file=sys.stderr, flush=True)


@contextlib.contextmanager
def _obeyed(name: str) -> Iterator[None]:
    """Let Ctrl-C end the process soon, even while XLA compiles and no Python code runs."""
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if threading.current_thread() is not threading.main_thread() or not ours:
        yield
        return
    over = threading.Event()
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)

    def watch() -> None:
        while number := os.read(reader, 1):
            if number[0] == signal.SIGINT and not over.wait(GRACE):
                _say_interrupted(name)
                os._exit(INTERRUPTED)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        signal.set_wakeup_fd(before)
        os.close(writer)  # the watcher reads the end of the pipe and returns
        watcher.join()
        os.close(reader)


def console() -> NoReturn:
    """The console script."""
    code = main()
    if code == INTERRUPTED:  # XLA may still compile in its threads, which a normal exit crashes
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)
