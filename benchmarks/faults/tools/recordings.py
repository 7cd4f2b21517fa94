"""cellbridge, where the candidate runs elsewhere: recorded by hooks in float32, and judged as a recording.

`judge` compares two recordings, and `against` the recording with the living reference. Pairs in train mode are left
out: random draws of another process can't be replayed.
"""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from cellbridge import parity
from cellbridge.parity.checking.recordings.recording import Recording, open_recording
from cellbridge.parity.sides.records import OUTPUT, OUTPUT_GRADIENT, Key
from cellbridge.recorder import Recorder
from cellbridge.runtime.errors import CellbridgeError
from fixtures.planted_faults.pairs import Pair

from .cellbridge_tool import MAX_SAID, finding_of
from .finding import Finding


def judge(pair: Pair) -> Finding | None:
    """Judge two recordings; None unless both sides are torch modules in eval mode."""
    return _finding(pair, living=False)


def against(pair: Pair) -> Finding | None:
    """Compare a recording with the living reference; None unless both sides are torch modules in eval mode."""
    return _finding(pair, living=True)


def _finding(pair: Pair, *, living: bool) -> Finding | None:
    modules = isinstance(pair.reference, nn.Module) and isinstance(pair.candidate, nn.Module)
    if not modules or pair.train or pair.scripts is not None or pair.command is not None:
        return None
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reference, candidate = Path(folder) / "ref.rec", Path(folder) / "other.rec"
        try:
            parity.record(pair.reference, pair.args, reference)
            _record(pair, candidate, open_recording(reference))
            if living:
                return finding_of(parity.compare(pair.reference, candidate, pair.args))
            return finding_of(parity.judge(reference, candidate))
        except CellbridgeError as error:
            return Finding(False, error=f"usage error: {error}"[:MAX_SAID])
        except (RuntimeError, IndexError, ValueError) as error:
            return Finding(True, None, said=f"raises: {error}"[:MAX_SAID])


def _record(pair: Pair, path: Path, reference: Recording) -> None:
    """Record the candidate, whose backward pass starts from the reference's gradients of the outputs."""
    records = reference.run("float64").records
    slots = records.slots.get(("", 0, OUTPUT), [])
    module: Any = pair.candidate
    modes = {inner: inner.training for inner in module.modules()}
    module.eval()
    try:
        with Recorder(path) as recorder, recorder.torch(module):
            args = pytree.tree_map_only(torch.Tensor, _fresh, pair.args)
            outputs = [leaf for leaf in pytree.tree_leaves(module(*args)) if isinstance(leaf, torch.Tensor)]
            roots, gradients = [], []
            for output, slot in zip(outputs, slots, strict=False):
                gradient = records.values.get(Key("", 0, OUTPUT_GRADIENT, slot))
                if gradient is not None and output.requires_grad and gradient.shape == tuple(output.shape):
                    roots.append(output)
                    gradients.append(torch.from_numpy(gradient.copy()).to(output.dtype))
            if roots:
                torch.autograd.backward(roots, gradients)
    finally:
        module.zero_grad()
        for inner, mode in modes.items():
            inner.training = mode


def _fresh(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().clone().requires_grad_(tensor.is_floating_point())
