"""Compile the engine's program for an NVIDIA H200, without one: `make gpu-program`.

It needs the CUDA plugin (`pip install -e ".[cuda13]"`, three gigabytes) and no GPU.
Nothing runs, so nothing is timed but the compiler. The table says what one step of all
lanes is made of, and what one call of `choose` is where a rule has both:

- nodes: kernels + library calls + copies, without those in loops of a step. Of a
  conditional its larger branch counts.
- loops: the nodes of one pass of each loop in it.
- outside: launches by the host that are in no CUDA graph; graphs: launches of graphs.
- MB: what its instructions read and write, from their shapes. temp, state: MiB.
- estimate: us, of 6 a graph, 1.3 a node, 2.5 a launch outside, and the bytes at
  4.8 TB/s. No device has checked it. The passes of loops are not in it.
- s: seconds to trace and compile.
"""

import dataclasses
import os
import sys
import tempfile
import time
from pathlib import Path

# A program from a cache would leave nothing to read.
os.environ.update(
    JAX_PLATFORMS="cpu", CUDA_VISIBLE_DEVICES="-1", JAX_ENABLE_COMPILATION_CACHE="false"
)

import tyro

from benchmarks import rules, thunks
from benchmarks.calls import arguments, planned
from benchmarks.cases import Case
from benchmarks.gpu import seconds
from benchmarks.report import Sitting, described
from jaxelim.simulation.results.result import aligned

TARGET = Path(__file__).with_name("h200.txtpb")
# The search for the fastest matrix product wants a device, and so do Triton's. Nothing runs, so
# that nobody needs fast kernels.
COMPILER = {
    "xla_gpu_enable_triton_gemm": False,
    "xla_gpu_autotune_level": 0,
    "xla_gpu_disable_gpuasm_optimizations": True,
    "xla_llvm_disable_expensive_passes": True,
}


@dataclasses.dataclass(frozen=True)
class Options:
    """Count what a step is made of on an H200."""

    rows: tuple[str, ...] = ("lingape", "lucb", "lingame", "lazy-tas", "fws", "tas")
    """Names of rules; "all" for every rule."""
    problems: tuple[str, ...] = ("best-arm",)
    """Problems: best-arm, top-m, thresholding."""
    instances: tuple[str, ...] = ()
    """Parts of the instances' names; by default the first that a rule is defined on."""
    precisions: tuple[str, ...] = ("float64",)
    """float64, float32."""
    lanes: int = 8192
    """Lanes; counts hardly depend on it."""
    xla: tuple[str, ...] = ()
    """Options of XLA, NAME=VALUE, over those that the engine sets."""
    keep: Path | None = None
    """Folder for the thunk sequence and the optimised program of every row."""


def cases(options: Options) -> list[Case]:
    """The cases, with elimination at stopping, or the rule's own test."""
    wanted = () if "all" in options.rows else options.rows
    found = rules.cases(Sitting(quick=True, core=None, cores=1, anchor=None, rows=wanted))
    found = [one for one in found if one.elimination is None and one.problem in options.problems]
    if options.instances:
        found = [one for one in found if any(word in one.instance for word in options.instances)]
    else:
        found = list({(one.rule, one.problem): one for one in reversed(found)}.values())[::-1]
    return [dataclasses.replace(one, runs=2 * options.lanes, lanes=options.lanes) for one in found]


def compiled(case: Case, precision: str, options: Options, folder: str):
    """The program of a case for an H200, and whether its rule has a fast form."""
    import jax
    import numpy as np
    from jax.experimental import topologies
    from jax.sharding import NamedSharding, PartitionSpec

    from jaxelim import engine, scope

    topology = topologies.get_topology_desc(
        platform="cuda", topology_name="1x1x1", topology="1x1x1", target_config=TARGET.read_text()
    )
    mesh = topologies.make_mesh(topology, (1,), ("device",))
    place = NamedSharding(mesh, PartitionSpec())
    given, settings = arguments(case)
    settings["engine"] = dataclasses.replace(settings["engine"], precision=precision)
    settings["stopping"] = settings["stopping"][:1]
    more = dict(one.split("=", 1) for one in options.xla)
    dump = {"xla_dump_to": folder, "xla_dump_hlo_as_text": True}
    with scope.engine():
        spec, inputs, queue = planned(given, settings, backend="gpu")
        program = engine.Program(spec)
        shape = lambda x: jax.ShapeDtypeStruct(np.shape(x), x.dtype, sharding=place)  # noqa: E731
        shapes = jax.tree.map(shape, (inputs, queue, program.empty(inputs, queue), np.int32(1)))
        advance = jax.jit(
            program.loop.advance, donate_argnums=(2,), out_shardings=place,
            compiler_options={**COMPILER, **engine.GRAPHS, **dump, **more},
        )  # fmt: skip
        made = advance.trace(*shapes).lower(lowering_platforms=("cuda",)).compile()
    return made, spec.rule.fast is not None


def parts(sequence: str, two_speeds: bool) -> dict[str, tuple[list[thunks.Thunk], bool]]:
    """The thunks of a step, and those of `choose`, each with whether they are in a graph."""
    advance, in_graph = next(thunks.loops(thunks.parsed(sequence)))

    def largest(found):
        return max(found, key=lambda one: thunks.weight([one[0]]))

    steps, in_graph = largest(list(thunks.loops(advance.parts["body"], in_graph)))
    if not two_speeds:
        return {"step": (steps.parts["body"], in_graph)}
    fast, *others = thunks.loops(steps.parts["body"], in_graph)
    found = {"step": (fast[0].parts["body"], fast[1])}
    if others:
        choose, in_graph = largest(others)
        found["choose"] = choose.parts["body"], in_graph
    return found


def row(part: str, held: list[thunks.Thunk], in_graph: bool, text: str) -> dict:
    """The figures of a step, or of a call of `choose`."""
    count, moved = thunks.counted(held, in_graph), thunks.traffic(text, thunks.names(held))
    estimate = seconds(count.graphs, count.nodes, count.outside, moved)
    called = count.called + sum((one.called for one in _every(count)), start=type(count.called)())
    return {
        "part": part,
        "nodes": f"{count.kernels} + {count.libraries} + {count.copies}",
        "conditionals": count.conditionals,
        "loops": " ".join(str(one.nodes) for one in _every(count)) or "-",
        "graphs": count.graphs,
        "outside": count.outside,
        "one block": count.one_block,
        "MB": f"{moved / 1e6:.0f}",
        "estimate": f"{1e6 * estimate:.0f}",
        "libraries": ", ".join(f"{n} {name}" for name, n in sorted(called.items())) or "-",
    }


def _every(count: thunks.Count) -> list[thunks.Count]:
    return [each for one in count.loops for each in (one, *_every(one))]


def measured(case: Case, precision: str, options: Options) -> list[dict]:
    """The rows of one program."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="jaxelim-gpu-") as folder:
        program, two_speeds = compiled(case, precision, options, folder)
        took = time.perf_counter() - began
        # The longest is that after XLA's passes over thunks, where these changed it.
        dumped = [path.read_text() for path in Path(folder).glob("*advance*thunk_sequence*")]
    sequence, text = max(dumped, key=len), program.as_text()
    if options.keep is not None:
        options.keep.mkdir(parents=True, exist_ok=True)
        name = f"{case.rule}-{case.problem}-{case.instance}-{precision}"
        (options.keep / f"{name}.thunks.txt").write_text(sequence)
        (options.keep / f"{name}.hlo.txt").write_text(text)
    memory = program.memory_analysis()
    whole = {
        "state": f"{memory.argument_size_in_bytes / 2**20:.0f}",
        "temp": f"{memory.temp_size_in_bytes / 2**20:.0f}",
        "s": f"{took:.0f}",
    }
    known = {"rule": case.rule, "problem": described(case), "instance": case.instance}
    if len(options.precisions) > 1:
        known["precision"] = precision
    found = parts(sequence, two_speeds)
    return [{**known, **row(part, *held, text), **whole} for part, held in found.items()]


def main(options: Options) -> int:
    """Compile and print each row, then the table; the exit code is 1 if one does not compile."""
    import jax

    table, failed = [], []
    for case in cases(options):
        for precision in options.precisions:
            name = f"{case.rule}, {described(case)}, {case.instance}, {precision}"
            try:
                found = measured(case, precision, options)
            except Exception as error:  # the other rows go on
                failed.append(f"{name}: {type(error).__name__}: {str(error).splitlines()[0]}")
                print(f"  {failed[-1]}", flush=True)
                continue
            table += found
            said = "; ".join(f"{one['part']} {one['nodes']}" for one in found)
            print(f"  {name}: {found[0]['s']} s to compile; {said}", flush=True)
            jax.clear_caches()
    print(f"\n{options.lanes} lanes; compiled for an H200 that is not here: nothing was timed")
    print("\n".join(aligned(table)))
    print("\n".join(f"does not compile: {one}" for one in failed))
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(tyro.cli(Options, description=__doc__)))
