"""A model file run on one process and on two, by torch alone.

    python -m benchmarks.faults.distributed_run FILE FOLDER eval|train

Parameters, their gradients, and outputs of which each process has all are written in float64 to `alone.npz`, `0.npz`
and `1.npz`.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.device_mesh import init_device_mesh

RANKS = 2


def run(rank: int, file: str, folder: str, mode: str) -> None:
    """Run one process; that of rank -1 is alone."""
    if rank < 0:
        _write(rank, file, folder, mode)
        return
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=RANKS)
    _write(rank, file, folder, mode)  # frees what it made before the group ends, without which DDP can't be freed
    dist.destroy_process_group()


def _write(rank: int, file: str, folder: str, mode: str) -> None:
    torch.manual_seed(0)
    names = runpy.run_path(file)
    module = names["model"]().train(mode == "train")
    (x,) = names["inputs"]()
    parallel, splits = module.double(), False
    if rank >= 0:
        parallel = names["parallelize"](module, init_device_mesh("cpu", (RANKS,))) or module
        splits = names.get("splits_batch", hasattr(parallel, "reshard") or hasattr(parallel, "no_sync"))
    part = x.double().chunk(RANKS)[rank] if splits else x.double()
    outputs = parallel(part)
    names.get("loss", lambda result: result.square().mean())(outputs).backward()
    values = {} if splits else {"output": outputs}
    for name, parameter in parallel.named_parameters():
        name = name.removeprefix("module.")
        values[name], values[f"gradient {name}"] = parameter, parameter.grad
    path = Path(folder) / ("alone.npz" if rank < 0 else f"{rank}.npz")
    np.savez(path, **{name: _array(value) for name, value in values.items() if value is not None})


def _array(value: Any) -> Any:
    whole = value.full_tensor() if hasattr(value, "full_tensor") else value
    return whole.detach().numpy()


if __name__ == "__main__":
    torch.set_num_threads(1)
    run(-1, *sys.argv[1:])
    mp.spawn(run, args=tuple(sys.argv[1:]), nprocs=RANKS)
