"""Passes that make an ONNX graph smaller without changing its results, one per file.

A pass takes the `Graph` and the names of the tensors that the model returns, and changes the graph in place. These
passes work across Cells; passes of the IR don't.
"""

from __future__ import annotations

from collections.abc import Callable

from ..graph import Graph
from ..onnx_node import live_nodes
from .cast_first import cast_first
from .compare_maxima import compare_maxima
from .flip_kernels import flip_kernels
from .fold import fold
from .fuse_batch_norm import fuse_batch_norm
from .fuse_gemm import fuse_gemm
from .fuse_rms_norm import fuse_rms_norm
from .match_ranks import match_ranks
from .merge_directions import merge_directions
from .scatter_maxima import scatter_maxima
from .select import select
from .share import share
from .simplify import simplify
from .split_reductions import split_reductions
from .unpool import unpool
from .winograd import winograd

Pass = Callable[[Graph, set[str]], None]
PASSES: tuple[Pass, ...] = (
    share, fold, cast_first, simplify, unpool, compare_maxima, winograd, flip_kernels, merge_directions, share,
    fuse_batch_norm, fuse_gemm, fuse_rms_norm, select, match_ranks, fold,
)  # fmt: skip


OF_DEVICE = {
    "cpu": PASSES,
    "cuda": (*(transform for transform in PASSES if transform is not compare_maxima), scatter_maxima, split_reductions),
}
"""The passes by the device that runs the model."""


def optimize(graph: Graph, results: list[str], transforms: tuple[Pass, ...] = PASSES) -> None:
    """Run passes in order; `results` are the tensors that the model returns."""
    for transform in transforms:
        returned = {graph.current(name) for name in results}
        graph.nodes = live_nodes(graph.nodes, returned)
        transform(graph, returned)
