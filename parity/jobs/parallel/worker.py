"""What each process does: it makes the parallel network, runs it on its part of the inputs, and records that."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.utils import _pytree as pytree

from ....converter.dtypes import is_inexact
from ....recorder import Recorder
from ....runtime.errors import CellbridgeError, UsageError
from ...inputs.model_file import ModelFile, load
from ...sides.kinds import Kind
from ...sides.opening import kind_of
from ...sides.precision import default_dtype
from ...support.user_code import report_user_errors
from ..training.loss_network import mean_square
from ..training.training_config import TrainingConfig
from .dropout import dropouts, record_dropped

RECORDED, STORE = "recorded", "store"
LONGEST_WAIT = timedelta(minutes=5)
"""How long a process waits for the others: where one of them doesn't take part in a reduction, it would be for ever."""


@dataclass(frozen=True)
class Job:
    """What the processes do.

    Attributes:
        model: the model file, as the user named it.
        seed: seed of torch's random numbers.
        ranks: number of processes.
        folder: where they meet, and where each writes.
        dtype: working dtype; they run in float64 too.
        train: whether the network is in train mode.
        training: steps of training; None for one call forward and backward.
    """

    model: str
    seed: int
    ranks: int
    folder: str
    dtype: str
    train: bool
    training: TrainingConfig | None = None


def work(rank: int, job: Job) -> None:
    """Run one process; an error of the model is written to a file."""
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{job.folder}/{STORE}", rank=rank, world_size=job.ranks, timeout=LONGEST_WAIT
    )
    try:
        _record(rank, job)
    except CellbridgeError as error:
        (Path(job.folder) / f"error-{rank}").write_text(str(error), encoding="utf-8")
        os._exit(error.exit_code)  # the others wait for this process, and its end ends them
    dist.barrier()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # everything is written; gloo's threads may abort a process that takes them down


def _record(rank: int, job: Job) -> None:
    path = Path(job.folder) / RECORDED
    mode = "train" if job.train else "eval"
    with Recorder(path, model=job.model, framework="torch", dtype=job.dtype, mode=mode, seed=job.seed) as recorder:
        for dtype in dict.fromkeys(["float64", job.dtype]):
            torch_dtype = torch.float64 if dtype == "float64" else torch.float32
            with recorder.run(dtype), default_dtype(torch_dtype):
                _run(rank, job, recorder, torch_dtype)


def _run(rank: int, job: Job, recorder: Recorder, dtype: torch.dtype) -> None:
    """Run the network in one dtype: once, or for some steps of training."""
    with default_dtype(torch.float32):
        user_file = load(job.model, job.seed)
    module = user_file.module.to(dtype).train(job.train)
    for dropout in dropouts(module).values():
        dropout.eval()  # no other process draws the numbers that one process draws
    for name, parameter in module.named_parameters():
        if job.training is not None and job.training.is_frozen(name):
            parameter.requires_grad_(False)
    parallel, splits = parallelize(user_file, module, job.ranks)
    arguments = split((user_file.args, user_file.kwargs), rank, job.ranks if splits else 1, user_file.name)
    args, kwargs = pytree.tree_map_only(torch.Tensor, lambda x: _leaf(x, dtype), arguments)
    loss = user_file.loss or mean_square
    steps = 1 if job.training is None else job.training.steps
    parameters = [parameter for parameter in parallel.parameters() if parameter.requires_grad]
    optimizer = None if job.training is None else job.training.make_optimizer(torch.optim, parameters)
    for _ in range(steps):
        parallel.zero_grad()
        with (
            recorder.torch(parallel),
            report_user_errors(user_file.name, f"when the parallel model ran, in rank {rank}"),
        ):
            loss(parallel(*args, **kwargs)).backward()
        if optimizer is not None and job.training is not None:
            if job.training.clip_norm is not None:
                _clip(user_file, parallel, parameters, job.training.clip_norm, rank)
            optimizer.step()
            recorder.step()
    if job.train and splits and dtype == torch.float32:
        with report_user_errors(user_file.name, f"when the parallel model ran, in rank {rank}"):
            record_dropped(parallel, args, kwargs, Path(job.folder) / f"dropped-{rank}")
    if optimizer is not None:
        for name, parameter in parallel.named_parameters():
            recorder.parameter(name.removeprefix("module."), parameter)


def _clip(
    user_file: ModelFile, parallel: torch.nn.Module, parameters: list[torch.nn.Parameter], norm: float, rank: int
) -> None:
    """Clip the gradients, as the model file does if it says how."""
    if user_file.clip_gradients is None:
        torch.nn.utils.clip_grad_norm_(parameters, norm)
        return
    with report_user_errors(user_file.name, f"when clip_gradients(module, max_norm) was called, in rank {rank}"):
        user_file.clip_gradients(parallel, norm)


def _leaf(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return tensor.detach().to(dtype).requires_grad_() if is_inexact(tensor) else tensor.detach()


def require_parallelize(user_file: ModelFile) -> Callable[..., Any]:
    """Return the file's function `parallelize`; raise `UsageError` if there is none."""
    if user_file.parallelize is None:
        raise UsageError(
            f"{user_file.name} defines no parallelize(module, mesh), which --ranks needs: it returns the network in "
            "DistributedDataParallel, by fully_shard or by parallelize_module"
        )
    return user_file.parallelize


def parallelize(user_file: ModelFile, module: torch.nn.Module, ranks: int) -> tuple[torch.nn.Module, bool]:
    """Return the parallel network, and whether each process gets a part of the batch.

    Raises:
        UsageError: the file defines no `parallelize`, or it returns something else.
    """
    function = require_parallelize(user_file)
    mesh = init_device_mesh("cpu", (ranks,))
    with report_user_errors(user_file.name, "when parallelize(module, mesh) was called"):
        result = function(module, mesh)
    parallel = module if result is None else result
    if kind_of(parallel) is not Kind.MODULE:
        raise UsageError(
            f"{user_file.name}: parallelize(module, mesh) must return an nn.Module; it returned "
            f"{type(parallel).__name__}"
        )
    if user_file.splits_batch is not None:
        return parallel, user_file.splits_batch
    kinds = {name for part in parallel.modules() for name in (kind.__name__ for kind in type(part).__mro__)}
    return parallel, bool(kinds & {"DistributedDataParallel", "FSDPModule", "FullyShardedDataParallel"})


def split(arguments: Any, rank: int, parts: int, label: str) -> Any:
    """Return a process's part of the batch: of each tensor with as many rows as the first, an equal share of them.

    Raises:
        UsageError: the rows can't be shared equally.
    """
    tensors = [leaf for leaf in pytree.tree_leaves(arguments) if isinstance(leaf, torch.Tensor) and leaf.ndim]
    if parts == 1 or not tensors:
        return arguments
    rows = len(tensors[0])
    if rows % parts:
        raise UsageError(
            f"{label}: the batch of {rows} can't be split into {parts} equal parts: give inputs() a batch that is a "
            f"multiple of {parts}"
        )

    def part(tensor: torch.Tensor) -> torch.Tensor:
        share = rows // parts
        return tensor[rank * share : (rank + 1) * share] if tensor.ndim and len(tensor) == rows else tensor

    return pytree.tree_map_only(torch.Tensor, part, arguments)
