"""Checks of a class of settings: its repr and its docstring."""

import dataclasses
import re
from typing import Any

from jaxelim import problems, thresholds
from jaxelim import rules as sampling
from jaxelim.testing.report import ContractError, require


def check_repr(thing: Any) -> str:
    import jaxelim

    names = {
        **vars(thresholds),
        **vars(problems),
        **vars(sampling),
        **vars(jaxelim),
        type(thing).__name__: type(thing),
    }
    try:
        back = eval(repr(thing), dict(names))
    except Exception as error:
        raise ContractError(
            f"repr does not evaluate back: {thing!r} raises {type(error).__name__}: {error}"
        ) from error
    require(
        back == thing and hash(back) == hash(thing),
        f"repr {thing!r} evaluates to something else, or hashes otherwise",
    )
    return "repr evaluates back"


def check_docstring(kind: type) -> str:
    doc = kind.__doc__ or ""
    require(doc.strip(), f"{kind.__name__} has no docstring")
    described = doc.split("Args:", 1)[1] if "Args:" in doc else ""
    described = re.split(r"^\s*(?:Raises|Returns|Examples?):", described, flags=re.M)[0]
    said = set(re.findall(r"^\s+(\w+): ", described, re.M))
    fields = {field.name for field in dataclasses.fields(kind) if field.init}
    require(
        said == fields,
        f"Args: in the docstring of {kind.__name__} describes {sorted(said)}, its fields are "
        f"{sorted(fields)}",
    )
    return "docstring arguments equal the signature"


def changed(rule: Any, **members: Any) -> Any:
    """The same rule, with other members of its class."""
    kind = type(rule)
    other = object.__new__(type(kind.__name__, (kind,), {**members, "__module__": kind.__module__}))
    vars(other).update(vars(rule))
    return other


def run_by_run(rule: Any) -> Any:
    """A rule that is lanes last, with its methods called for each run under `jax.vmap`."""
    return changed(rule, traits=dataclasses.replace(rule.traits, lanes_last=False))
