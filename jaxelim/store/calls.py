"""The settings of a call of `simulate`, by which its blocks are found again."""

import dataclasses
import hashlib
import inspect
from collections.abc import Iterator
from types import CodeType
from typing import Any

from jaxelim.errors import ArgumentError
from jaxelim.instances.instance import Instance
from jaxelim.store.settings import REVISION, canonical

NAMES = ("instance", "problem", "rule", "stopping", "elimination", "delta", "seed", "max_samples",
         "threshold", "ridge", "record")  # fmt: skip
"""Arguments of `simulate` that count; a checked call has `delta` as `deltas`."""


def settings(call: Any) -> dict:
    """All that determines the numbers of a run, canonical, as the experiments' cells have it.

    Given noise counts with the runs that it is for. Classes outside jaxelim count with
    their sources. So a call finds the blocks of a cell of the same settings.

    Args:
        call: the checked call, its runs sorted.

    Raises:
        ArgumentError: an argument that its value does not identify, such as a lambda.
    """
    parts: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for name in NAMES:
        value = call.deltas.tolist() if name == "delta" else getattr(call, name)
        try:
            parts[name] = canonical(value)
        except ArgumentError as error:
            allowed = f"with a store, {error.allowed}"
            raise ArgumentError(name, error.given, allowed, error.note) from None
        for kind in _kinds(value):
            sources[f"{kind.__module__}.{kind.__qualname__}"] = source_hash(kind)
    if call.initial_pulls != 1:
        parts["initial_pulls"] = call.initial_pulls
    parts |= call.waiting
    if call.noise is not None:
        parts["noise"] = canonical({"values": call.noise, "runs": call.runs})
    if sources:
        parts["sources"] = dict(sorted(sources.items()))
    return {**parts, "revision": REVISION}


def _kinds(value: Any) -> Iterator[type]:
    """The classes outside jaxelim, with their bases, of a value and of all that it holds."""
    if isinstance(value, list | tuple):
        for entry in value:
            yield from _kinds(entry)
        return
    if isinstance(value, dict):
        yield from _kinds(list(value.values()))
        return
    if isinstance(value, Instance):
        yield from _kinds(value.family)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        for kind in type(value).__mro__:
            if kind.__module__.partition(".")[0] not in ("jaxelim", "builtins", "typing", "abc"):
                yield kind
        for field in dataclasses.fields(value):
            yield from _kinds(getattr(value, field.name))


def source_hash(kind: type) -> str:
    """A hash of a class's source; of its compiled methods where no source can be read."""
    try:
        text = inspect.getsource(kind)
    except (OSError, TypeError):
        text = _of_methods(kind)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def _of_methods(kind: type) -> str:
    """The sources of a class's methods, or their code, with its plain attributes."""
    parts = []
    for name, value in sorted(vars(kind).items()):
        function = getattr(value, "__func__", getattr(value, "fget", value))
        code = getattr(function, "__code__", None)
        if isinstance(code, CodeType):
            try:
                parts.append(inspect.getsource(code))
            except (OSError, TypeError):
                parts.append(f"{name}: {_code(code)}")
        elif isinstance(value, bool | int | float | str | tuple) and not name.startswith("__"):
            parts.append(f"{name} = {value!r}")
    return "\n".join(parts)


def _code(code: CodeType) -> str:
    consts = [_code(x) if isinstance(x, CodeType) else repr(x) for x in code.co_consts]
    return f"{code.co_code.hex()} {consts} {code.co_names}"
