"""Recordings of several processes: DDP, and FSDP, whose parameters are put together from their parts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest
import torch
from torch import nn

from cellbridge import parity
from cellbridge.parity.checking.recordings.recording import open_recording
from cellbridge.runtime.errors import UsageError

SCRIPT = """
import os, sys, torch, torch.distributed as dist
from torch import nn
from cellbridge.recorder import Recorder

dist.init_process_group("gloo")
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))
x = torch.randn(4, 8, generator=torch.Generator().manual_seed(1))
for kind in ("ddp", "fsdp"):
    if kind == "ddp":
        model = nn.parallel.DistributedDataParallel(net)
    else:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        net.zero_grad()
        mesh = init_device_mesh("cpu", (2,))
        for layer in net:
            if isinstance(layer, nn.Linear):
                fully_shard(layer, mesh=mesh)
        model = fully_shard(net, mesh=mesh)
    with Recorder(sys.argv[1] + "/" + kind) as recorder, recorder.torch(model):
        model(x).square().mean().backward()
dist.barrier()
os._exit(0)  # taking gloo's threads down may abort a process
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recordings of one process, of two with the same parameters, and of two that share them."""
    folder = tmp_path_factory.mktemp("processes")
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))
    x = torch.randn(4, 8, generator=torch.Generator().manual_seed(1))
    parity.record(net, (x,), folder / "alone", loss=lambda y: y.square().mean())
    (folder / "script.py").write_text(SCRIPT)
    run = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*run, str(folder / "script.py"), str(folder)], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "returned a view tensor" not in done.stderr
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.every(3)
def test_each_process_agrees_with_the_network_alone(folder: Path, kind: str, rank: int) -> None:
    report = parity.judge(folder / "alone", folder / kind / f"rank-{rank}")
    assert report.ok, str(report)
    compared_tensors = {(c.kind, c.tensor) for cell in report.cells.values() for c in cell.comparisons}
    assert {
        ("parameter", "0.weight"),
        ("parameter gradient", "2.bias"),
        ("input gradient", "input"),
    } <= compared_tensors


@pytest.mark.slow
def test_the_folder_around_them_names_one(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"a recording of 2 processes: give the folder of one, .*rank-0"):
        parity.judge(folder / "alone", folder / "ddp")


@pytest.mark.slow
def test_a_wrong_placement_is_refused(folder: Path, tmp_path: Path) -> None:
    for rank in (0, 1):
        (tmp_path / f"rank-{rank}").mkdir()
        for file in (folder / "fsdp" / f"rank-{rank}").iterdir():
            (tmp_path / f"rank-{rank}" / file.name).write_bytes(file.read_bytes())
    index = tmp_path / "rank-0" / "recording.json"
    data = json.loads(index.read_text())
    sharded = next(entry for entry in data["tensors"] if "placement" in entry)
    sharded["placement"]["placements"] = ["P(sum)"]
    index.write_text(json.dumps(data))
    with pytest.raises(UsageError, match=r"needed one placement on a mesh of one axis, S\(AXIS\) or R"):
        parity.judge(folder / "alone", tmp_path / "rank-0")


def test_memory_does_not_grow_with_the_number_of_processes_that_a_file_claims(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "rank-0").mkdir()
    for file in (folder / "fsdp" / "rank-0").iterdir():
        (tmp_path / "rank-0" / file.name).write_bytes(file.read_bytes())
    index = tmp_path / "rank-0" / "recording.json"
    data = json.loads(index.read_text())
    index.write_text(json.dumps(data | {"ranks": 100_000}))
    recording = open_recording(tmp_path / "rank-0")
    tracemalloc.start()
    with pytest.raises(UsageError, match="rank-1"):
        _ = recording.processes
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5e6
