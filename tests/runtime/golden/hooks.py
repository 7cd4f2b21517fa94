"""Hooks, and backward passes written by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cellbridge.runtime import Parameter, Tensor, grad, nn, ops
from tests.runtime.golden.cases import Inputs, Params, runner
from tests.runtime.golden.networks import Lambda


class One(nn.Cell):
    """b(a(x)) * y, with a and b of one input."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.a = Lambda(lambda x: x * factor)
        self.b = Lambda(lambda x: x * x)

    def construct(self, x: Any, y: Any) -> Any:
        return self.b(self.a(x)) * y


class Two(One):
    """2 u + 5 v, with u, v = b(a(x), y)."""

    def __init__(self, factor: float) -> None:
        super().__init__(factor)
        self.b = Lambda(lambda x, y: (x * y, x + y))

    def construct(self, x: Any, y: Any) -> Any:
        u, v = self.b(self.a(x), y)
        return u * 2 + v * 5


@runner("hooks")
def hooks(params: Params, inputs: Inputs) -> dict[str, Any]:
    root = {"one": One, "two": Two}[params["kind"]](params["ka"])
    cells = {"": root, "a": root.a, "b": root.b}
    events: list[Any] = []
    handles: dict[str, Any] = {}
    for hook in params["hooks"]:
        register = getattr(cells[hook["cell"]], f"register_{hook['type']}_hook")
        handles[hook["label"]] = register(_hook(hook, events))
    for label in params.get("remove", []):
        handles[label].remove()
        handles[label].remove()
    run = root if params["run"] == "forward" else grad(root, (0, 1))
    result = run(inputs["x"], inputs["y"])
    return {"events": events, "result": result}


def _hook(hook: dict[str, Any], events: list[Any]) -> Callable[..., Any]:
    factor = hook["factor"] if hook["action"] == "scale" else None
    label = hook["label"]

    def arrays(values: Any) -> list[Any]:
        return [value.asnumpy() for value in (values if isinstance(values, tuple) else (values,))]

    def scaled(values: Any) -> Any:
        if factor is None:
            return None
        return tuple(value * factor for value in values) if isinstance(values, tuple) else values * factor

    def of_inputs(cell: nn.Cell, values: Any) -> Any:  # also of gradients of outputs
        events.append([label, arrays(values)])
        return scaled(values)

    def of_both(cell: nn.Cell, first: Any, second: Any) -> Any:
        events.append([label, arrays(first), arrays(second)])
        return scaled(second if hook["type"] == "forward" else first)

    return of_both if hook["type"] in ("forward", "backward") else of_inputs


@runner("hook_backward")
def hook_backward(params: Params, inputs: Inputs) -> dict[str, Any]:
    factor = params["factor"]
    captured: list[Any] = []

    def capture(gradients: Any) -> Any:
        captured.extend(gradients)
        return None if factor is None else gradients[0] * factor

    hook = ops.HookBackward(capture)

    def function(a: Any, b: Any) -> Any:
        return hook(a * b) * b

    forward = function(inputs["a"], inputs["b"])
    gradients = grad(function, (0, 1))(inputs["a"], inputs["b"])
    return {"forward": forward, "captured": captured, "grads": gradients}


class Product(nn.Cell):
    """x * y with a backward pass of its own."""

    def __init__(self, params: Params) -> None:
        super().__init__()
        self.params = params
        self.seen: dict[str, Any] = {}
        if "bprop_debug" in params:
            self.bprop_debug = params["bprop_debug"]

    def construct(self, x: Any, y: Any) -> Any:
        return x * y

    def bprop(self, x: Any, y: Any, out: Any, dout: Any) -> Any:
        self.seen = {name: value.asnumpy() for name, value in {"x": x, "y": y, "out": out, "dout": dout}.items()}
        return dout * self.params["fx"] + out * self.params["fo"], dout * self.params["fy"]


@runner("bprop_custom")
def bprop_custom(params: Params, inputs: Inputs) -> dict[str, Any]:
    inner = Product(params)
    gradients = grad(lambda x, y: (inner(x * 2, y) * 3).sum(), (0, 1))(inputs["x"], inputs["y"])
    return {"grads": gradients, "seen": inner.seen}


class Sampler(nn.Cell):
    """Takes elements of each row, by means of NumPy."""

    def __init__(self, indices: np.ndarray[Any, Any]) -> None:
        super().__init__()
        self.indices = indices

    def construct(self, x: Any) -> Any:
        return Tensor(np.take_along_axis(x.asnumpy(), self.indices, 1)), Tensor(self.indices)


class DifferentiableSampler(Sampler):
    """A sampler with a backward pass: gradients are summed where they were taken from."""

    def bprop(self, x: Any, out: Any, dout: Any) -> Any:
        rows = [
            ops.unsorted_segment_sum(values, indices, x.shape[1])
            for values, indices in zip(dout[0], out[1], strict=True)
        ]
        return (ops.stack(rows),)


@runner("bprop_sampler")
def bprop_sampler(params: Params, inputs: Inputs) -> dict[str, Any]:
    sampler = (DifferentiableSampler if params["with_bprop"] else Sampler)(inputs["idx"].asnumpy())
    x = inputs["x"]
    values, indices = sampler(x)
    sens = inputs.get("sens", ops.ones_like(values))
    return {"values": values, "indices": indices, "dx": grad(lambda x: (sampler(x)[0] * sens).sum())(x)}


class ChannelDropout(nn.Cell):
    """Keeps what a mask says, and divides by the share that is kept."""

    def __init__(self, mask: Tensor, keep_prob: float) -> None:
        super().__init__()
        self.mask = mask
        self.keep_prob = keep_prob

    def construct(self, x: Any) -> Any:
        return x * self.mask / self.keep_prob, self.mask

    def bprop(self, x: Any, out: Any, dout: Any) -> Any:
        dy = dout[0]
        if self.keep_prob != 0:
            dy = dy * (1 / self.keep_prob)
        return ((self.mask * dy).astype(x.dtype),)


@runner("bprop_dropout2d")
def bprop_dropout2d(params: Params, inputs: Inputs) -> dict[str, Any]:
    cell = ChannelDropout(inputs["mask"], params["keep_prob"])
    x, sens = inputs["x"], inputs["sens"]
    return {"out": cell(x)[0], "dx": grad(lambda x: (cell(x)[0] * sens).sum())(x)}


class Scaled(nn.Cell):
    """w x with a backward pass of its own, which may speak for w."""

    def __init__(self, w: Tensor, params: Params) -> None:
        super().__init__()
        self.w = Parameter(w, name="w")
        self.params = params
        if params["variant"] == "full":
            self.internal_params = [self.w]

    def construct(self, x: Any) -> Any:
        return self.w * x

    def bprop(self, *args: Any) -> Any:
        dout = args[-1]
        of_inputs = (self.w * dout,)
        if self.params["variant"] == "no_dict_no_internal":
            return of_inputs
        return of_inputs, {self.w: args[0] * dout * self.params["fw"]}


class Outer(nn.Cell):
    """A Cell under the name `i`, times a factor."""

    def __init__(self, inner: nn.Cell, factor: float) -> None:
        super().__init__()
        self.i = inner
        self.factor = factor

    def construct(self, x: Any) -> Any:
        return self.i(x) * self.factor


@runner("bprop_internal_params")
def bprop_internal_params(params: Params, inputs: Inputs) -> dict[str, Any]:
    outer = Outer(Scaled(inputs["w"], params), params["outer"])
    weights = outer.trainable_params()
    dx, dw = grad(outer, 0, weights)(inputs["x"])
    return {"dx": dx, "dw": dw, "names": [weight.name for weight in weights]}
