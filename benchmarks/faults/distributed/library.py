"""A network made parallel by torch's own means."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

DDP = nn.parallel.DistributedDataParallel


def model() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 3))


def inputs() -> tuple[Tensor, ...]:
    return (torch.randn(6, 6),)


def loss(outputs: Tensor) -> Tensor:
    return outputs.square().mean()


def summed(state: Any, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
    """A communication hook of DDP that forgets to divide."""
    return dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(lambda done: done.value()[0])


def shard(module: nn.Module, mesh: Any) -> nn.Module:
    fully_shard(module[0], mesh=mesh)
    return fully_shard(module)


def split(module: nn.Module, mesh: Any) -> nn.Module:
    first, last = ColwiseParallel(output_layouts=Replicate()), RowwiseParallel(input_layouts=Replicate())
    return parallelize_module(module, mesh, {"0": first, "3": last})


def parallelize(module: nn.Module, mesh: Any) -> nn.Module:
    return DDP(module)
