"""Counts of what XLA:GPU issues, from its texts; compiling for a GPU needs its plugin."""

import pytest

from benchmarks import gpu, thunks

SEQUENCE = """\
000: kCopy  [source       | next=001 (1)] kCopy
001: kWhile [prev=000 (1) | sink        ]
condition:
    002: kCustomKernel [source | sink] loop_and_fusion grid: [1, 1, 1] threads: [1, 1, 1]
  body:
    003: kCommandBuffer [source | next=010 (1)]
        004: kCustomKernel [source | next=005 (1)] fusion_1 grid: [1, 1, 1] threads: [512, 1, 1]
        005: kConditional [prev=004 (1) | sink]
          false_branch:
            006: kCustomKernel [source | sink] fusion_2 grid: [64, 1, 1] threads: [128, 1, 1]
            007: kCublasLtMatmul [source | sink] kCublasLtMatmul
          true_branch:
            008: kCopy [source | sink] kCopy
    010: kWhile [prev=003 (1) | next=013 (1)]
condition:
        011: kCustomKernel [source | sink] compare grid: [1, 1, 1] threads: [1, 1, 1]
      body:
        012: kCustomKernel [source | sink] step grid: [64, 1, 1] threads: [128, 1, 1]
    013: kCholesky [prev=010 (1) | sink] kCholesky
"""
PROGRAM = """\
%taken (p.0: f64[8,4], p.1: s32[2]) -> f64[2,4] {
  %p.0 = f64[8,4]{1,0} parameter(0)
  %p.1 = s32[2]{0} parameter(1)
  ROOT %g = f64[2,4]{1,0} gather(%p.0, %p.1), offset_dims={1}
}

%body (p: (f64[8,4], s32[2])) -> (f64[8,4], s32[2]) {
  %p = (f64[8,4]{1,0}, s32[2]{0}) parameter(0)
  %x = f64[8,4]{1,0} get-tuple-element(%p), index=0
  %i = s32[2]{0} get-tuple-element(%p), index=1
  %fusion.1 = f64[2,4]{1,0} fusion(%x, %i), kind=kLoop, calls=%taken
  %copy.1 = s32[2]{0} copy(%i)
  ROOT %t = (f64[8,4]{1,0}, s32[2]{0}) tuple(%x, %copy.1)
}
"""


def test_what_one_pass_holds():
    """Of a conditional the larger branch; loops apart; launches in and outside of graphs."""
    (_, loop) = thunks.parsed(SEQUENCE)
    assert [one.kind for one in loop.parts["condition"]] == ["CustomKernel"]
    found = thunks.counted(loop.parts["body"], False)
    assert (found.kernels, found.libraries, found.copies, found.nodes) == (2, 2, 0, 4)
    assert (found.conditionals, found.graphs, found.outside, found.one_block) == (1, 1, 1, 1)
    assert found.called == {"CublasLtMatmul": 1, "Cholesky": 1}
    (inner,) = found.loops
    assert (inner.kernels, inner.outside) == (2, 2)
    assert [held for _, held in thunks.loops(loop.parts["body"])] == [False]
    assert thunks.names(loop.parts["body"]) >= {"fusion_1", "fusion_2"}
    assert "step" not in thunks.names(loop.parts["body"])
    assert thunks.weight([loop]) == 12


def test_bytes_are_those_that_are_read_and_written():
    """A gather reads what it takes, 2 rows of 32 bytes, and 2 indices of 4; a copy 8 of 8."""
    assert thunks.traffic(PROGRAM, {"fusion_1"}) == 64 + 8 + 64 + 16
    assert thunks.size("(f64[3,2]{1,0}, pred[7]{0}, s32[])") == 48 + 7 + 4


def test_the_estimate():
    assert gpu.seconds(1, 10, 2, 4.8e6) == pytest.approx(6e-6 + 13e-6 + 5e-6 + 1e-6)
