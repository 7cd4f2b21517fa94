"""`TrainingRun`: a copy of a module that is trained in one dtype while its steps are recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from ....converter.capture.copying import copy_module
from ....converter.dtypes import as_tensor, torch_dtype
from ....converter.structure.program_names import named_buffers, named_parameters
from ....runtime.errors import UsageError
from ....runtime.ir.types import as_dtype
from ....runtime.programs.call import as_array
from ...options import Options
from ...sides.precision import WorkingDtypeCaster
from ...sides.records import Records
from ...sides.side import ParameterInfo
from ...sides.torch_side import TorchSide
from ..training.loss_network import mean_square
from ..training.torch_steps import Batch
from ..training.training_config import TrainingConfig


class TrainingRun:
    """A training run: a copy of the module, with its optimizer.

    In float64, parameters stay in float64 from step to step; in half precision they stay in the module's own dtype.

    Args:
        module: the module, which is left as it is.
        dtype: the dtype to compute in.
        batches: the inputs of each step.
        options: mode, loss, working dtype and seed.
        config: the optimizer and its settings.

    Raises:
        UsageError: the module has nothing to train.
    """

    def __init__(
        self, module: torch.nn.Module, dtype: str, batches: Sequence[Batch], options: Options, config: TrainingConfig
    ) -> None:
        self.dtype, self.batches, self.config = dtype, batches, config
        self.options = replace(options, loss=options.loss or mean_square)
        self.module = copy_module(module)
        self.exact = dtype == "float64"
        if self.exact:
            self._widen()
        self.named = dict(named_parameters(self.module))
        for name, parameter in self.named.items():
            parameter.grad = None
            if config.is_frozen(name):
                parameter.requires_grad_(False)
        self.trained = [parameter for parameter in self.named.values() if parameter.requires_grad]
        if not self.trained:
            raise UsageError("there is nothing to train: the model has no parameter, or every one is frozen")
        self.optimizer: torch.optim.Optimizer = config.make_optimizer(torch.optim, self.trained)

    def _widen(self) -> None:
        """Convert what is in the module's own dtype to float64, by way of the working dtype."""
        working = WorkingDtypeCaster(self.module, torch_dtype(as_dtype(self.options.dtype)))
        for _, parameter in named_parameters(self.module):
            parameter.data = working(parameter.data, torch.float64)
        for inner in self.module.modules():
            for name, buffer in inner._buffers.items():
                if buffer is not None:
                    inner._buffers[name] = working(buffer, torch.float64)

    def side(self, step: int) -> TorchSide:
        """Return the module as it is before a step, as a side that runs on the step's batch."""
        options = replace(self.options, seed=self.options.seed + step)
        return TorchSide.of_options("torch", self.module, *self.batches[step], options, rounds=not self.exact)

    def update(self, records: Records) -> None:
        """Make the update of a step from the gradients and buffers that were recorded in it."""
        for name, parameter in self.named.items():
            gradient = records.gradients.parameters.get(name)
            if parameter.requires_grad and gradient is not None:
                parameter.grad = as_tensor(gradient).to(parameter.dtype)
            else:
                parameter.grad = None
        if self.config.clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(self.trained, self.config.clip_norm)
        self.optimizer.step()
        with torch.no_grad():
            for name, buffer in named_buffers(self.module):
                if name in records.state.updates:
                    buffer.copy_(as_tensor(records.state.updates[name]))

    def parameters(self) -> dict[str, ParameterInfo]:
        """Return the parameters as they are now, in the dtype that is computed in."""
        working = WorkingDtypeCaster(self.module, torch_dtype(as_dtype(self.dtype)))
        return {name: ParameterInfo(as_array(working(p.detach())), p.requires_grad) for name, p in self.named.items()}
