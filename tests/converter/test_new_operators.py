"""Operators of opsets 23 to 28: read with gradients, written where the opset has them, refused where malformed.

The reference implementation in onnx and ONNX Runtime judge the values, torch's formulas the gradients; onnx's own cases
of these operators are in tests/coverage.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
import torch
from onnx import helper
from onnx.reference import ReferenceEvaluator

from cellbridge.converter import from_onnx, to_onnx, to_torch
from cellbridge.converter.onnx_in.tables import load_all
from cellbridge.converter.onnx_in.tables.table import TABLE
from cellbridge.runtime import ConversionError
from cellbridge.runtime.compiled.session import run_model

RNG = np.random.default_rng(0)
Array = np.ndarray[Any, Any]


def floats(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def causal(q: Any, k: Any, v: Any, past: int = 0, left: int = -1, right: int = -1, scale: Any = None) -> Any:
    """Attention to keys up to `past` after the query's own, within a window; heads of queries share those of keys."""
    positions = torch.arange(q.shape[2])[:, None] + past
    places = torch.arange(k.shape[2])
    allowed = places <= positions
    allowed = allowed & (places >= positions - left) if left >= 0 else allowed
    allowed = allowed & (places <= positions + right) if right >= 0 else allowed
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, allowed, scale=scale, enable_gqa=True)


def with_cache(q: Any, k: Any, v: Any, past_k: Any, past_v: Any) -> Any:
    k, v = torch.cat((past_k, k), 2), torch.cat((past_v, v), 2)
    return causal(q, k, v, past_k.shape[2]), k, v


def packed(q: Any, k: Any, v: Any) -> Any:
    heads = (x.unflatten(-1, (2, -1)).transpose(1, 2) for x in (q, k, v))
    return torch.nn.functional.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2)


def softcapped(q: Any, k: Any, v: Any, mask: Any) -> Any:
    scores = torch.tanh(q @ k.mT / 2.0 / 1.5) * 1.5 + mask
    return scores.softmax(-1) @ v


def rotated(x: Any, cos: Any, sin: Any) -> Any:
    half = cos.shape[-1]
    first, second, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
    cos, sin = cos[:, None], sin[:, None]
    return torch.cat((first * cos - second * sin, first * sin + second * cos, rest), -1)


def interleaved(x: Any, cos: Any, sin: Any, ids: Any) -> Any:
    pairs = x.unflatten(-1, (2, -1)).transpose(1, 2).unflatten(-1, (-1, 2))
    numbers = torch.view_as_complex(pairs.contiguous()) * torch.complex(cos[ids], sin[ids])[:, None]
    return torch.view_as_real(numbers).flatten(3).transpose(1, 2).flatten(2)


def recurrent(decays: bool, corrects: bool) -> Callable[..., Any]:
    """Linear attention of 4 heads of queries and 2 of keys, as its documentation says it."""

    def run(query: Any, key: Any, value: Any, state: Any, decay: Any, beta: Any) -> Any:
        q, k, v = (x.unflatten(-1, (heads, -1)) for x, heads in ((query, 4), (key, 2), (value, 2)))
        outputs = []
        for t in range(query.shape[1]):
            if decays:
                state = state * decay[:, t].unflatten(-1, (2, -1)).exp()[..., None]
            written = v[:, t]
            if corrects:
                written = beta[:, t][..., None] * (written - torch.einsum("bhkv,bhk->bhv", state, k[:, t]))
            state = state + k[:, t][..., None] * written[..., None, :]
            outputs.append(torch.einsum("bhgk,bhkv->bhgv", q[:, t].unflatten(1, (2, 2)), state).flatten(1) / 3**0.5)
        return torch.stack(outputs, 1), state

    return run


def convolved(x: Any, weight: Any, bias: Any, past: Any) -> Any:
    whole = torch.cat((past, x), 2)
    y = torch.nn.functional.silu(torch.nn.functional.conv1d(whole, weight, bias, groups=weight.shape[0]))
    return y, whole[..., -(weight.shape[2] - 1) :]


@dataclass(frozen=True)
class Case:
    """One node of an operator and what torch says of it.

    Attributes:
        operator: of the standard domain.
        version: the opset in which it is.
        inputs: None for an absent operand.
        torch: the same in torch, of the operands that are given.
        attributes: of the node.
        outputs: how many it gives.
    """

    operator: str
    version: int
    inputs: tuple[Any, ...]
    torch: Callable[..., Any]
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1

    def __str__(self) -> str:
        options = "-".join(f"{k}={v}" for k, v in self.attributes.items())
        return f"{self.operator}-{self.version}-{options}-{sum(x is not None for x in self.inputs)}"

    def model(self, named: bool = False) -> onnx.ModelProto:
        """The node alone; `named`: with sizes that the run tells, as far as the operator allows it."""
        names = [f"x{i}" if x is not None else "" for i, x in enumerate(self.inputs)]
        results = [f"y{i}" for i in range(self.outputs)]
        infos = []
        for name, x in zip(names, self.inputs, strict=True):
            if x is None or x.ndim == 0:
                continue
            shape: list[Any] = list(x.shape)
            if named and x.ndim > 1 and x.shape[0] == BATCH:
                shape[0] = "batch"
            infos.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), shape))
        outputs = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in results]
        node = helper.make_node(self.operator, names, results, **self.attributes)
        stored = [
            onnx.numpy_helper.from_array(x, name)
            for name, x in zip(names, self.inputs, strict=True)
            if x is not None and x.ndim == 0
        ]
        graph = helper.make_graph([node], "case", infos, outputs, stored)
        imports = [helper.make_opsetid("", self.version)]
        return helper.make_model(graph, opset_imports=imports, ir_version=10)

    def given(self) -> list[Array]:
        """What the model takes: operands without dimensions are stored in it."""
        return [x for x in self.inputs if x is not None and x.ndim]


BATCH = 2
Q, K, V = floats(BATCH, 4, 3, 6), floats(BATCH, 2, 3, 6), floats(BATCH, 2, 3, 5)
PAST = floats(BATCH, 2, 4, 6), floats(BATCH, 2, 4, 5)
FLAT = floats(BATCH, 3, 8), floats(BATCH, 3, 8), floats(BATCH, 3, 8)
ANGLES = floats(BATCH, 3, 2), floats(BATCH, 3, 2)
BY_POSITION = floats(7, 2), floats(7, 2)
IDS = np.array([[0, 1, 2], [6, 3, 3]])
MIXED = floats(BATCH, 5, 12), floats(BATCH, 5, 6), floats(BATCH, 5, 4), floats(BATCH, 2, 3, 2)
HEADS = {"q_num_heads": 4, "kv_num_heads": 2}
LENGTHS = np.array([3, 4])


def padded(q: Any, k: Any, v: Any, lengths: Any) -> Any:
    """Keys beyond the length of each sequence don't count, and queries are the last ones before it."""
    rows = [
        causal(q[i : i + 1], k[i : i + 1, :, :n], v[i : i + 1, :, :n], int(n) - q.shape[2])
        for i, n in enumerate(lengths)
    ]
    return torch.cat(rows)


CASES = [
    Case("Attention", 23, (Q, K, V), lambda q, k, v: causal(q, k, v), {"is_causal": 1}),
    Case("Attention", 23, (Q, K, V, None, *PAST), with_cache, {"is_causal": 1}, outputs=3),
    Case("Attention", 23, FLAT, packed, {"q_num_heads": 2, "kv_num_heads": 2}),
    Case("Attention", 23, (Q, Q, Q, floats(3, 3)), softcapped, {"softcap": 1.5, "scale": 0.5}),
    Case(
        "Attention",
        24,
        (Q, floats(BATCH, 2, 4, 6), floats(BATCH, 2, 4, 5), None, None, None, LENGTHS),
        padded,
        {"is_causal": 1},
    ),
    Case("Attention", 25, (Q, K, V), lambda q, k, v: causal(q, k, v, left=1), {"is_causal": 1, "left_window_size": 1}),
    Case("Attention", 23, (Q, Q, Q), lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k, v)),
    Case("RotaryEmbedding", 23, (floats(BATCH, 4, 3, 4), *ANGLES), rotated),
    Case("RotaryEmbedding", 23, (floats(BATCH, 4, 3, 6), *ANGLES), rotated, {"rotary_embedding_dim": 4}),
    Case("RotaryEmbedding", 23, (FLAT[0], *BY_POSITION, IDS), interleaved, {"interleaved": 1, "num_heads": 2}),
    Case(
        "LinearAttention",
        27,
        (*MIXED, None, None),
        lambda *x: recurrent(False, False)(*x, None, None),
        {"update_rule": "linear", **HEADS},
        2,
    ),
    Case(
        "LinearAttention",
        27,
        (*MIXED, -abs(floats(BATCH, 5, 6))),
        lambda *x: recurrent(True, False)(*x, None),
        {"update_rule": "gated", **HEADS},
        2,
    ),
    Case(
        "LinearAttention",
        27,
        (*MIXED, None, abs(floats(BATCH, 5, 2))),
        lambda *x: recurrent(False, True)(*x[:4], None, x[4]),
        {"update_rule": "delta", **HEADS},
        2,
    ),
    Case(
        "LinearAttention",
        27,
        (*MIXED, -abs(floats(BATCH, 5, 2)), abs(floats(BATCH, 5, 1))),
        recurrent(True, True),
        HEADS,
        2,
    ),
    Case(
        "CausalConvWithState",
        27,
        (floats(BATCH, 3, 5), floats(3, 1, 4), floats(3), floats(BATCH, 3, 3)),
        convolved,
        {"activation": "silu"},
        2,
    ),
    Case(
        "SwiGLU", 28, (floats(BATCH, 3), floats(BATCH, 3)), lambda a, b: a * torch.sigmoid(1.5 * a) * b, {"alpha": 1.5}
    ),
    Case("Swish", 24, (floats(BATCH, 3),), torch.nn.functional.silu),
    Case("CumProd", 26, (floats(BATCH, 3), np.array(1)), lambda x: x.cumprod(1)),
    Case(
        "RMSNormalization",
        23,
        (floats(BATCH, 3), floats(3)),
        lambda x, w: torch.nn.functional.rms_norm(x, (3,), w, 1e-5),
    ),
]


def as_tuple(x: Any) -> tuple[Any, ...]:
    return tuple(x) if isinstance(x, (tuple, list)) else (x,)


def close(actual: Any, expected: Any) -> None:
    for y, z in zip(as_tuple(actual), as_tuple(expected), strict=True):
        np.testing.assert_allclose(np.asarray(y), np.asarray(z), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("named", [False, True], ids=["sizes", "open"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_values_and_gradients(case: Case, named: bool) -> None:
    program = from_onnx(case.model(named))
    given = case.given()
    tensors = [torch.from_numpy(x).requires_grad_(x.dtype == np.float32) for x in given]
    expected = as_tuple(case.torch(*tensors))
    close(program(*given), [y.detach() for y in expected])
    cotangents = [floats(*y.shape) for y in expected]
    sum((y * torch.from_numpy(g)).sum() for y, g in zip(expected, cotangents, strict=True)).backward()
    _, gradients = program.value_and_grad(*given, cotangents=cotangents)
    input_gradients = list(gradients.inputs)
    for x, g in zip(tensors, input_gradients, strict=True):
        if x.requires_grad:
            close(g, torch.zeros_like(x) if x.grad is None else x.grad)
    close([y.detach() for y in as_tuple(to_torch(program)(*(torch.from_numpy(x) for x in given)))], program(*given))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_onnx_reads_it_as_its_own_reference_does(case: Case) -> None:
    names = [f"x{i}" for i, x in enumerate(case.inputs) if x is not None and x.ndim]
    expected = ReferenceEvaluator(case.model()).run(None, dict(zip(names, case.given(), strict=True)))
    close(from_onnx(case.model())(*case.given()), expected)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_it_is_written_where_the_opset_has_it(case: Case) -> None:
    program = from_onnx(case.model())
    model = to_onnx(program, opset=case.version)
    assert case.operator in [node.op_type for node in model.graph.node]
    onnx.checker.check_model(model, full_check=True)
    close(from_onnx(model)(*case.given()), program(*case.given()))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_elsewhere_its_definition_is_written(case: Case) -> None:
    program = from_onnx(case.model())
    lowest = to_onnx(program)
    assert lowest.opset_import[0].version <= 23
    for model in (lowest, to_onnx(program, opset=17)):
        names = [value.name for value in program.inputs]
        given = {n: x for n, x in zip(names, case.given(), strict=True) if n in {i.name for i in model.graph.input}}
        close(list(run_model(model, given).values()), program(*case.given()))


MALFORMED = [
    ("Attention", 23, (FLAT[0], Q, Q), {}, "with 3 dimensions, or with 4"),
    ("Attention", 23, FLAT, {}, "need the attributes q_num_heads and kv_num_heads"),
    ("Attention", 23, FLAT, {"q_num_heads": 3, "kv_num_heads": 3}, "8 features can't be split into 3 heads"),
    ("Attention", 23, (floats(2, 3, 3, 6), K, V), {}, "3 heads of queries can't share 2 heads of keys"),
    ("Attention", 23, (Q, K[:1], V), {}, "same batch size, given 2 and 1"),
    ("Attention", 23, (Q, K, V[:, :, :2]), {}, "same length of keys and values, given 3 and 2"),
    ("Attention", 23, (Q, V, V), {}, "same number of features of queries and keys, given 6 and 5"),
    ("Attention", 23, (Q, K, V, None, PAST[0]), {}, "past_key and past_value must be given together"),
    ("Attention", 23, (Q, K, V, None, PAST[0], PAST[0]), {}, "features of past_value and of the new keys or values"),
    ("Attention", 23, (Q, K, V, floats(7, 7)), {}, "mask"),
    ("Attention", 23, (Q, K, V), {"qk_matmul_output_mode": 4}, "qk_matmul_output_mode must be 0 to 3, given 4"),
    ("Attention", 23, (Q, K, V), {"softmax_precision": 3}, "softmax_precision must be one of"),
    ("Attention", 24, (Q, K, V, None, *PAST, LENGTHS), {}, "nonpad_kv_seqlen belongs to an external cache"),
    ("Attention", 25, (Q, K, V), {"left_window_size": -2}, "windows must be -1 or more"),
    ("RotaryEmbedding", 23, (FLAT[0], *ANGLES), {}, "X of 3 dimensions needs the attribute num_heads"),
    ("RotaryEmbedding", 23, (Q, *ANGLES), {}, "cos_cache must hold 3 angles, half the rotated features, given 2"),
    ("RotaryEmbedding", 23, (Q, *BY_POSITION), {}, "cos_cache must have 3 dimensions without position_ids"),
    ("RotaryEmbedding", 23, (V, *ANGLES), {}, "needed an even number of at most 5 features to rotate, given 5"),
    ("LinearAttention", 27, MIXED[:3], HEADS, "update_rule 'gated_delta' needs the operand decay"),
    ("LinearAttention", 27, MIXED[:3], {"q_num_heads": 4, "kv_num_heads": 3, "update_rule": "linear"}, "can't share"),
    (
        "LinearAttention",
        27,
        (MIXED[0], MIXED[2], MIXED[2]),
        {"update_rule": "linear", **HEADS},
        "of one size, given 3 and 2",
    ),
    ("LinearAttention", 27, MIXED[:3], {"update_rule": "cubic", **HEADS}, "update_rule must be one of"),
    (
        "LinearAttention",
        27,
        MIXED[:3],
        {"q_num_heads": 4, "update_rule": "linear"},
        "needed the attribute 'kv_num_heads'",
    ),
    ("CausalConvWithState", 27, (floats(2, 3, 5), floats(3, 2, 4)), {}, r"weight must be \(channels, 1, width\)"),
    ("CausalConvWithState", 27, (floats(2, 4, 5), floats(3, 1, 4)), {}, "input has 4 channels, the weight 3"),
    ("CausalConvWithState", 27, (floats(2, 3, 5), floats(3, 1, 4)), {"activation": "relu"}, "activation must be none"),
    ("SwiGLU", 28, (floats(2, 3), floats(2, 1)), {}, "A and B must have the same shape"),
    ("SwiGLU", 28, (floats(2, 3),), {}, "needed the operands A, B"),
]


@pytest.mark.parametrize(("operator", "version", "inputs", "attributes", "message"), MALFORMED)
def test_malformed_nodes(
    operator: str, version: int, inputs: tuple[Any, ...], attributes: dict[str, Any], message: str
) -> None:
    case = Case(operator, version, inputs, lambda: None, attributes, 2 if version == 27 else 1)
    with pytest.raises(ConversionError, match=message) as caught:
        from_onnx(case.model())
    assert f"{operator} node" in str(caught.value)


# by operator, which axis is a length in operands of 3 and 4 dimensions, and what those of each operand are called
LENGTH_AXES = {"Attention": {3: 1, 4: 2}, "LinearAttention": {3: 1}}
LENGTHS_OF = {"x1": "keys", "x2": "keys", "x4": "past", "x5": "past"}


@pytest.mark.parametrize("case", [c for c in CASES if c.operator in LENGTH_AXES], ids=str)
def test_lengths_that_the_run_tells(case: Case) -> None:
    model = case.model()
    for info in model.graph.input:
        dims = info.type.tensor_type.shape.dim
        if len(dims) > 2:
            dims[0].dim_param = "batch"
        if axis := LENGTH_AXES[case.operator].get(len(dims)):
            dims[axis].dim_param = LENGTHS_OF.get(info.name, "length") if case.operator == "Attention" else "length"
    program = from_onnx(model)
    expected = [y.numpy() for y in as_tuple(case.torch(*(torch.from_numpy(x) for x in case.given())))]
    close(program(*case.given()), expected)
    exported = to_onnx(program)
    given = dict(zip((value.name for value in program.inputs), case.given(), strict=True))
    close(list(run_model(exported, given).values()), expected)


def test_a_query_without_any_key_gives_zeros_and_no_gradient() -> None:
    mask = np.zeros((3, 3), np.bool_)
    mask[1:] = True
    for attributes in ({}, {"softcap": 2.0}):
        case = Case("Attention", 23, (Q, Q, Q, mask), lambda: None, attributes)
        program = from_onnx(case.model())
        y, gradients = program.value_and_grad(*case.given())
        assert not np.asarray(y)[:, :, 0].any()
        assert np.asarray(y)[:, :, 1:].all()
        assert all(np.isfinite(g).all() for g in list(gradients.inputs)[:3])
        assert not np.asarray(next(iter(gradients.inputs)))[:, :, 0].any()


def newest_versions() -> dict[str, int]:
    """By operator of the standard domain."""
    versions: dict[str, int] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if not schema.domain and not schema.deprecated:
            versions[schema.name] = max(versions.get(schema.name, 0), schema.since_version)
    return versions


NOT_READ = {"ImageDecoder", "MaxRoiPool", "RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit"}


def test_every_operator_is_read_but_for_a_few() -> None:
    load_all()
    assert {name for name in newest_versions() if ("", name) not in TABLE} == NOT_READ


@pytest.mark.parametrize(
    ("operator", "version"), [item for item in sorted(newest_versions().items()) if item[0] not in NOT_READ]
)
def test_the_newest_version_of_each_operator_is_known(operator: str, version: int) -> None:
    """A new one must be looked at before the table may say that it reads it."""
    load_all()
    translation = TABLE["", operator]
    text = (translation.function.__doc__ or "").partition("->")[0]
    versions = [int(number) for number in re.findall(r"(?:-|\.\.)(\d+)\(", text)]
    assert max(versions) >= version
    if translation.open:
        return
    schema = onnx.defs.get_schema(operator, version)
    assert set(schema.attributes) <= translation.attributes
    assert len(schema.inputs) <= len(translation.operands)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("known", [True, False])
def test_ranges_of_half_precision(dtype: Any, known: bool) -> None:
    bounds = {name: np.array(x, dtype) for name, x in (("start", 0), ("limit", 10), ("delta", 0.1))}
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    infos = [helper.make_tensor_value_info(name, kind, []) for name in bounds]
    node = helper.make_node("Range", list(bounds), ["y"], stash_type=1)
    stored = [onnx.numpy_helper.from_array(x, name) for name, x in bounds.items()] if known else []
    result = [helper.make_tensor_value_info("y", kind, ["n"])]
    graph = helper.make_graph([node], "range", [] if known else infos, result, stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 27)], ir_version=13)
    (expected,) = ReferenceEvaluator(model).run(None, {} if known else bounds)
    actual = from_onnx(model)(*([] if known else bounds.values()))
    assert actual.dtype == dtype
    np.testing.assert_array_equal(actual.astype(np.float64), np.asarray(expected).astype(np.float64))
