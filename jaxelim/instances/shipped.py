"""The shipped instances, and the reader of instance files.

An instance file is a JSON object; docs/reference/file-formats.md has its keys. `used_in`,
`problems` and `m` describe a shipped instance. Keys that begin with `_` are free for users;
all other keys are refused.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from jaxelim import checks
from jaxelim.errors import ArgumentError, unknown_name
from jaxelim.families import NAMES, SOURCES
from jaxelim.instances.instance import Instance
from jaxelim.text import NotHere, parse

_FOLDER = Path(__file__).parent / "data"
_KEYS = ("name", "arms", "theta", "means", "noise_std", "family", "source", "costs", "items",
         "used_in", "problems", "m")  # fmt: skip


@dataclass(frozen=True)
class Description:
    """A shipped instance: its name, K arms in d dimensions, and the paper's use of it.

    The paper uses it for `problems`, among "best-arm", "top-m" and "thresholding", in the tables
    and figures `used_in`. `m` is that of top m; None: it is not among the problems.
    """

    name: str
    K: int
    d: int
    structure: str  # "linear" or "unstructured"
    problems: tuple[str, ...]
    m: int | None
    used_in: str


def names() -> tuple[str, ...]:
    """The names of the shipped instances, sorted."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.json")))


def describe(name: str) -> Description:
    """The description of the shipped instance `name`.

    Raises:
        ArgumentError: no shipped instance has this name.
    """
    if name not in names():
        raise unknown_name("name", name, names())
    content, one = _read(name)
    used = tuple(content["problems"]), content["m"], content["used_in"]
    return Description(name, one.K, one.d, one.structure, *used)


def load_instance(name_or_path: str | os.PathLike[str]) -> Instance:
    """Load a shipped instance by its name, or the instance of a JSON file.

    A shipped name takes precedence over a file of that name; write "./linear-d20"
    for the file. A file without a name gives the instance its own, without ".json".

    Raises:
        ArgumentError: it is neither a shipped name nor a path, or the file is missing, cannot
            be read, or holds no instance.
    """
    return _read(name_or_path)[1]


def load_items(name_or_path: str | os.PathLike[str]) -> np.ndarray:
    """Load the items, [P, d], that the JSON file of an instance holds, for `BestArm(items=..)`.

    Raises:
        ArgumentError: the file holds no items; or as `load_instance`.
    """
    content, _ = _read(name_or_path)
    if content.get("items") is None:
        raise _refused(os.fspath(name_or_path), "the key 'items' is missing")
    return np.array(content["items"], np.float64)


def _read(name_or_path: str | os.PathLike[str]) -> tuple[dict[str, Any], Instance]:
    """The contents of a shipped instance or a file, and the instance."""
    path: Any = os.fspath(name_or_path) if isinstance(name_or_path, str | os.PathLike) else b""
    if isinstance(path, bytes):
        allowed = "the name of a shipped instance, or the path of a file"
        raise ArgumentError("name_or_path", name_or_path, allowed)
    if isinstance(name_or_path, str) and path in names():
        path = _FOLDER / f"{path}.json"
    elif isinstance(name_or_path, str) and not os.path.exists(path):
        if not path.endswith(".json") and Path(path).name == path:
            raise unknown_name("name_or_path", path, names())
    if not os.path.isfile(path):
        there = os.path.exists(path)
        raise _refused(path, "it is no regular file" if there else "there is no such file")
    usual = Path(path).name.removesuffix(".json").encode("utf-8", "replace").decode("utf-8")
    try:
        return _parse(Path(path).read_text(encoding="utf-8"), usual)
    except UnicodeDecodeError as error:
        problem = f"it is not UTF-8 text: byte {error.start} is {error.reason}"
    except OSError as error:
        problem = f"it cannot be read: {error.strerror}"
    except ValueError as error:  # an ArgumentError too
        problem = str(error)
    raise _refused(path, problem)


def _refused(path: Any, problem: str) -> ArgumentError:
    """The error of a file that does not hold an instance; `problem` says why, in words."""
    allowed = "a JSON file with an object that holds theta [d] and arms [K][d], or means [K], and "
    allowed += "optionally name, noise_std, family, source, costs or items"
    return ArgumentError("name_or_path", path, allowed, problem)


def _parse(text: str, usual: str) -> tuple[dict[str, Any], Instance]:
    """The JSON object of a text, and the instance that it defines, named `usual` without a name."""
    try:
        content = json.loads(text, object_pairs_hook=_distinct_keys)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError as error:  # not JSON, a key given twice, or an integer with too many digits
        raise ValueError(f"it is not JSON: {error}") from None
    if not isinstance(content, dict):
        raise ValueError(f"it holds a {type(content).__name__}, not an object")
    for key in content:
        if key not in _KEYS and not key.startswith("_"):
            raise ValueError(f"{unknown_name('key', key, _KEYS)}, and keys that begin with '_'")
    named = [key for key in ("theta", "arms") if key in content]
    unstructured = "means" in content or ("source" in content and not named)
    if "means" in content and named:
        both = f"'means' and {named[0]!r}"
        raise ValueError(f"it has the keys {both}, of which it may have one")
    if not unstructured and len(named) < 2:
        raise ValueError(f"the key {'arms' if named == ['theta'] else 'theta'!r} is missing")
    own: Any = {"name": usual}
    own |= {key: content[key] for key in ("name", "noise_std", "costs") if key in content}
    for key, known in (("family", NAMES), ("source", SOURCES)):
        try:
            if content.get(key) is not None:
                own[key] = parse(content[key], key, known, files=True)
        except NotHere as error:
            raise unknown_name(key, str(error), known) from None
    if own.get("noise_std", 1) is None:
        raise ArgumentError("noise_std", None, "a number")
    if "noise_std" in own and "family" in own and own["family"].design:
        del own["family"]  # which says no more
    if unstructured:
        instance = Instance.unstructured(content.get("means"), **own)
    else:
        instance = Instance(content["arms"], content["theta"], **own)
    if content.get("items") is not None:
        checks.real_array("items", content["items"], shape=(None, instance.d))
    return content, instance


def _distinct_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build a JSON object and refuse duplicate keys, which `json` would drop."""
    content = dict(pairs)
    if len(content) < len(pairs):
        names = [key for key, _ in pairs]
        raise ValueError(f"the key {max(names, key=names.count)!r} is given twice")
    return content
