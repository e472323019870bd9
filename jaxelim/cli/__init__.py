"""The command line: `jaxelim run`, `study`, `live`, `show`, `plot`, `instances`.

`jaxelim --version` prints the version.
"""

import abc
import dataclasses
import os
import pkgutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, dataclass_transform

import tyro

from jaxelim import __version__
from jaxelim.errors import JaxelimError
from jaxelim.parallel import use_all_cores


@dataclass_transform(kw_only_default=True)
class Command(abc.ABC):
    """A command; its options are the fields of a subclass, which becomes a dataclass."""

    def __init_subclass__(cls) -> None:
        dataclasses.dataclass(kw_only=True)(cls)

    @abc.abstractmethod
    def act(self) -> int | None:
        """Do what the command says; returns the exit code, None for 0."""

    def check_files(self) -> None:
        """Refuse what --output and --figure name, if it cannot be written, before all work."""
        for name, check in (("output", "files:writable_file"), ("figure", "figures:figure_file")):
            if getattr(self, name, None) is not None:  # matplotlib is slow to import
                pkgutil.resolve_name(f"jaxelim.{check}")(name, getattr(self, name))


def write(path: Path | None, contents: Callable[[Path], Any]) -> None:
    """Write the file that a command is asked for, if any, and say so."""
    if path is not None:
        contents(path)
        print(f"wrote {path}")


class Compiles(Command):
    """A command that compiles programs."""

    cache: bool = True
    """Keep compiled programs for later commands, in the folder JAX_COMPILATION_CACHE_DIR or
    in the user's cache folder."""


def main(arguments: list[str] | None = None) -> int:
    """Run a command; returns the exit code: 0, 1 for damaged files, 2 for an error."""
    words = sys.argv[1:] if arguments is None else arguments
    if words[:1] == ["--version"]:
        print(f"jaxelim {__version__}")
        return 0

    def act() -> int | None:
        command = _parsed(words)
        use_all_cores(getattr(command, "cache", True))
        return command.act()

    return guarded("jaxelim", act)


_COMMANDS: dict[str, Any] = {
    "run": "results.Run",
    "study": "results.StudyOf",
    "live": ("A live run: the rule says which arm is next, and you say what it gave.",
             {name.lower(): f"live_runs.{name}"
              for name in ("New", "Ask", "Tell", "Show", "Add", "Remove", "Stop")}),
    "show": "results.Show",
    "plot": "results.Plot",
    "instances": ("The shipped instances, and how hard an instance is.",
                  {"list": "instances.List", "describe": "instances.Describe"}),
}  # fmt: skip
"""Where each command is, or the help of a group and its commands. Only the one that is called is
imported: some need slow libraries."""


def _parsed(words: list[str], name: str = "", text: Any = __doc__, known: Any = _COMMANDS) -> Any:
    """The command that the words name, with its settings."""
    prog, one = f"jaxelim {name}".strip(), known.get(words[0]) if words else None
    if isinstance(one, tuple):
        return _parsed(words[1:], words[0], *one)
    if one is not None:
        kind = pkgutil.resolve_name(f"jaxelim.cli.{one}")
        return tyro.cli(kind, args=words[1:], prog=f"{prog} {words[0]}")
    kinds = {key: pkgutil.resolve_name(f"jaxelim.cli.{one}") if isinstance(one, str)
             else type(key, (), {"__doc__": one[0]}) for key, one in known.items()}  # fmt: skip
    return tyro.extras.subcommand_cli_from_dict(kinds, args=words, prog=prog, description=text)


def guarded(name: str, act: Callable[[], int | None]) -> int:
    """Run `act` and return its exit code; 2 for an error and 130 for Ctrl-C, with a message."""
    try:
        code = act() or 0
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print(f"{name}: interrupted", file=sys.stderr, flush=True)
        return 130
    except BrokenPipeError:  # as of `jaxelim instances list | head`; Python flushes again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (JaxelimError, OSError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 2


def console() -> NoReturn:
    """The console script."""
    code = main()
    if code == 130:  # XLA may still compile in its threads, which a normal exit crashes
        sys.stdout.flush()
        os._exit(code)
    sys.exit(code)
