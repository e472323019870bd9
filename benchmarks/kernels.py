"""Time of a step's kernels, by the library's function that each kernel comes from."""

import collections
import contextlib
import dataclasses
import gzip
import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.cases import CHUNK, whole_chunks
from benchmarks.processes import apart
from benchmarks.report import Section, Sitting, described
from benchmarks.targets import TARGETS

SHOWN = 12
CONTAINERS = (
    "while",
    "conditional",
    "call",
    "tuple",
    "parameter",
    "get-tuple-element",
    "constant",
    "bitcast",
)
"""Instructions that only contain others, or take no time."""


def of(given: tuple, settings: dict) -> dict:
    """Nanoseconds per computed sample and kernels per step of one call, by function.

    Runs must be equally long, one per lane. Steps are in many kernels, whatever the rule.
    """
    import jax

    import jaxelim as je

    instance, problem, rule = given
    given = instance, problem, rule
    options = jax.profiler.ProfileOptions()
    options.host_tracer_level, options.python_tracer_level = 3, 0
    with in_many_kernels(), tempfile.TemporaryDirectory(prefix="jaxelim-bench-") as folder:
        je.simulate(*given, **settings)
        with jax.profiler.trace(folder, profiler_options=options):
            result = je.simulate(*given, **settings)
        trace = json.loads(
            gzip.decompress(next(Path(folder).rglob("*.trace.json.gz")).read_bytes())
        )
    computed, lanes = result.timings["samples_computed"], result.layout["lanes"]
    with in_many_kernels():
        sources = functions(compiled_text(given, settings))
    spent: dict[str, float] = collections.Counter()
    times: dict[str, int] = collections.Counter()
    for source, took in by_source(trace["traceEvents"], sources):
        spent[source] += 1e3 * took / computed
        times[source] += 1
    return {
        "functions": [
            {"function": name, "ns/sample": ns, "kernels/step": times[name] * lanes / computed}
            for name, ns in sorted(spent.items(), key=lambda x: -x[1])
        ],
        "seconds": result.timings["seconds"],
        "computed": computed,
    }


def by_source(events: list[dict], sources: dict[str, str]) -> Iterator[tuple[str, float]]:
    """The function and the microseconds of each kernel that ran.

    On a GPU a kernel without a function, as of a library, has its own name. There the
    streams have kernels, and other rows of the profile repeat them.
    """
    names = {(e["pid"], e.get("tid") if e["name"] == "thread_name" else None): e["args"]["name"]
             for e in events if e.get("ph") == "M" and "_name" in e["name"]}  # fmt: skip
    for event in events:
        if event.get("ph") != "X":
            continue
        source = sources.get(event.get("args", {}).get("hlo_op", event["name"]))
        if "/device:GPU" in names.get((event["pid"], None), ""):
            of_stream = "Stream" in names.get((event["pid"], event["tid"]), "")
            source = (source or event["name"]) if of_stream else None
        if source is not None:
            yield source, event["dur"]


@contextlib.contextmanager
def in_many_kernels() -> Iterator[None]:
    """Compile steps into many kernels, and stay in many lanes, as without the attribute."""
    from jaxelim.engine.cpu import attribute

    works, attribute.works = attribute.works, lambda: False
    try:
        yield
    finally:
        attribute.works = works


def compiled_text(given: tuple, settings: dict) -> str:
    """The optimized program of the loop, as XLA prints it."""
    import numpy as np

    from benchmarks.calls import planned
    from jaxelim import engine, scope

    with scope.engine():
        spec, inputs, queue = planned(given, settings)
        program = engine.program(spec, inputs)
        placed = program.place(inputs, queue, program.empty(inputs, queue))
        return program.advance.jit.lower(*placed, np.int32(0)).compile().as_text()


def functions(text: str) -> dict[str, str]:
    """The library's function behind each kernel of a program, by the kernel's name.

    It is the innermost function of the kernel's stack frames, primitives of `LaneOps`
    excepted. A kernel without frames takes those of its computation's last operation.
    The fallback is the kernel's own name.
    """
    tables: dict[str, dict[int, Any]] = collections.defaultdict(dict)
    table = inside = ""
    kernels: dict[str, tuple[int, str]] = {}  # name: frame, called computation
    last: dict[str, int] = {}  # computation: frame of its last operation
    for line in text.splitlines():
        begun = re.match(r"(?:ENTRY )?%?([\w.\-]+) \(.*\{$", line)
        if line in ("FileNames", "FunctionNames", "FileLocations", "StackFrames"):
            table = line
        elif not line.strip():
            table = ""
        elif table:
            number, _, rest = line.partition(" ")
            tables[table][int(number)] = rest.strip('"') if "Names" in table else _fields(rest)
        elif begun:
            inside = begun.group(1)
        else:
            instruction = re.match(r"\s*(?:ROOT )?%?([\w.\-]+) = .*?[\]})] ([a-z][\w\-]*)\(", line)
            named = re.search(r"stack_frame_id=(\d+)", line)
            frame = int(named.group(1)) if named else 0
            if frame:
                last[inside] = frame
            if instruction is not None and instruction.group(2) not in CONTAINERS:
                called = re.search(r"calls=%?([\w.\-]+)", line)
                kernels[instruction.group(1)] = frame, called.group(1) if called else ""
    return {
        name: _function(tables, frame or last.get(called, 0)) or name
        for name, (frame, called) in kernels.items()
    }


def _fields(text: str) -> dict[str, int]:
    return {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", text)}


def _function(tables: dict, frame: int) -> str | None:
    """The innermost function of a stack that is in the library, but not in lanes.py or trees.py."""
    while frame in tables["StackFrames"]:
        entry = tables["StackFrames"][frame]
        place = tables["FileLocations"].get(entry["file_location_id"], {})
        file = Path(tables["FileNames"].get(place.get("file_name_id"), "?"))
        name = (
            tables["FunctionNames"]
            .get(place.get("function_name_id"), "?")
            .partition(".<locals>")[0]
        )
        if "jaxelim" in file.parts and file.name not in ("lanes.py", "trees.py"):
            return f"{name} ({file.name})"
        if entry.get("parent_frame_id") in (None, frame):
            return None
        frame = entry["parent_frame_id"]
    return None


def run(sitting: Sitting) -> Section:
    """Profile the targets' steps: for each a row of totals, then one per function."""
    section = Section(
        "Kernels: where a step's time goes, "
        "by the function that a kernel's last operation comes from"
    )
    chunks = 1 if sitting.quick else 4
    for name in sitting.rows or (("lingape",) if sitting.quick else TARGETS):
        if name not in TARGETS:
            continue
        case = dataclasses.replace(
            TARGETS[name].case, runs=64, max_samples=sitting.max_samples or whole_chunks(chunks)
        )

        def measure(case=case):
            return apart(case, dataclasses.replace(sitting.pinned(0), repeats=0, profile=True))

        def row(found, name=name, case=case):
            kernels = found["kernels"]
            return {
                "row": name,
                "problem": described(case),
                **_total(kernels["functions"]),
                "ns/sample, looked at": 1e9 * kernels["seconds"] / kernels["computed"],
            }

        found = section.attempt(name, measure, row)
        if found is not None:
            every = found["kernels"]["functions"]
            parts = [*every[:SHOWN], {"function": "all others", **_total(every[SHOWN:])}]
            whole = _total(every)["ns/sample"]
            section.rows += [
                {"of": name, **part, "share": part["ns/sample"] / whole} for part in parts
            ]
    section.notes.append(
        f"64 runs, {chunks} chunks of {CHUNK} steps; JAX's profiler times each kernel, "
        "which itself takes time. Steps that a call would have in one kernel are in many here."
    )
    return section


def _total(functions: list[dict]) -> dict[str, float]:
    return {key: sum(one[key] for one in functions) for key in ("ns/sample", "kernels/step")}
