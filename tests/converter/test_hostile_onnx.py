"""ONNX models that are malformed or mean harm: an error that a person understands, soon, and with little memory."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import AttributeProto, ModelProto, TensorProto, helper

from cellbridge.converter import from_onnx
from cellbridge.converter.onnx_in import importer
from cellbridge.converter.onnx_in.model import protos, schemas
from cellbridge.runtime import CellbridgeError, ConversionError
from cellbridge.runtime.programs.interpreter import execute
from tests.converter.test_onnx_in import model
from tests.fuzz.models import LOOPS, functions
from tests.limits import limited

HUGE = 10**12
FLOATS = np.ones(3, np.float32)
RELU = "net (float[3] x) => (float[3] y) { y = Relu(x) }"

Case = tuple[Callable[[], ModelProto], str]
CASES: dict[str, Case] = {}


def case(message: str) -> Callable[[Callable[[], ModelProto]], Callable[[], ModelProto]]:
    """Enter a model, and what the error says."""

    def enter(make: Callable[[], ModelProto]) -> Callable[[], ModelProto]:
        CASES[make.__name__] = make, message
        return make

    return enter


def edited(edit: Callable[[Any], Any], graph: str = RELU, **initializers: Any) -> ModelProto:
    """A model with a change that onnx's text can't say."""
    made = model(graph, **initializers)
    edit(made.graph)
    return made


def text_case(name: str, graph: str, message: str, **initializers: Any) -> None:
    CASES[name] = lambda: model(graph, **initializers), message


# ---- the graph ----

text_case(
    "a cycle",
    "net (float[3] x) => (float[3] y) { a = Add(b, x) b = Relu(a) y = Relu(b) }",
    "value 'b' is used before anything computes it",
)
text_case(
    "a value assigned twice", "net (float[3] x) => (float[3] y) { y = Relu(x) y = Neg(x) }", "'y' is assigned twice"
)
text_case("an input assigned", "net (float[3] x) => (float[3] x) { x = Relu(x) }", "'x' is assigned twice")
text_case(
    "a domain that is not imported",
    "net (float[3] x) => (float[3] y) { y = com.acme.Relu(x) }",
    "the model doesn't import the domain 'com.acme'",
)


def edited_opset(version: int) -> ModelProto:
    made = model(RELU)
    made.opset_import[0].version = version
    return made


@case("the model uses opset -3; supported are 1 to [0-9]+")
def an_opset_before_all_others() -> ModelProto:
    return edited_opset(-3)


@case("the model uses opset 999")
def an_opset_from_the_future() -> ModelProto:
    return edited_opset(999)


@case("no graph")
def no_graph() -> ModelProto:
    return ModelProto(ir_version=9)


@case("two inputs are named 'x'")
def inputs_of_one_name() -> ModelProto:
    return edited(lambda graph: graph.input.append(graph.input[0]))


@case("'w' is assigned twice")
def initializers_of_one_name() -> ModelProto:
    return edited(lambda graph: graph.initializer.append(graph.initializer[0]), w=FLOATS)


# ---- functions ----


@case("in a cycle: f0 -> f1 -> f2 -> f0")
def functions_in_a_circle() -> ModelProto:
    return functions(3, 1, "f0")


@case("in a cycle: f0 -> f0")
def a_function_that_calls_itself() -> ModelProto:
    return functions(1, 2, "f0")


@case("more than 40 deep")
def functions_too_deep() -> ModelProto:
    return functions(3000, 1)


@case("with its functions inlined, the model has [0-9]+ nodes; at most 50000")
def functions_that_double() -> ModelProto:
    return functions(39, 2)


@case("two functions of the model have the same domain, name and overload")
def functions_of_one_name() -> ModelProto:
    made = functions(1, 1)
    made.functions.append(made.functions[0])
    return made


@case("2 operands, the function takes 1")
def too_many_operands_of_a_function() -> ModelProto:
    made = functions(1, 1)
    made.graph.node[0].input.append("x")
    return made


# ---- types and sizes ----


@case("input 'x': .* would take .* of memory")
def an_input_of_terabytes() -> ModelProto:
    return model(f"net (float[{HUGE}] x) => (float[{HUGE}] y) {{ y = Relu(x) }}")


@case("dimension 'x_0' has the size -7")
def a_negative_size() -> ModelProto:
    return edited(lambda graph: setattr(graph.input[0].type.tensor_type.shape.dim[0], "dim_value", -7))


@case("77 isn't an ONNX element type")
def an_unknown_dtype() -> ModelProto:
    return edited(lambda graph: setattr(graph.input[0].type.tensor_type, "elem_type", 77))


@case("dimension 'x_0': its name has 100000 characters")
def a_name_of_a_dimension_without_end() -> ModelProto:
    return edited(lambda graph: setattr(graph.input[0].type.tensor_type.shape.dim[0], "dim_param", "n" * 100000))


# ---- tensors ----


@case("initializer 'w': its data doesn't fit float32")
def data_that_are_too_short() -> ModelProto:
    return edited(lambda graph: graph.initializer[0].dims.__setitem__(0, 5), w=FLOATS)


@case("initializer 'w': its data doesn't fit float32")
def data_of_terabytes() -> ModelProto:
    return edited(lambda graph: graph.initializer[0].dims.__setitem__(0, HUGE), w=FLOATS)


@case(r"initializer 'w': shape \[-3\] has negative sizes")
def data_of_a_negative_size() -> ModelProto:
    return edited(lambda graph: graph.initializer[0].dims.__setitem__(0, -3), w=FLOATS)


@case("initializer 'w': 99 isn't an ONNX element type")
def data_of_an_unknown_dtype() -> ModelProto:
    return edited(lambda graph: setattr(graph.initializer[0], "data_type", 99), w=FLOATS)


@case("initializer 'w'.*int4")
def four_bits_of_terabytes() -> ModelProto:
    def edit(graph: Any) -> None:
        graph.initializer.add(name="w", data_type=TensorProto.INT4, dims=[HUGE], raw_data=b"\x00")

    return edited(edit)


@case("a sparse tensor of shape .* with 1 values is too large to store as a dense one")
def a_sparse_tensor_of_terabytes() -> ModelProto:
    def edit(graph: Any) -> None:
        values, indices = (helper.make_tensor(n, t, [1], [1]) for n, t in (("s", TensorProto.FLOAT), ("i", 7)))
        graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [HUGE]))

    return edited(edit)


def sparse(shape: list[int], indices: Any, values: Any = (1.0,)) -> ModelProto:
    """Adds a sparse initializer."""

    def edit(graph: Any) -> None:
        stored = onnx.numpy_helper.from_array(np.array(values, np.float32), "s")
        places = onnx.numpy_helper.from_array(np.array(indices), "i")
        graph.sparse_initializer.append(helper.make_sparse_tensor(stored, places, shape))

    return edited(edit)


SPARSE: dict[str, tuple[ModelProto, str]] = {
    "an index far beyond": (sparse([4], [2**62]), r"of shape \[4\] has no element \[4611686018427387904\]"),
    "an index beyond": (sparse([4], [4]), "has no element"),
    "an index below": (sparse([4], [-1]), "has no element"),
    "coordinates beyond": (sparse([2, 3], [[1, 3]]), r"has no element \[1, 3\]"),
    "too few coordinates": (sparse([2, 3], [[1]]), "needs a vector of values and int64 indices"),
    "too few indices": (sparse([4], [1], [1.0, 2.0]), "needs a vector of values"),
    "indices that are fractions": (sparse([4], [1.0]), "needs a vector of values and int64 indices"),
    "values of a matrix": (sparse([4], [1], [[1.0]]), "needs a vector of values"),
    "no axes": (sparse([], [0]), "can't|too large|needs"),
    "a negative size": (sparse([-4], [0]), "too large|negative"),
}


@pytest.mark.parametrize("name", SPARSE)
def test_sparse_tensors_that_do_not_fit(name: str) -> None:
    hostile, message = SPARSE[name]
    with limited(), pytest.raises(ConversionError, match=message):
        from_onnx(hostile)


# ---- attributes ----


def attribute_case(name: str, graph: str, message: str, edit: Callable[[AttributeProto], Any]) -> None:
    CASES[name] = lambda: edited(lambda g: edit(g.node[0].attribute[0]), graph), message


SOFTMAX = "net (float[3] x) => (float[3] y) { y = Softmax<axis = 0>(x) }"
TRANSPOSE = "net (float[3, 2] x) => (float[2, 3] y) { y = Transpose<perm = [1, 0]>(x) }"


def _text(attribute: AttributeProto) -> None:
    attribute.CopyFrom(helper.make_attribute(attribute.name, "text"))


attribute_case("a string for a number", SOFTMAX, "attribute 'axis' must be int, given string", _text)
attribute_case("a string for numbers", TRANSPOSE, "attribute 'perm' must be ints, given string", _text)
attribute_case("an unknown attribute", SOFTMAX, r"attribute 'wrong'", lambda a: setattr(a, "name", "wrong"))
attribute_case("a type of attribute that there is not", SOFTMAX, "given undefined", lambda a: setattr(a, "type", 0))
attribute_case("numbers without end", TRANSPOSE, "permutation", lambda a: a.ints.extend([0] * 10**6))
text_case(
    "a sequence of sequences",
    "net (float[3] x) => (float[3] y) "
    "{ s = SequenceConstruct(x) t = SequenceConstruct(s) y = ConcatFromSequence<axis = 0>(t) }",
    "needed a tensor as operand 1, given a sequence",
)
text_case("an operand left out", "net (float[3] x) => (float[3] y) { y = Max(x, , x) }", "an operand is missing in")
text_case("an attribute left out", "net (float[3] x) => (float[3] y) { y = Concat(x, x) }", "the attribute 'axis'")

# ---- what is computed on import ----

text_case(
    "a constant of terabytes",
    "net (float[3] x) => (float y) { c = ConstantOfShape(n) y = ReduceSum(c) }",
    "would take 4 TB; this machine has",
    n=np.array([HUGE]),
)
text_case(
    "a range of terabytes",
    "net (float[3] x) => (int64[n] y) { y = Range(a, b, c) }",
    "would take 8 TB",
    a=np.array(0), b=np.array(HUGE), c=np.array(1),
)  # fmt: skip
text_case(
    "expanded to terabytes", "net (float[1] x) => (float[n] y) { y = Expand(x, n) }", "would take", n=np.array([HUGE])
)
text_case("tiled to terabytes", "net (float[3] x) => (float[n] y) { y = Tile(x, n) }", "would take", n=np.array([HUGE]))
text_case(
    "padded to terabytes", "net (float[3] x) => (float[n] y) { y = Pad(x, n) }", "would take", n=np.array([HUGE, 0])
)
text_case(
    "resized to terabytes",
    "net (float[1, 1, 2, 2] x) => (float[a, b, c, d] y) { y = Resize(x, , , n) }",
    "would take|a table of",
    n=np.array([1, 1, HUGE, 2]),
)
text_case(
    "one-hot of terabytes",
    "net (int64[3] x) => (float[3, n] y) { y = OneHot(x, n, v) }",
    "would take",
    n=np.array(HUGE), v=np.array([0, 1], np.float32),
)  # fmt: skip
text_case(
    "doubled without end",
    "net (float[3] x) => (float[n] y) { a0 = Identity(n) "
    + "".join(f"a{i + 1} = Concat<axis = 0>(a{i}, a{i})" for i in range(50))
    + " y = Cast<to = 1>(a50) }",
    "would take",
    n=np.array([1, 2]),
)
text_case(
    "symbolic sizes doubled without end",
    "net (float[n] x) => (float[k] y) { a0 = Shape(x) "
    + "".join(f"a{i + 1} = Concat<axis = 0>(a{i}, a{i})" for i in range(50))
    + " y = Cast<to = 1>(a50) }",
    "would take",
)
text_case(
    "the larger of a size and nothing",
    "net (float[n] x) => (int64[1] y) { s = Shape(x) y = Max(s, , s) }",
    "is missing in",
)
text_case(
    "a split into a million million pieces",
    "net (float[3] x) => (float[3] y) { y = Split<num_outputs = 1000000000000>(x) }",
    "needed sizes, or 1 to 65536 outputs, given 1000000000000",
)
text_case(
    "a transform of a million points",
    "net (float[1, 3, 1] x) => (float[1, n, 2] y) { y = DFT(x, n) }",
    "a table of 1000000 x 1000000 numbers",
    n=np.array(10**6),
)
text_case(
    "a sequence of a million million pieces",
    "net (float[1] x) => (float y) { e = Expand(x, n) s = SplitToSequence(e) y = SequenceAt(s, z) }",
    "would take|pieces of a sequence",
    n=np.array([10**9 * 2]), z=np.array(0),
)  # fmt: skip


attribute_case(
    "an axis beyond all tensors", SOFTMAX, "'axis' must be -64 to 63, given 64", lambda a: setattr(a, "i", 64)
)
text_case(
    "batch_dims below all tensors",
    "net (float[2, 2] x, int64[1, 1] i) => (float[a, b] y) { y = GatherND<batch_dims = -2147483648>(x, i) }",
    "attribute 'batch_dims' must be 0 to 63, given -2147483648",
)
text_case(
    "an attribute out of range by way of a function",
    "net (float[2, 2] x, int64[1, 1] i) => (float[a, b] y) { y = f.g<d = -1>(x, i) }",
    "attribute 'batch_dims' must be 0 to 63, given -1",
)
text_case(
    "text as an attribute that newer opsets take as an operand",
    'net (float[2, 2] x) => (float[a, b] y) { y = ReduceSum<axes = "0">(x) }',
    "attribute 'axes' must be numbers, given string",
)
for operator in ("Reshape", "Unsqueeze", "Squeeze", "ReduceSum", "Expand", "Tile", "Gather", "ConstantOfShape"):
    text_case(
        f"numbers with fractions as an operand of {operator}",
        f"net (float[2, 3] x) => (float[a] y) {{ y = {operator}({'' if operator == 'ConstantOfShape' else 'x, '}s) }}",
        "needed integers as operand .*, given float32",
        s=np.array([6.0], np.float32),
    )
text_case(
    "axes with fractions that are computed",
    "net (float[2] x) => (float[a, b] y) { y = Unsqueeze(x, x) }",
    "needed integers as operand 2, given float32",
)
text_case(
    "a split into fewer pieces than it has outputs, which ends onnx's inference with the process",
    "net (float[4] x, int64[2] s) => (float[a] y, float[b] z, float[c, d] w) "
    "{ w = Reshape(x, s) y, z = Split<num_outputs = 1>(x) }",
    "value 'z' is used before anything computes it",
)
CASES["an attribute given twice"] = (
    lambda: edited(lambda g: g.node[0].attribute.append(g.node[0].attribute[0]), SOFTMAX),
    "an attribute is given twice",
)


def _with_function(name: str, function: str) -> None:
    make, message = CASES[name]

    def made() -> ModelProto:
        hostile = make()
        hostile.functions.append(onnx.parser.parse_function(function))
        hostile.opset_import.append(helper.make_opsetid("f", 1))
        return hostile

    CASES[name] = made, message


_with_function(
    "an attribute out of range by way of a function",
    '<domain: "f", opset_import: ["": 18]> g <d> (x, i) => (y) { y = GatherND<batch_dims: int = @d>(x, i) }',
)


def tf_idf(**changes: Any) -> ModelProto:
    """Counts of the words 2 and 3, and of the pair 5, 4, among six; with other attributes."""
    attributes: dict[str, Any] = {
        "mode": "TF", "min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 1,
        "ngram_counts": [0, 2], "ngram_indexes": [0, 1, 2], "pool_int64s": [2, 3, 5, 4],
    }  # fmt: skip
    node = helper.make_node("TfIdfVectorizer", ["x"], ["y"], **{**attributes, **changes})
    inputs = [helper.make_tensor_value_info("x", TensorProto.INT64, [6])]
    return helper.make_model(
        helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3])])
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ngram_counts": [0, 2**31 - 1]}, "ngram_counts must rise"),
        ({"ngram_counts": [-1, 2]}, "ngram_counts must rise"),
        ({"ngram_indexes": [0, 1, -1]}, "needed 3 ngram_indexes"), ({"ngram_indexes": [0]}, "needed 3 ngram_indexes"),
        ({"weights": [1.0]}, "needed 3 weights"), ({"mode": "x"}, "needed the mode TF, IDF or TFIDF, given 'x'"),
        ({"min_gram_length": -5}, "needed min_gram_length"),
    ],
)  # fmt: skip
def test_pools_of_words(changes: dict[str, Any], message: str) -> None:
    with limited(seconds=5), pytest.raises(ConversionError, match=message):
        from_onnx(tf_idf(**changes))


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ('Resize(x, "", c)', "needed 4 scales or sizes, given 1000"),
        ('Resize <mode = "linear"> (x, "", c)', "needed 4 scales or sizes, given 1000"),
        ("Pad(x, n)", "needed 8 pads, given 1000"),
        ("Tile(x, n)", "needed 4 repeats, given 1000"),
    ],
)
def test_a_message_counts_what_is_too_much(node: str, message: str) -> None:
    made = model(f"net (float[1, 1, 2, 4] x, float[1000] c, int64[1000] n) => (float[1, 1, 2, 4] y) {{ y = {node} }}")
    program = from_onnx(made)
    inputs = [np.ones(tuple(v.shape), v.dtype) for v in program.inputs]
    with pytest.raises(CellbridgeError, match=message) as raised:
        execute(program, inputs)
    assert len(str(raised.value)) < 1000


def test_words_are_skipped_as_far_as_there_are_words() -> None:
    program = from_onnx(tf_idf(max_skip_count=2**31 - 1, max_gram_length=2**31 - 1))
    with limited(seconds=5):
        (counts,) = execute(program, [np.array([5, 2, 4, 3, 3, 4])])
    np.testing.assert_array_equal(counts, [1, 2, 2])


def test_all_integers_of_operators_have_limits_that_their_defaults_keep() -> None:
    for schema in onnx.defs.get_all_schemas_with_history():
        for name, attribute in schema.attributes.items():
            default = onnx.helper.get_attribute_value(attribute.default_value) if attribute.default_value.name else 0
            low, high = schemas.LIMITS.get(name, schemas.OTHERS)
            assert low < high, name
            if attribute.default_value.name and isinstance(default, int) and schema.domain == "":
                assert low <= default <= high, (schema.name, name)


@pytest.mark.parametrize("name", schemas.LIMITS)
def test_limits_are_of_attributes_that_there_are(name: str) -> None:
    assert any(name in schema.attributes for schema in onnx.defs.get_all_schemas_with_history())


@pytest.mark.parametrize("name", CASES)
def test_hostile_models_are_refused(name: str) -> None:
    make, message = CASES[name]
    hostile = make()
    with limited(seconds=20), pytest.raises(CellbridgeError, match=message) as raised:
        from_onnx(hostile)
    assert len(str(raised.value)) < 10_000, "nobody reads it all"


def test_inputs_that_an_operator_needs_are_asked_for() -> None:
    """Each is left out in turn: of some operators, an earlier version has an attribute instead."""
    single = onnx.defs.OpSchema.FormalParameterOption.Single
    for schema in (s for s in onnx.defs.get_all_schemas() if s.domain in ("", "ai.onnx.ml")):
        needed = [i for i, parameter in enumerate(schema.inputs) if parameter.option == single]
        for at in needed:
            names = ["" if i == at else "x" for i in range(len(needed))]
            node = helper.make_node(schema.name, names, ["y"], domain=schema.domain)
            values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in "xy"]
            opsets = [helper.make_opsetid("", onnx.defs.onnx_opset_version()), helper.make_opsetid("ai.onnx.ml", 5)]
            graph = helper.make_graph([node], "g", values[:1], values[1:])
            with pytest.raises(ConversionError, match=f"{schema.inputs[at].name} is missing|operator"):
                from_onnx(helper.make_model(graph, opset_imports=opsets))


def test_attributes_that_an_operator_needs_are_asked_for() -> None:
    """TopK's K is an attribute up to version 9."""
    made = model("net (float[3] x) => (float[3] y, int64[3] i) { y, i = TopK(x) }", opset=9)
    with pytest.raises(ConversionError, match="needed the attribute 'k'"):
        from_onnx(made)


@pytest.mark.parametrize("operator", ["Relu", "RandomUniformLike", "EyeLike", "ConstantOfShape", "Shape"])
def test_a_sequence_is_no_tensor(operator: str) -> None:
    made = model(f"net (seq(float[3]) s) => (float[n] y) {{ y = {operator}(s) }}")
    with pytest.raises(ConversionError, match="needed a tensor as operand 1, given a sequence"):
        from_onnx(made)


def field(number: int, content: bytes) -> bytes:
    """A field of a protobuf message: bytes, or a message within it."""
    length = len(content)
    varint = b""
    while length >= 128:
        varint, length = varint + bytes([length % 128 + 128]), length // 128
    return bytes([*_varint(number << 3 | 2)]) + varint + bytes([length]) + content


def _varint(number: int) -> list[int]:
    return [number] if number < 128 else [number % 128 + 128, number // 128]


@pytest.mark.parametrize("content", [b"", b"hello", bytes([8, 9])])
def test_a_file_that_is_no_model_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "m.onnx").write_bytes(content)
    with pytest.raises(ConversionError, match=r"m\.onnx isn't an ONNX model, or it is cut off"):
        from_onnx(tmp_path / "m.onnx")


@pytest.mark.parametrize("depth", [200, 3000])
def test_sub_graphs_nested_without_end(tmp_path: Path, depth: int) -> None:
    graph = b""
    for _ in range(depth):
        branch = field(1, b"then_branch") + field(6, graph) + bytes([160, 1, 5])  # name, g, type = GRAPH
        graph = field(1, field(4, b"If") + field(5, branch))  # node: op_type, attribute
        if len(graph) > 2**22:
            break
    (tmp_path / "m.onnx").write_bytes(bytes([8, 9]) + field(7, graph))
    with limited(), pytest.raises(ConversionError, match="isn't an ONNX model, or it is cut off"):
        from_onnx(tmp_path / "m.onnx")


def test_loops_in_loops_that_are_put_in_line(monkeypatch: pytest.MonkeyPatch) -> None:
    hostile = model(LOOPS, m=np.array(200), n=np.array(0))
    monkeypatch.setattr(importer, "MAX_NODES", 2000)
    with limited(), pytest.raises(ConversionError, match="functions inlined, the model has more than 2000 nodes"):
        from_onnx(hostile)


# ---- what looks odd and is fine ----


def test_products_of_sums_of_sizes_are_left_to_the_run() -> None:
    count = 20
    inputs = ", ".join(f"float[a{i}, b{i}] x{i}" for i in range(count))
    sums = "".join(f"s{i} = Shape(x{i}) t{i} = ReduceSum<keepdims = 0>(s{i})" for i in range(count))
    products = "p0 = Identity(t0)" + "".join(f"p{i} = Mul(p{i - 1}, t{i})" for i in range(1, count))
    hostile = model(f"net ({inputs}) => (float y) {{ {sums} {products} y = Cast<to = 1>(p{count - 1}) }}")
    with limited():
        program = from_onnx(hostile)
    assert program(*[np.ones((1, 1), np.float32)] * count) == 2.0**count


@pytest.mark.parametrize(
    "name",
    ["9**9**9", "(" * 400 + "n" + ")" * 400, "-" * 900 + "n", "n//0", "n%0", "-5", "import", "a b", "__import__('os')",
     "max(" * 50 + "n" + ",1)" * 50, "*".join(["(a+b+c)"] * 30), "9" * 999],
)  # fmt: skip
def test_names_of_dimensions_are_never_more_than_names(name: str) -> None:
    def edit(graph: Any) -> None:
        for info in (*graph.input, *graph.output):
            info.type.tensor_type.shape.dim[0].dim_param = name

    with limited():
        program = from_onnx(edited(edit))
    assert program(FLOATS).shape == (3,)


def test_a_size_of_minus_one_is_unknown() -> None:
    hostile = edited(lambda graph: setattr(graph.input[0].type.tensor_type.shape.dim[0], "dim_value", -1))
    assert from_onnx(hostile)(np.ones(5, np.float32)).shape == (5,)


def test_names_of_nodes_are_no_paths_without_end() -> None:
    with limited():
        program = from_onnx(edited(lambda graph: setattr(graph.node[0], "name", "/a" * 10**5 + "/Relu")))
    assert len(program.calls) == 1


def test_metadata_are_data() -> None:
    def edit(graph: Any) -> None:
        graph.node[0].metadata_props.add(key="pkg.torch.onnx.name_scopes", value="[" * 10**6)
        graph.node[0].metadata_props.add(key="pkg.torch.onnx.class_hierarchy", value="__import__('os').abort()")

    with limited():
        assert len(from_onnx(edited(edit)).calls) == 1


VECTORS = {
    "an input": f"net (float[{2**28}] x) => (float[m] y) {{ y = Slice(x, a, b) }}",
    "a reshaped one": f"net (float[{2**14}, {2**14}] x) => (float[m] y) {{ z = Reshape(x, r) y = Slice(z, a, b) }}",
    "one of a length that is computed": f"""net (float[{2**28}, 1] x, float[1] o) => (float[m] y) {{
        s = Shape(x) n = Slice(s, a, one) e = Expand(o, n) y = Slice(e, a, b)
    }}""",
    "one of a product": """net (float[n] x, float[1] o) => (float[m] y) {
        p = Mul(k, k) e = Expand(o, p) y = Slice(e, a, b)
    }""",
    "one in a branch": f"""net (float[{2**28}] x, bool c) => (float[m] y) {{
        y = If(c) <then_branch = t () => (float[m] p) {{ p = Slice(x, a, b) }},
                   else_branch = e () => (float[m] q) {{ q = Slice(x, a, b) }}>
    }}""",
}


@pytest.mark.parametrize("name", VECTORS)
def test_long_vectors_are_no_shapes(name: str) -> None:
    given = {"a": [0], "b": [5], "r": [-1], "one": [1], "k": [2**14]}
    hostile = model(
        VECTORS[name], **{key: np.array(value) for key, value in given.items() if f"{key}" in VECTORS[name]}
    )
    with limited(seconds=20, memory=2**31):
        program = from_onnx(hostile)
    assert program.outputs[0].shape == (5,)


def test_a_window_is_no_larger_than_the_channels() -> None:
    x = np.random.default_rng(0).standard_normal((2, 5, 3, 3)).astype(np.float32)
    for size in (1, 3, 7, 9, 11, 10**6 + 1):
        made = model(f"net (float[2, 5, 3, 3] x) => (float[2, 5, 3, 3] y) {{ y = LRN<size = {size}, alpha = 7.0>(x) }}")
        with limited():
            (result,) = (from_onnx(made)(x),)
        half = (size - 1) // 2
        sums = np.stack([(x[:, max(0, c - half) : c + half + 1] ** 2).sum(1) for c in range(5)], 1)
        np.testing.assert_allclose(result, x / (1 + 7.0 / size * sums) ** 0.75, rtol=1e-5)


# ---- files ----


def external(location: str, **entries: Any) -> ModelProto:
    def edit(graph: Any) -> None:
        tensor = graph.initializer[0]
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in {"location": location, **entries}.items():
            tensor.external_data.add(key=key, value=str(value))

    return edited(edit, "net (float[3] x) => (float[3] y) { y = Add(x, w) }", w=FLOATS)


@pytest.mark.parametrize(
    "location", ["../secret", "folder/../../secret", "{folder}/../secret", "link", "folder/link", "loop", "", ".",
                 "folder", "pipe", "a\0b", "x" * 5000, "/dev/zero", "/proc/self/mem"],
)  # fmt: skip
def test_external_data_outside_of_the_folder(tmp_path: Path, location: str) -> None:
    (tmp_path / "secret").write_bytes(FLOATS.tobytes())
    home = tmp_path / "home"
    (home / "folder").mkdir(parents=True)
    (home / "link").symlink_to(tmp_path / "secret")
    (home / "folder" / "link").symlink_to("../../secret")
    (home / "loop").symlink_to("loop")
    os.mkfifo(home / "pipe")
    onnx.save(external(location.format(folder=home)), home / "model.onnx")
    with limited(), pytest.raises(ConversionError, match=r"'w': its data .* is no file in the folder of the model"):
        from_onnx(home / "model.onnx")


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"offset": 1}, "needs 12 bytes at offset 1, but w.bin has 12"),
        ({"offset": 2**60}, "needs 12 bytes at offset 1152921504606846976"),
        ({"offset": -4}, "offset of its external data must be a number of bytes, given '-4'"),
        ({"offset": "9" * 5000}, "must be a number of bytes"),
        ({"length": 11}, "takes 12 bytes, but its external data has length 11"),
        ({"length": 10**13}, "takes 12 bytes"),
        ({"length": "twelve"}, "length of its external data must be a number of bytes, given 'twelve'"),
    ],
)
def test_external_data_beyond_the_file(tmp_path: Path, entries: Any, message: str) -> None:
    (tmp_path / "w.bin").write_bytes(FLOATS.tobytes())
    onnx.save(external("w.bin", **entries), tmp_path / "model.onnx")
    with limited(), pytest.raises(ConversionError, match=message):
        from_onnx(tmp_path / "model.onnx")


def test_external_data_cut_off_after_it_was_read(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(FLOATS.tobytes())
    onnx.save(external("w.bin"), tmp_path / "model.onnx")
    program = from_onnx(tmp_path / "model.onnx")
    (tmp_path / "w.bin").write_bytes(b"")
    np.testing.assert_array_equal(program(FLOATS), 2 * FLOATS)


def test_external_data_cut_off_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "w.bin").write_bytes(FLOATS.tobytes())
    onnx.save(external("w.bin"), tmp_path / "model.onnx")
    monkeypatch.setattr(protos, "check_memory", lambda *_: (tmp_path / "w.bin").write_bytes(b"1234"))
    with pytest.raises(ConversionError, match="was cut off while it was read"):
        from_onnx(tmp_path / "model.onnx")


def test_external_data_in_a_file_of_holes(tmp_path: Path) -> None:
    with open(tmp_path / "w.bin", "wb") as file:
        file.truncate(2**42)
    made = external("w.bin")
    made.graph.initializer[0].dims[0] = 2**40
    onnx.save(made, tmp_path / "model.onnx")
    with limited(), pytest.raises(CellbridgeError, match=r"would take 4\.4 TB"):
        from_onnx(tmp_path / "model.onnx")


def test_every_truncation_is_refused_or_is_a_model(tmp_path: Path) -> None:
    whole = model(RELU).SerializeToString()
    (tmp_path / "m.onnx").write_bytes(whole)
    for length in range(len(whole)):
        (tmp_path / "m.onnx").write_bytes(whole[:length])
        with limited(), pytest.raises(CellbridgeError):
            from_onnx(tmp_path / "m.onnx")


def test_the_limits_hold() -> None:
    with pytest.raises(MemoryError), limited(memory=2**28):
        np.ones(2**28)
    with pytest.raises(TimeoutError), limited(seconds=0.05):
        signal.pause()
