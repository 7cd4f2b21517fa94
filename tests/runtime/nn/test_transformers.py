"""Multi-head attention and transformers: against torch's modules, masks, Parameters, dropout, errors."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import cellbridge.runtime as ms
from cellbridge.runtime import Tensor, nn, ops
from tests.runtime.against_torch import Array, assert_as_torch, assert_cell_as_module, normal

DOUBLE: dict[str, Any] = {"dtype": torch.float64}
RENAMED = {"has_bias": "bias"}


def pair(embed_dim: int, heads: int, **options: Any) -> tuple[nn.MultiheadAttention, torch.nn.MultiheadAttention]:
    """The layer and torch's, with the same values by name, biases too."""
    torch.manual_seed(0)
    cell = nn.MultiheadAttention(embed_dim, heads, dtype=ms.float64, **options)
    named = {RENAMED.get(key, key): value for key, value in options.items()}
    module = torch.nn.MultiheadAttention(embed_dim, heads, **named, **DOUBLE)
    torch_parameters = dict(module.named_parameters())
    assert [p.name for p in cell.get_parameters()] == list(torch_parameters)
    for name, parameter in torch_parameters.items():
        torch.nn.init.normal_(parameter)
        cell.parameters_dict()[name].set_data(Tensor(parameter.detach().numpy()))
    return cell, module.eval()


FORBIDDEN = np.array([[False, True, False, False], [False, False, True, True], [False, False, False, False]])
PADDING = np.array([[False, False, False, True], [False, True, False, False]])


def assert_attention(options: dict[str, Any], shapes: list[tuple[int, ...]], **given: Any) -> None:
    """Outputs and gradients are torch's, with and without weights, on `given` masks as arrays."""
    cell, module = pair(4, 2, **options)
    arrays = [normal(*shape, seed=i) for i, shape in enumerate(shapes)]
    cell_arguments = {key: Tensor(value) if isinstance(value, np.ndarray) else value for key, value in given.items()}
    torch_arguments = {key: torch.from_numpy(v) if isinstance(v, np.ndarray) else v for key, v in given.items()}
    assert_as_torch(lambda *xs: cell(*xs, **cell_arguments), lambda *xs: module(*xs, **torch_arguments), *arrays)
    (y,) = cell(*map(Tensor, arrays), need_weights=False, **cell_arguments)
    np.testing.assert_allclose(
        y.asnumpy(), cell(*map(Tensor, arrays), **cell_arguments)[0].asnumpy(), rtol=1e-12, atol=1e-12
    )


SEPARATE: list[tuple[int, ...]] = [(3, 2, 4), (4, 2, 4), (4, 2, 4)]  # 3 queries, 4 keys, batch 2


@pytest.mark.parametrize(
    "options", [{}, {"has_bias": False}, {"add_bias_kv": True}, {"add_zero_attn": True},
                {"add_bias_kv": True, "add_zero_attn": True}],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize(
    "masks",
    [
        {},
        {"average_attn_weights": False},
        {"attn_mask": FORBIDDEN},
        {"attn_mask": normal(3, 4, seed=9)},
        {"attn_mask": normal(4, 3, 4, seed=9)},
        {"key_padding_mask": PADDING},
        {"attn_mask": FORBIDDEN, "key_padding_mask": PADDING},
        {"attn_mask": normal(3, 4, seed=9), "key_padding_mask": normal(2, 4, seed=8)},
    ],
    ids=lambda masks: "+".join(f"{k}{getattr(v, 'dtype', '')}" for k, v in masks.items()) or "no masks",
)
def test_attention_is_torch_s(options: dict[str, Any], masks: dict[str, Any]) -> None:
    assert_attention(options, SEPARATE, **masks)


def test_attention_with_the_batch_first_or_without_a_batch() -> None:
    assert_attention({"batch_first": True}, [(2, 3, 4), (2, 4, 4), (2, 4, 4)], key_padding_mask=PADDING)
    for batch_first in (True, False):
        assert_attention({"batch_first": batch_first}, [(3, 4), (4, 4), (4, 4)], attn_mask=FORBIDDEN)
        shapes: list[tuple[int, ...]] = [(3, 4), (4, 4), (4, 4)]
        assert_attention({"batch_first": batch_first}, shapes, key_padding_mask=PADDING[0], average_attn_weights=False)


def test_keys_and_values_may_have_other_features() -> None:
    assert_attention({"kdim": 3, "vdim": 5}, [(3, 2, 4), (4, 2, 3), (4, 2, 5)])
    names = [p.name for p in nn.MultiheadAttention(4, 2, kdim=3).get_parameters()]
    assert names[:4] == ["q_proj_weight", "k_proj_weight", "v_proj_weight", "in_proj_bias"]


def test_gradients_of_the_weights() -> None:
    cell, module = pair(4, 2, add_bias_kv=True)
    assert_cell_as_module(cell, module, *(normal(*shape, seed=i) for i, shape in enumerate(SEPARATE)))


def test_a_mask_of_bytes_and_one_of_numbers_beside_one_of_bools() -> None:
    cell, _ = pair(4, 2)
    xs = [Tensor(normal(*shape, seed=i)) for i, shape in enumerate(SEPARATE)]
    expected = cell(*xs, Tensor(PADDING), attn_mask=Tensor(FORBIDDEN))
    added = Tensor(np.where(FORBIDDEN, -np.inf, 0.0))
    for mask in (Tensor(FORBIDDEN.astype(np.uint8)), added, added.astype(ms.float32)):
        for y, e in zip(cell(*xs, Tensor(PADDING), attn_mask=mask), expected, strict=True):
            np.testing.assert_allclose(y.asnumpy(), e.asnumpy(), rtol=1e-12)


@pytest.mark.slow
def test_attention_drops_weights_in_training_only() -> None:
    ms.set_seed(0)
    x = Tensor(np.random.default_rng(0).standard_normal((6, 2, 4)).astype(np.float32))
    cell = nn.MultiheadAttention(4, 2, dropout=0.5)
    np.testing.assert_array_equal(cell(x, x, x)[0].asnumpy(), cell(x, x, x)[0].asnumpy())
    cell.set_train()
    _, weights = cell(x, x, x, average_attn_weights=False)
    assert 0.2 < (weights.asnumpy() == 0).mean() < 0.8
    cell.out_proj.weight.set_data(Tensor(np.eye(4, dtype=np.float32)))
    for need_weights in (True, False):  # the mean over draws is what there is without dropout
        draws = np.mean([cell(x, x, x, need_weights=need_weights)[0].asnumpy() for _ in range(600)], axis=0)
        np.testing.assert_allclose(draws, cell.set_train(False)(x, x, x)[0].asnumpy(), atol=0.12)
        cell.set_train()


def test_initial_values() -> None:
    cell = nn.MultiheadAttention(64, 4, add_bias_kv=True)
    bound = np.sqrt(6 / (64 + 192))
    assert 0.98 * bound < np.abs(cell.in_proj_weight.asnumpy()).max() <= bound
    assert not cell.in_proj_bias.asnumpy().any()
    assert 0.98 / 8 < np.abs(cell.out_proj.weight.asnumpy()).max() <= 1 / 8
    assert cell.bias_k.shape == (1, 1, 64)
    assert nn.MultiheadAttention(4, 2, dtype=None).in_proj_weight.dtype == ms.float32
    assert repr(nn.MultiheadAttention(4, 2)).startswith(
        "MultiheadAttention(\n  embed_dim=4, num_heads=2, dropout=0.0, batch_first=False\n  (out_proj): Dense("
    )


# ---- transformers ----


def copied(cell: nn.Cell, module: torch.nn.Module) -> None:
    """Let both have the same values, drawn normally, biases and scales too; their names correspond, in order."""
    torch_parameters = list(module.named_parameters())
    cell_parameters = list(cell.parameters_and_names())
    for (path, parameter), (name, tensor) in zip(cell_parameters, torch_parameters, strict=True):
        known = name.replace("linear", "dense")
        if "norm" in name:
            known = known.replace("weight", "gamma").replace("bias", "beta")
        assert path == known
        torch.nn.init.normal_(tensor)
        parameter.set_data(Tensor(tensor.detach().numpy()))


ACTIVATIONS: list[tuple[Any, Any]] = [
    ("relu", "relu"), ("gelu", "gelu"), (nn.ReLU(), "relu"), (nn.GELU(False), "gelu"), (ops.gelu, "gelu"),
    (ops.silu, torch.nn.functional.silu),
]  # fmt: skip


@pytest.mark.parametrize(
    ("activation", "torch_activation"), ACTIVATIONS, ids=["relu", "gelu", "ReLU", "GELU", "ops.gelu", "ops.silu"]
)
def test_layers_take_an_activation_as_name_cell_or_function(activation: Any, torch_activation: Any) -> None:
    cell = nn.TransformerEncoderLayer(4, 2, 6, activation=activation, dtype=ms.float64)
    module = torch.nn.TransformerEncoderLayer(4, 2, 6, activation=torch_activation, **DOUBLE).eval()
    copied(cell, module)
    assert_cell_as_module(cell, module, normal(3, 2, 4))


CAUSAL = np.triu(np.ones((3, 3), bool), 1)
AHEAD = np.where(CAUSAL, -np.inf, 0.0)


@pytest.mark.parametrize("options", [{}, {"norm_first": True}, {"batch_first": True, "layer_norm_eps": 1e-2}], ids=str)
@pytest.mark.parametrize("depth", [None, 2])
@pytest.mark.parametrize("mask", [None, CAUSAL, AHEAD], ids=["no mask", "bool", "float"])
def test_encoders_are_torch_s(options: dict[str, Any], depth: int | None, mask: Array | None) -> None:
    cell: nn.Cell = nn.TransformerEncoderLayer(4, 2, 6, dtype=ms.float64, **options)
    module: Any = torch.nn.TransformerEncoderLayer(4, 2, 6, **options, **DOUBLE)
    if depth is not None:
        cell = nn.TransformerEncoder(cell, depth, nn.LayerNorm((4,), epsilon=1e-5, dtype=ms.float64))
        norm = torch.nn.LayerNorm(4, **DOUBLE)
        module = torch.nn.TransformerEncoder(module, depth, norm, enable_nested_tensor=False)
    copied(cell, module.eval())
    x = normal(2, 3, 4) if options.get("batch_first") else normal(3, 2, 4)
    cell_mask, torch_mask = (None, None) if mask is None else (Tensor(mask), torch.from_numpy(mask))
    assert_as_torch(lambda x: cell(x, cell_mask), lambda x: module(x, torch_mask), x)
    padding = np.array([[False, False, True], [False, True, False]])
    beside = torch.from_numpy(padding if mask is None or mask.dtype == bool else np.where(padding, -np.inf, 0.0))
    assert_as_torch(
        lambda x: cell(x, cell_mask, Tensor(padding)), lambda x: module(x, torch_mask, src_key_padding_mask=beside), x
    )


@pytest.mark.parametrize("options", [{}, {"norm_first": True}, {"batch_first": True}], ids=str)
@pytest.mark.parametrize("depth", [None, 2])
def test_decoders_are_torch_s(options: dict[str, Any], depth: int | None) -> None:
    cell: nn.Cell = nn.TransformerDecoderLayer(4, 2, 6, dtype=ms.float64, **options)
    module: Any = torch.nn.TransformerDecoderLayer(4, 2, 6, **options, **DOUBLE)
    if depth is not None:
        cell, module = nn.TransformerDecoder(cell, depth), torch.nn.TransformerDecoder(module, depth)
    copied(cell, module.eval())
    first = bool(options.get("batch_first"))
    tgt, memory = (normal(2, 3, 4), normal(2, 4, 4)) if first else (normal(3, 2, 4), normal(4, 2, 4))
    masks = (CAUSAL, FORBIDDEN, np.array([[False, True, False], [False] * 3]), PADDING)
    assert_as_torch(cell, module, tgt, memory)
    assert_as_torch(
        lambda *xs: cell(*xs, *map(Tensor, masks)), lambda *xs: module(*xs, *map(torch.from_numpy, masks)), tgt, memory
    )


def test_a_transformer_is_torch_s() -> None:
    cell = nn.Transformer(4, 2, 2, 1, 6, dtype=ms.float64)
    module = torch.nn.Transformer(4, 2, 2, 1, 6, **DOUBLE).eval()
    copied(cell, module)
    assert_cell_as_module(cell, module, normal(4, 2, 4), normal(3, 2, 4))
    assert_as_torch(cell, module, normal(4, 4), normal(3, 4))
    padding = np.array([[False, False, False, True], [False, True, False, False]])
    masks = {"tgt_mask": CAUSAL, "src_key_padding_mask": padding, "memory_key_padding_mask": padding}
    assert_as_torch(
        lambda *xs: cell(*xs, **{k: Tensor(v) for k, v in masks.items()}),
        lambda *xs: module(*xs, **{k: torch.from_numpy(v) for k, v in masks.items()}),
        normal(4, 2, 4),
        normal(3, 2, 4),
    )


def test_a_transformer_takes_another_encoder_and_decoder() -> None:
    class Doubled(nn.Cell):
        def construct(self, src: Any, *masks: Any) -> Any:
            return src * 2.0

    class Sum(nn.Cell):
        def construct(self, tgt: Any, memory: Any, *masks: Any) -> Any:
            return tgt + memory

    x = normal(3, 2, 4)
    cell = nn.Transformer(4, 2, custom_encoder=Doubled(), custom_decoder=Sum())
    assert list(cell.get_parameters()) == []
    np.testing.assert_array_equal(cell(Tensor(x), Tensor(x)).asnumpy(), x * 3.0)


def test_matrices_of_a_transformer_are_drawn_by_xavier() -> None:
    cell = nn.Transformer(16, 2, 1, 1, 48)
    weight = cell.encoder.layers[0].dense1.weight.asnumpy()
    bound = np.sqrt(6 / (16 + 48))
    assert 0.98 * bound < np.abs(weight).max() <= bound


def test_layers_of_a_stack_start_equal_and_are_apart() -> None:
    layer = nn.TransformerEncoderLayer(4, 2, 6)
    stack = nn.TransformerEncoder(layer, 2)
    first, second = stack.layers
    np.testing.assert_array_equal(first.dense1.weight.asnumpy(), second.dense1.weight.asnumpy())
    assert first.dense1.weight is not second.dense1.weight
    assert second.dense1.weight.name == "layers.1.dense1.weight"
    assert layer.dense1.weight.name == "dense1.weight"
    assert [p.name for p in copy.deepcopy(stack).get_parameters()] == [p.name for p in stack.get_parameters()]
    assert repr(stack).startswith("TransformerEncoder(\n  (layers): CellList(\n    (0): TransformerEncoderLayer(\n")


def test_dropout_acts_in_training_only() -> None:
    x = Tensor(normal(3, 2, 4).astype(np.float32))
    cell = nn.TransformerDecoderLayer(4, 2, 6)
    np.testing.assert_array_equal(cell(x, x).asnumpy(), cell(x, x).asnumpy())
    cell.set_train()
    assert not np.array_equal(cell(x, x).asnumpy(), cell(x, x).asnumpy())


def test_half_precision() -> None:
    x = Tensor(normal(3, 2, 4).astype(np.float32))
    cell = nn.TransformerEncoderLayer(4, 2, 6)
    exact = cell(x, Tensor(AHEAD.astype(np.float32))).asnumpy()
    y = cell.to_float(ms.float16)(x, Tensor(AHEAD.astype(np.float32)))
    assert y.dtype == ms.float16
    np.testing.assert_allclose(y.asnumpy(), exact, atol=2e-2)


# ---- errors ----


def ones(*shape: int, dtype: Any = np.float32) -> Tensor:
    return Tensor(np.ones(shape, dtype))


def attended(*shapes: tuple[int, ...], **given: Any) -> Any:
    return nn.MultiheadAttention(4, 2)(*(ones(*shape) for shape in shapes), **given)


X = (3, 2, 4)


@pytest.mark.parametrize(
    ("run", "error", "words"),
    [
        (lambda: nn.MultiheadAttention(4, 3), ValueError, ["'embed_dim'", "multiple", "4 and 3"]),
        (lambda: nn.MultiheadAttention(4.0, 2), TypeError, ["'embed_dim'", "int"]),
        (lambda: nn.MultiheadAttention(4, 0), ValueError, ["'num_heads'", "> 0"]),
        (lambda: nn.MultiheadAttention(4, 2, 1.0), ValueError, ["'dropout'", "[0, 1)"]),
        (lambda: nn.MultiheadAttention(4, 2, has_bias=1), TypeError, ["'has_bias'", "bool"]),
        (lambda: attended((3, 2, 5), X, X), ValueError, ["'query'", "4", "(3, 2, 5)"]),
        (lambda: attended((4,), X, X), ValueError, ["'query'", "3 dimensions", "(4,)"]),
        (lambda: attended((2, 4), X, X), ValueError, ["'key'", "(3, 2, 4)"]),
        (lambda: attended(X, (3, 1, 4), (3, 1, 4)), ValueError, ["the batch sizes must be equal"]),
        (lambda: attended(X, (3, 2, 4), (5, 2, 4)), ValueError, ["as many keys as values", "(5, 2, 4)"]),
        (lambda: attended(X, X, X, attn_mask=ones(2, 3)), ValueError, ["attn_mask", "(3, 3)", "(4, 3, 3)", "(2, 3)"]),
        (lambda: attended(X, X, X, key_padding_mask=ones(3, 2)), ValueError, ["key_padding_mask", "(2, 3)", "(3, 2)"]),
        (lambda: attended(X, X, X, attn_mask=ones(3, 3, dtype=np.int32)), TypeError, ["'attn_mask'", "Int32"]),
        (lambda: attended(X, X, X, key_padding_mask=3), TypeError, ["key_padding_mask"]),
        (lambda: nn.MultiheadAttention(4, 2)(*[ones(*X, dtype=np.float16)] * 3), TypeError, ["Float16", "Float32"]),
        (lambda: nn.TransformerEncoderLayer(4, 2, activation="tanh"), ValueError, ["'activation'", "relu", "'tanh'"]),
        (lambda: nn.TransformerDecoderLayer(4, 2, activation=3), ValueError, ["'activation'", "3"]),
        (lambda: nn.TransformerEncoderLayer(4, 2, dropout=1.0), ValueError, ["'dropout'"]),
        (lambda: nn.TransformerEncoder(3, 2), TypeError, ["'encoder_layer'", "Cell"]),
        (lambda: nn.TransformerDecoder(nn.ReLU(), 0), ValueError, ["'num_layers'", "> 0"]),
        (lambda: nn.TransformerEncoder(nn.ReLU(), 1, 3), TypeError, ["'norm'", "Cell"]),
        (lambda: nn.Transformer(4, 2, 1, 1, 6)(ones(3, 2, 5), ones(*X)), ValueError, ["4 features", "(3, 2, 5)"]),
        (lambda: nn.Transformer(4, 2, 1, 1, 6)(ones(*X), ones(3, 1, 4)), ValueError, ["same batch size", "(3, 1, 4)"]),
    ],
)
def test_errors_name_what_is_wrong(run: Callable[[], Any], error: type[Exception], words: list[str]) -> None:
    with pytest.raises(error) as raised:
        run()
    assert [word for word in words if word not in str(raised.value)] == []
