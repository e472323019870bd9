"""Read what XLA:GPU issues: its thunk sequence, and the bytes of the program's instructions."""

import collections
import dataclasses
import math
import re
from collections.abc import Iterator

KINDS = {"Kernel": "kernel", "CustomKernel": "kernel", "Copy": "copy", "Memset32BitValue": "copy",
         "MemzeroThunk": "copy", "Memzero": "copy", "DeviceToDeviceCopy": "copy",
         "Conditional": "conditional", "While": "loop", "CommandBuffer": "graph"}  # fmt: skip
"""What a kind of thunk counts as; any other is a call of a library."""
GROUPS = frozenset({"Sequential", "AsyncStart", "AsyncDone", "WaitForStreams"})
"""Thunks that only hold or order others."""
BYTES = {"f64": 8, "s64": 8, "u64": 8, "c64": 8, "f32": 4, "s32": 4, "u32": 4, "f16": 2, "bf16": 2,
         "s16": 2, "u16": 2, "s8": 1, "u8": 1, "pred": 1}  # fmt: skip
FREE = frozenset({"parameter", "get-tuple-element", "tuple", "bitcast", "constant", "while",
                  "conditional", "after-all"})  # fmt: skip
"""Instructions that move no bytes themselves."""


@dataclasses.dataclass
class Thunk:
    """One operation that the host issues, or a node of a CUDA graph."""

    kind: str
    text: str
    parts: dict[str, list["Thunk"]]  # body, condition, branches; "" for those of a graph

    @property
    def name(self) -> str:
        """The name of its kernel, as in the program but for the dots."""
        return self.text.partition(" ")[0]


def parsed(text: str) -> list[Thunk]:
    """The thunks of a dumped sequence, nested."""
    root = Thunk("", "", {})
    path, labels = [root], [""]
    for line in text.splitlines():
        if found := re.match(r"( *)\d+: k(\w+)\s*(?:\[.*?\])?\s*(.*)$", line):
            depth = len(found[1]) // 4
            del path[depth + 1 :], labels[depth + 1 :]
            one = Thunk(found[2], found[3], {})
            path[depth].parts.setdefault(labels[depth], []).append(one)
            path.append(one)
            labels.append("")
        elif found := re.match(r"( *)(\w+):\s*$", line):
            # The line "condition:" has no indentation; it follows its loop.
            depth = len(path) - 1 if found[2] == "condition" else len(found[1]) // 4 + 1
            del path[depth + 1 :], labels[depth + 1 :]
            labels[depth] = found[2]
    return root.parts.get("", [])


@dataclasses.dataclass
class Count:
    """What one pass through some thunks holds; of a conditional its larger branch."""

    kernels: int = 0
    libraries: int = 0
    copies: int = 0
    conditionals: int = 0
    graphs: int = 0  # launched by the host
    outside: int = 0  # other launches by the host
    one_block: int = 0  # kernels of one block of many threads: all lanes on one multiprocessor
    called: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    loops: list["Count"] = dataclasses.field(default_factory=list)  # a pass of each

    @property
    def nodes(self) -> int:
        """Kernels, library calls and copies, without those of the loops."""
        return self.kernels + self.libraries + self.copies

    def add(self, other: "Count") -> None:
        """Add the counts of what follows."""
        for one in dataclasses.fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))


def counted(thunks: list[Thunk], in_graph: bool) -> Count:
    """Count one pass through thunks that are in a graph, or not."""
    found = Count()
    for one in thunks:
        if one.kind in GROUPS:
            for part in one.parts.values():
                found.add(counted(part, in_graph))
            continue
        kind = KINDS.get(one.kind, "library")
        if kind == "graph":
            found.graphs += not in_graph
            found.add(counted(one.parts.get("", []), True))
            continue
        if kind == "loop":
            inner = [*one.parts.get("condition", []), *one.parts.get("body", [])]
            found.loops.append(counted(inner, in_graph))
            continue
        found.outside += not in_graph
        if kind == "conditional":
            found.conditionals += 1
            branches = [counted(part, in_graph) for part in one.parts.values()]
            found.add(max(branches, key=lambda b: b.nodes, default=Count()))
            continue
        found.kernels += kind == "kernel"
        found.copies += kind == "copy"
        found.libraries += kind == "library"
        found.one_block += "grid: [1, 1, 1]" in one.text and "threads: [1, 1, 1]" not in one.text
        if kind == "library":
            found.called[_library(one)] += 1
    return found


def _library(one: Thunk) -> str:
    target = re.search(r"(?:target|custom_call_target)[=:]\s*\"?([\w.$]+)", one.text)
    return target[1] if target else one.kind


def loops(thunks: list[Thunk], in_graph: bool = False) -> Iterator[tuple[Thunk, bool]]:
    """The outermost loops among thunks, each with whether it is in a graph."""
    for one in thunks:
        if one.kind == "While":
            yield one, in_graph
            continue
        for part in one.parts.values():
            yield from loops(part, in_graph or one.kind == "CommandBuffer")


def weight(thunks: list[Thunk]) -> int:
    """The number of thunks, nested ones included."""
    return sum(1 + sum(map(weight, one.parts.values())) for one in thunks)


def names(thunks: list[Thunk]) -> set[str]:
    """The names of the kernels of one pass, those of loops left out."""
    found = set()
    for one in thunks:
        if one.kind != "While":
            found |= {one.name} | set().union(*map(names, one.parts.values()))
    return found


@dataclasses.dataclass
class Instruction:
    """One instruction of the optimised program."""

    shape: str
    kind: str
    operands: list[str]
    line: str


def computations(text: str) -> dict[str, dict[str, Instruction]]:
    """The computations of a program's text, by name."""
    found: dict[str, dict[str, Instruction]] = {}
    current: dict[str, Instruction] | None = None
    for line in text.splitlines():
        if begun := re.match(r"(?:ENTRY )?%([\w.\-]+) .*\{$", line):
            current = found.setdefault(begun[1], {})
        elif line.startswith("}"):
            current = None
        elif current is not None and (
            one := re.match(
                r"\s+(?:ROOT )?%([\w.\-]+) = (.*?) ([\w\-]+)\((.*?)\)(?:, |$)", line
            )
        ):
            operands = re.findall(r"%([\w.\-]+)", one[4])
            current[one[1]] = Instruction(one[2], one[3], operands, line)
    return found


def size(shape: str) -> int:
    """Bytes of a shape as XLA writes it; without the scratch of a library, an array of s8."""
    shape = re.sub(r"s8\[\d{6,}\]", "", shape)
    arrays = re.findall(r"(\w+)\[([\d,]*)\]", shape)
    return sum(
        BYTES.get(kind, 0) * math.prod(int(n) for n in each.split(",") if n)
        for kind, each in arrays
    )


def traffic(text: str, kernels: set[str]) -> int:
    """Bytes that the computation with most of these kernels reads and writes.

    Each operand counts once and whole, or by what is gathered or sliced from it.
    """
    found = computations(text)
    plain = lambda name: re.sub(r"\W", "_", name)  # noqa: E731
    body = max(found.values(), key=lambda c: sum(plain(name) in kernels for name in c))
    total = 0
    for one in body.values():
        if one.kind in FREE:
            continue
        callee = re.search(r"calls=%([\w.\-]+)", one.line)
        inside = found.get(callee[1], {}) if callee else {}
        total += size(one.shape)
        for place, operand in enumerate(one.operands):
            if operand in body:
                total += _read(inside, place, size(body[operand].shape))
    return total


def _read(inside: dict[str, Instruction], place: int, whole: int) -> int:
    """Bytes that a fusion reads of its operand at `place`, of `whole` bytes."""
    todo = [n for n, one in inside.items()
            if one.kind == "parameter" and f"parameter({place})" in one.line]  # fmt: skip
    if not todo:
        return whole
    taken = 0
    while todo:
        name = todo.pop()
        for user, one in inside.items():
            if name not in one.operands:
                continue
            if one.kind in ("bitcast", "reshape"):
                todo.append(user)
            elif one.kind in ("gather", "dynamic-slice", "slice") and one.operands[0] == name:
                taken += size(one.shape)
            else:
                return whole
    return min(taken, whole)
