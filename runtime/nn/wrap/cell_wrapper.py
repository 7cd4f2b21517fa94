"""Cells that combine a network with its loss, its gradients and an optimizer."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from ... import checks
from ...common.dtype import float32
from ...common.parameter import ParameterTuple
from ...common.tensor import Tensor
from ...eager.gradients import GradOperation, value_and_grad
from ...ir.types import is_floating
from ...ops import elementwise
from ..cell import Cell
from ..layer.basic import Identity
from ..optim.optimizer import Optimizer
from .loss_scalers import scale_tensors


class WithLossCell(Cell):
    """A network with its loss: `loss_fn(backbone(data), label)`.

    Args:
        backbone: the network.
        loss_fn: a Cell or function of the network's output and the label.

    Inputs:
        data: input of the network.
        label: second input of the loss.

    Outputs:
        The loss.
    """

    def __init__(self, backbone: Cell, loss_fn: Callable[..., Any]) -> None:
        super().__init__(auto_prefix=False)
        self._backbone = backbone
        self._loss_fn = loss_fn

    @property
    def backbone_network(self) -> Cell:
        """The network."""
        return self._backbone

    def construct(self, data: Any, label: Any) -> Any:
        """The loss."""
        return self._loss_fn(self._backbone(data), label)


class WithEvalCell(Cell):
    """A network with its loss, for evaluation: `(loss, output, label)`.

    Args:
        network: the network.
        loss_fn: a Cell or function of the network's output and the label; None for no loss.
        add_cast_fp32: whether to cast the output, and a floating-point label, to float32 before the loss.

    Inputs:
        data: input of the network.
        label: second input of the loss.

    Outputs:
        The loss, the output of the network, and the label; without a loss, only the output and the label.

    Raises:
        TypeError: `add_cast_fp32` isn't a bool.
    """

    def __init__(self, network: Cell, loss_fn: Callable[..., Any] | None, add_cast_fp32: bool = False) -> None:
        super().__init__(auto_prefix=False)
        self._network = network
        self._loss_fn = loss_fn
        self.add_cast_fp32 = checks.of_type(add_cast_fp32, "add_cast_fp32", bool, of=self.cls_name)

    def construct(self, data: Any, label: Any) -> Any:
        """The loss, the output and the label."""
        output = self._network(data)
        if self.add_cast_fp32:
            output = elementwise.cast(output, dtype=float32)
            label = elementwise.cast(label, dtype=float32) if is_floating(label.dtype) else label
        return (self._loss_fn(output, label), output, label) if self._loss_fn else (output, label)


class WithGradCell(Cell):
    """The gradients of a network's trainable Parameters, in train mode.

    Args:
        network: the network; without a loss, its output is differentiated.
        loss_fn: a Cell or function of the network's output and the label.
        sens: the gradient of the output; ones if it is None.

    Inputs:
        *inputs: inputs of the network; with a loss, the data and the label.

    Outputs:
        A tuple of gradients.
    """

    def __init__(self, network: Cell, loss_fn: Callable[..., Any] | None = None, sens: Any = None) -> None:
        super().__init__(auto_prefix=False)
        self.network = network
        self.loss_fn = loss_fn
        self.weights = ParameterTuple(network.trainable_params())
        self.sens = sens
        self.network_with_loss = network if loss_fn is None else WithLossCell(network, loss_fn)
        self.network_with_loss.set_train()

    def construct(self, *inputs: Any) -> Any:
        """The gradients."""
        gradient = GradOperation(get_by_list=True, sens_param=self.sens is not None)(
            self.network_with_loss, self.weights
        )
        return gradient(*inputs) if self.sens is None else gradient(*inputs, self.sens)


class ForwardValueAndGrad(Cell):
    """The output of a network and its gradients.

    Args:
        network: a Cell or function.
        weights: Parameters; required with `get_by_list`.
        get_all: whether to compute the gradients of all inputs; otherwise only that of the first.
        get_by_list: whether to compute the gradients of the weights.
        sens_param: whether the last input is the gradient of the output.

    Inputs:
        *inputs: inputs of the network.

    Outputs:
        The output, and the gradients as `GradOperation` returns them.

    Raises:
        TypeError: a flag isn't a bool, `network` isn't callable, or `weights` are missing.
    """

    def __init__(
        self,
        network: Callable[..., Any],
        weights: Any = None,
        get_all: bool = False,
        get_by_list: bool = False,
        sens_param: bool = False,
    ) -> None:
        super().__init__(auto_prefix=False)
        if not callable(network):
            raise TypeError(f"For '{self.cls_name}', 'network' must be a Cell or function, but got {network!r}")
        if get_by_list and not isinstance(weights, (list, tuple)):
            raise TypeError(
                f"For '{self.cls_name}', get_by_list=True needs 'weights', a list or tuple of Parameters, but got "
                f"{type(weights).__name__}"
            )
        self.network = network
        self.weights = weights
        self.sens_param = sens_param
        self.grad = GradOperation(get_all, get_by_list, sens_param)
        if isinstance(network, Cell):
            network.set_grad()  # the gradient reuses the forward run of the output

    def construct(self, *inputs: Any) -> Any:
        """The output and the gradients."""
        output = self.network(*(inputs[:-1] if self.sens_param else inputs))
        return output, self.grad(self.network, self.weights)(*inputs)


class TrainOneStepCell(Cell):
    """A training step: forward pass, backward pass from the gradient `sens` of the loss, and the optimizer's update.

    It doesn't change the mode: call `set_train()` for the training behaviour of Dropout and BatchNorm.

    Args:
        network: the Cell that computes the loss, e.g. a `WithLossCell`.
        optimizer: updates its `parameters`; its `loss_scale` must equal `sens`, otherwise there is a warning.
        sens: the gradient of the loss, a number other than 0; 1 if it is None.
        return_grad: whether to also return the gradients that the optimizer gets.

    Inputs:
        *inputs: inputs of the network.

    Outputs:
        The unscaled loss; with `return_grad`, a pair of the loss and a dict of gradients by Parameter name.

    Attributes:
        weights: the Parameters of the optimizer.
        grad: a `GradOperation(get_by_list=True, sens_param=True)`, for a subclass with its own `construct`.
        grad_reducer: applied to the gradients before the optimizer; the identity, since there is one device.

    Raises:
        TypeError: `network` isn't a Cell, `optimizer` isn't an optimizer, or `sens` isn't a number.
        ValueError: `sens` is 0.
    """

    def __init__(self, network: Cell, optimizer: Any, sens: float | None = None, return_grad: bool = False) -> None:
        super().__init__(auto_prefix=False)
        if sens is not None and checks.of_type(sens, "sens", (int, float), of=self.cls_name) == 0:
            raise ValueError(f"For '{self.cls_name}', 'sens' must not be 0: all gradients would be 0")
        self.network = checks.of_type(network, "network", Cell, of=self.cls_name)
        self.optimizer = checks.of_type(optimizer, "optimizer", Optimizer, of=self.cls_name)
        self.weights = optimizer.parameters
        self.grad = GradOperation(get_by_list=True, sens_param=True)
        self.grad_reducer = Identity()
        self.sens = 1.0 if sens is None else sens
        self.return_grad = return_grad
        loss_scale = optimizer.loss_scale
        if self.sens != loss_scale:
            warnings.warn(
                f"{self.cls_name}: gradients are computed from sens={self.sens:g} and divided by the optimizer's "
                f"loss_scale={loss_scale:g}, so updates are {self.sens / loss_scale:g} times as large as intended: "
                "the two must be equal",
                stacklevel=2,
            )

    def construct(self, *inputs: Any) -> Any:
        """Run a step and return the loss."""
        loss, gradients = self.loss_and_gradients(inputs, self.sens)
        gradients = self.grad_reducer(gradients)
        self.optimizer(gradients)
        if self.return_grad:
            return loss, {weight.name: g for weight, g in zip(self.weights, gradients, strict=True)}
        return loss

    def loss_and_gradients(self, inputs: tuple[Any, ...], sens: Any) -> tuple[Any, tuple[Any, ...]]:
        """Return the loss, and the gradients of the weights for the gradient `sens` of the loss, a number or tensor."""
        if not isinstance(sens, Tensor) and sens == 1:
            result: tuple[Any, tuple[Any, ...]] = value_and_grad(self.network, None, self.weights)(*inputs)
            return result

        def forward(*args: Any) -> tuple[Any, Any]:
            loss = self.network(*args)
            return scale_tensors(loss, sens), loss

        (_, loss), gradients = value_and_grad(forward, None, self.weights, has_aux=True)(*inputs)
        return loss, gradients
