"""Objects that hold tensors go into a model and out of it."""

from __future__ import annotations

import gc
import random
import weakref
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree

from cellbridge import converter, parity
from cellbridge.converter.capture.containers import structure
from cellbridge.runtime.errors import ConversionError, UsageError


class Cache:
    """Keys of each layer; layers add to it."""

    def __init__(self) -> None:
        self.keys: list[torch.Tensor] = []
        self.length = 0

    def update(self, layer: int, key: torch.Tensor) -> torch.Tensor:
        if layer == len(self.keys):
            self.keys.append(key)
        else:
            self.keys[layer] = torch.cat([self.keys[layer], key], 1)
        self.length += key.shape[1]
        return self.keys[layer]


class Layer(nn.Module):
    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number
        self.key = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, cache: Cache) -> torch.Tensor:
        return x + cache.update(self.number, self.key(x)).mean(1, keepdim=True)


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Layer(0), Layer(1)])

    def forward(self, x: torch.Tensor, cache: Cache | None = None) -> dict[str, Any]:
        cache = Cache() if cache is None else cache
        for layer in self.layers:
            x = layer(x, cache)
        return {"x": x, "cache": cache}


def _filled() -> Cache:
    cache = Cache()
    with torch.no_grad():
        Decoder()(torch.randn(2, 3, 4), cache)
    return cache


def test_a_cache_that_inner_modules_fill_comes_out() -> None:
    report = parity.check(Decoder(), (torch.randn(2, 3, 4),))
    report.raise_if_failed()


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.every(2)
def test_a_cache_goes_in_and_its_gradients_are_compared(train: bool) -> None:
    report = parity.check(Decoder(), (torch.randn(2, 1, 4),), {"cache": _filled()}, train=train)
    report.raise_if_failed()
    compared = {c.tensor for c in report.cells[""].comparisons if c.kind == "input gradient"}
    assert {"cache.keys[0]", "cache.keys[1]"} <= compared


def test_a_program_takes_the_cache_or_a_dict_of_its_tensors() -> None:
    module, x, cache = Decoder(), torch.randn(2, 1, 4), _filled()
    program = converter.from_torch(module, (x,), {"cache": cache})
    from_cache = program(x, cache=cache)
    from_dict = program(x, cache={"keys": [key.numpy() for key in cache.keys]})
    np.testing.assert_array_equal(from_cache["x"], from_dict["x"])
    assert from_cache["cache"]["keys"][0].shape == (2, 4, 4)
    cache.keys.append(x)
    with pytest.raises(UsageError, match="needed 2 values, given 3"):
        program(x, cache=cache)


def test_the_cache_that_was_given_is_left_as_it_was() -> None:
    cache = _filled()
    before = [key.clone() for key in cache.keys]
    converter.from_torch(Decoder(), (torch.randn(2, 1, 4),), {"cache": cache})
    assert all(torch.equal(key, key_before) for key, key_before in zip(cache.keys, before, strict=True))


class Draws(nn.Module):
    def __init__(self, draw: Any) -> None:
        super().__init__()
        self.draw = draw

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * float(self.draw())


@pytest.mark.parametrize(
    ("draw", "name"), [(np.random.rand, "numpy.random"), (lambda: random.random(), "Python's random")]
)
@pytest.mark.every(2)
def test_draws_that_torch_does_not_see_are_refused(draw: Any, name: str) -> None:
    with pytest.raises(ConversionError, match=f"draws random numbers with {name}"):
        converter.from_torch(Draws(draw), (torch.ones(3),))


class DropsLayers(nn.Module):
    """It draws for each layer, in eval mode too."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            sampled = random.uniform(0, 1)
            if not (self.training and sampled < self.share):
                x = layer(x)
        return x


def test_draws_that_decide_nothing_are_fine() -> None:
    parity.check(DropsLayers(0.1), (torch.randn(2, 4),)).raise_if_failed()
    parity.check(DropsLayers(0.0), (torch.randn(2, 4),), train=True).raise_if_failed()


@pytest.mark.parametrize("share", [1e-9, 0.5, 1 - 1e-9])
@pytest.mark.every(3)
def test_draws_that_skip_layers_are_refused_whatever_was_drawn(share: float) -> None:
    with pytest.raises(ConversionError, match="draws random numbers with Python's random"):
        converter.from_torch(DropsLayers(share), (torch.randn(2, 4),), train=True)


class KeepsASize(nn.Module):
    """A stride as a buffer outside of the state dict, and a size computed of it."""

    def __init__(self) -> None:
        super().__init__()
        self.stride = nn.Buffer(torch.tensor(4), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        missing = torch.ceil(x.shape[-1] / self.stride).to(torch.int64) * self.stride - x.shape[-1]
        return nn.functional.pad(x, (0, missing)) if missing <= self.stride else x


def test_a_setting_kept_as_a_buffer_is_a_known_number() -> None:
    module = KeepsASize()
    parity.check(module, (torch.randn(2, 9),)).raise_if_failed()
    assert type(module) is KeepsASize
    assert list(module._buffers) == ["stride"]


class Splits(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        window = int(torch.div(x.shape[1], 2, rounding_mode="trunc"))
        return x.unfold(1, window, window)


def test_arithmetic_of_numbers_stays_known() -> None:
    parity.check(Splits(), (torch.randn(2, 9),)).raise_if_failed()


class SortsTies(nn.Module):
    """What comes after the sort depends on the order of equal elements; the result doesn't."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, groups: torch.Tensor) -> torch.Tensor:
        order = torch.sort(groups)[1]
        return torch.zeros_like(x).index_copy(0, order, self.inner(x[order]))


def test_equal_elements_keep_their_order_on_both_sides() -> None:
    groups = torch.randint(0, 3, (40,), generator=torch.Generator().manual_seed(0))
    parity.check(SortsTies(), (torch.randn(40, 4), groups)).raise_if_failed()


class SetsRequiresGrad(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = x[:, None]
        if self.training:
            hidden.requires_grad = True
        return self.linear(hidden)


def test_a_model_may_ask_for_the_gradient_of_what_it_makes_of_an_input() -> None:
    parity.check(SetsRequiresGrad(), (torch.randn(2, 4),), train=True).raise_if_failed()


class KeepsWhatItComputed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table: torch.Tensor | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.table is None:
            self.table = torch.arange(4).type_as(x).sin()
        return x @ self.table


def test_what_a_module_kept_of_one_run_does_not_reach_the_next() -> None:
    module = KeepsWhatItComputed()
    parity.check(module, (torch.randn(2, 4),)).raise_if_failed()
    assert module.table is None


def test_a_result_is_freed_without_collecting_garbage() -> None:
    """Its tensors hold the graph behind them, and so the weights of a whole network."""

    class Result(OrderedDict[str, torch.Tensor]):
        pass

    pytree.register_pytree_node(
        Result,
        lambda x: (list(x.values()), list(x)),
        lambda values, names: Result(zip(names, values, strict=True)),
        flatten_with_keys_fn=lambda x: ([(pytree.MappingKey(name), y) for name, y in x.items()], list(x)),
    )
    result = Result(y=torch.zeros(3))
    freed = weakref.ref(result)
    gc.collect()
    gc.disable()
    try:
        structure(result)
        del result
        assert freed() is None
    finally:
        gc.enable()
