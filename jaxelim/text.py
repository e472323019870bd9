"""Text is repr: `parse` reads "TopM(m=3)", and `text_of` writes what it reads.

Files, stores, the command line and TOML files all have this one form. Nothing is executed
but the constructors of the classes that are named.
"""

import ast
import dataclasses
import importlib
import inspect
import math
import re
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxelim.errors import ArgumentError, unknown_name

_CONSTANTS = {"none": None, "true": True, "false": False, "inf": math.inf, "nan": math.nan}
_ALLOWED = "a name or a call, such as TopM(m=3)"
_OWN = re.compile(r"^([A-Za-z_][\w.]*):(?=[A-Za-z_])")


class NotHere(Exception):
    """A text that names a class or a function outside jaxelim."""


class Text(str):
    """The text of a part of a loaded result that is not jaxelim's own and was not passed.

    `description` is its text in the file.
    """

    description: str
    name: str = ""  # of a stopping rule
    eliminates: bool = False
    answer_axis: str | None = None  # of a problem
    times_axes: tuple[str, ...] = ()

    def __new__(cls, text: str, description: str = "", **attributes: Any) -> Any:
        made = super().__new__(cls, text)
        vars(made).update(attributes, description=description)
        return made

    def __getnewargs__(self) -> tuple[str, str]:
        return str(self), self.description

    def __repr__(self) -> str:
        return str(self)


def parse(
    text: Any, argument: str, known: Mapping[str, Any], inner: Mapping[str, Any] | None = None,
    files: bool = False,
) -> Any:  # fmt: skip
    """The value of a text: a number, a string, a tuple, or what a named class makes.

    Upper case, hyphens and underscores of a name do not count: "top-m(3)" is "TopM(3)". A name
    without parentheses is a call without arguments.

    Args:
        argument: its name, for messages.
        known: classes and functions by name, of which the text has one; `inner`: further names,
            of what is within the parentheses.
        files: whether the text is of a file: then nothing outside `known` is imported.
    """
    allowed = _ALLOWED if files else f"{_ALLOWED}; of one's own module:Class(..)"
    if not isinstance(text, str):
        raise ArgumentError(argument, text, allowed)
    body = _OWN.sub(r"\1.", text.strip(), count=1)
    head = re.match(r"[A-Za-z][\w-]*(?![\w.])", body)
    if head is not None:
        body = head[0].replace("-", "_") + body[head.end() :]
    try:
        tree = ast.parse(body, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ArgumentError(argument, text, allowed) from None
    names = {_plain(name): thing for name, thing in {**(inner or {}), **known}.items()}
    outer = tree.func if isinstance(tree, ast.Call) else tree
    if isinstance(outer, ast.Name) and not files:
        thing = names.get(_plain(outer.id), _CONSTANTS)
        if thing not in known.values() and _plain(outer.id) not in _CONSTANTS:
            raise unknown_name(argument, head[0] if head else text, known)

    def value(node: Any) -> Any:
        match node:
            case ast.Constant():
                return node.value
            case ast.UnaryOp(ast.USub(), ast.Constant(int() | float()) | ast.Name("inf")):
                return -value(node.operand)
            case ast.Tuple():
                return tuple(map(value, node.elts))
            case ast.List():
                return list(map(value, node.elts))
            case ast.Dict() if None not in node.keys:
                return dict(zip(map(value, node.keys), map(value, node.values), strict=True))
            case ast.Name() if _plain(node.id) in _CONSTANTS:
                return _CONSTANTS[_plain(node.id)]
            case ast.Name() | ast.Attribute():
                thing = named(node)
                made = isinstance(thing, type) or isinstance(node, ast.Name)
                return called(thing, ast.unparse(node)) if made else thing
            case ast.Call() if all(one.arg for one in node.keywords):
                given = {str(one.arg): value(one.value) for one in node.keywords}
                return called(named(node.func), ast.unparse(node.func), *map(value, node.args),
                              **given)  # fmt: skip
        raise ArgumentError(argument, text, allowed)

    def named(node: ast.AST) -> Any:
        name = ast.unparse(node)
        bare = isinstance(node, ast.Name)
        if bare and (thing := names.get(_plain(name))) is not None:
            return thing
        if name == "array":
            return _array
        if not re.fullmatch(r"[\w.]+", name):
            raise ArgumentError(argument, text, allowed)
        if files:
            raise NotHere(name)
        if bare:
            raise unknown_name(argument, name, names)
        module, _, last = name.rpartition(".")
        try:
            return getattr(importlib.import_module(module), last)
        except (ImportError, AttributeError) as error:
            own = "module:Class(..), of a module that Python finds from here and a class in it"
            raise ArgumentError(argument, text, own, str(error)) from error

    def called(thing: Any, name: str, *given: Any, **settings: Any) -> Any:
        signature = inspect.signature(thing)
        parameters = signature.parameters
        for setting in settings:
            if setting not in parameters:
                raise unknown_name("setting", setting, parameters)
        try:
            signature.bind(*given, **settings)
        except TypeError as error:
            allowed = f"{name}({', '.join(map(str, parameters))})"
            raise ArgumentError(argument, text, allowed, str(error)) from None
        return thing(*given, **settings)

    return value(tree)


def _plain(name: str) -> str:
    """A name without case, hyphens and underscores."""
    return name.replace("-", "").replace("_", "").lower()


def _array(entries: list, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """An array, as `text_of` writes it."""
    return np.array(entries, dtype).reshape(shape)


def text_of(argument: str, value: Any) -> str:
    """The text that `parse` reads as an equal value; fields at their defaults are left out."""
    text = lambda entry: text_of(argument, entry)  # noqa: E731
    if isinstance(value, Text):
        return value.description
    if isinstance(value, np.number | np.bool_):
        value = value.item()
    if value is None or isinstance(value, bool | str | int | float):
        return repr(value)
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return f"array({text(value.ravel().tolist())}, {value.dtype.name!r}, {value.shape})"
    if isinstance(value, list):
        return f"[{', '.join(map(text, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(text, value))}{',' * (len(value) == 1)})"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{text(key)}: {text(one)}' for key, one in value.items())}}}"
    kind = type(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        settings = []
        for field in filter(lambda field: field.init, dataclasses.fields(value)):
            own = getattr(value, field.name)
            if not (type(own) is type(field.default) and own == field.default):
                settings.append(f"{field.name}={text(own)}")
        return f"{name_of(kind)}({', '.join(settings)})"
    if callable(value) and _defined(value):
        return f"{value.__module__}.{value.__qualname__}"
    if not isinstance(value, type) and not callable(value) and getattr(value, "__dict__", 1) == {}:
        return f"{name_of(kind)}()"
    allowed = "what a file can name: a frozen dataclass, also one with __call__, or a function "
    raise ArgumentError(argument, value, allowed + "that a module defines; not a lambda")


def name_of(kind: Any) -> str:
    """A class's name in texts: bare for jaxelim's own, so that moving a module changes none."""
    own = kind.__module__.startswith("jaxelim.")
    return kind.__qualname__ if own else f"{kind.__module__}.{kind.__qualname__}"


def _defined(value: Any) -> bool:
    """Whether a function's module has it under its name, as it has no lambda."""
    place: Any = sys.modules.get(getattr(value, "__module__", None) or "")
    for part in getattr(value, "__qualname__", "<").split("."):
        place = getattr(place, part, None)
    return place is value and not isinstance(value, type)
