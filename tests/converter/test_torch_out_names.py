"""Names of a program in the modules that it becomes: they are data, whatever stands in them."""

from __future__ import annotations

import copy
import io
import keyword
import pickle
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import helper, numpy_helper
from torch import Tensor, nn

from cellbridge.converter import from_onnx, from_torch, to_torch
from cellbridge.converter.structure.naming import identifier, is_harmless
from cellbridge.converter.structure.program_names import named_buffers, named_modules, named_parameters
from cellbridge.runtime import load
from cellbridge.runtime.errors import ConversionError
from cellbridge.runtime.ir.dims import symbol
from cellbridge.runtime.ir.program import Program
from cellbridge.runtime.ir.types import CellCall, Node, Value
from cellbridge.runtime.namespace import Namespace
from cellbridge.runtime.tree import TENSOR, Structure

PAYLOADS = (
    'w{n}", open("OWNED{n}", "w")) if True else getattr(self, "w{n}',
    "x{n}'\n__import__('os').system('touch OWNED{n}')\n#",
    "x{n}): pass\nopen('OWNED{n}', 'w')\ndef f(",
    "x{n}=open('OWNED{n}','w')",
    "{{open('OWNED{n}', 'w')}}{n}",
    "__class__{n}",
    "lambda",
    "ﬁ{n}",
    "",
)


@pytest.fixture(params=PAYLOADS, ids=range(len(PAYLOADS)))
def payload(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Gives names with the payload, each another; nothing may be in the folder when they were used."""
    monkeypatch.chdir(tmp_path)
    count = iter(range(1000))
    yield lambda: request.param.replace("{{", "{").replace("}}", "}").replace("{n}", str(next(count)))
    assert [path.name for path in tmp_path.iterdir()] == []


def hostile_model(name: Any) -> onnx.ModelProto:
    """relu(x w^T + b), every name in it being one of those."""
    x, h, y, rows, graph = name(), name() + "h", name() + "y", name() + "rows", name() or "graph"
    x = x or "x"
    w = numpy_helper.from_array(np.arange(12, dtype=np.float32).reshape(4, 3) - 5, name() + "w")
    b = numpy_helper.from_array(np.arange(4, dtype=np.float32), name() + ".b")
    inner, outer = name().replace("/", "|"), name().replace("/", "|")
    nodes = [
        helper.make_node("Gemm", [x, w.name, b.name], [h], name=f"/{outer}/{inner}/Gemm", transB=1),
        helper.make_node("Relu", [h], [y], name=f"/{outer}./Relu"),
    ]
    inputs = [helper.make_tensor_value_info(x, onnx.TensorProto.FLOAT, [rows, 3])]
    outputs = [helper.make_tensor_value_info(y, onnx.TensorProto.FLOAT, [rows, 4])]
    made = helper.make_graph(nodes, graph, inputs, outputs, [w, b])
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def assert_harmless(module: nn.Module) -> None:
    parts = {part for name in (*module.state_dict(), *dict(module.named_modules())) for part in name.split(".")}
    assert all(part == "" or is_harmless(part) for part in parts)
    for _, inner in module.named_modules():
        assert type(inner).__name__.isidentifier()


@pytest.mark.every(3)
def test_names_of_an_onnx_file(payload: Any) -> None:
    program = from_onnx(hostile_model(payload))
    x = torch.randn(2, 3)
    w, b = (torch.from_numpy(np.array(parameter.data)) for parameter in program.parameters.values())
    expected = torch.relu(x @ w.T + b)
    module = to_torch(program)
    assert_harmless(module)
    for made in (module, copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        y = made(x)
        torch.testing.assert_close(y, expected)
        y.sum().backward()
        assert all(p.grad is not None for p in made.parameters())
        assert [name for name, _ in named_parameters(made)] == list(program.parameters)
        assert {path for path, _, _ in named_modules(made)} >= {call.path for call in program.calls}
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    torch.testing.assert_close(torch.load(file, weights_only=False)(x), expected)
    for inner in module.modules():
        assert_only_literals(getattr(inner, "code", ""))
    exported = torch.export.export(module, (x,))
    if payload() != "lambda":  # of such a module torch itself writes code that is none
        torch.testing.assert_close(exported.module()(x), expected)
    captured = from_torch(module, (x,))
    assert list(captured.parameters) == list(program.parameters)
    assert [call.path for call in captured.calls] == [call.path for call in program.calls]
    torch.testing.assert_close(to_torch(captured)(x), expected)


def assert_only_literals(code: str) -> None:
    """No name of the payload stands in the text as itself."""
    outside = re.sub(r"'(\\.|[^'\\])*'|\"(\\.|[^\"\\])*\"", "''", code)
    assert "open(" not in outside
    assert "__import__(" not in outside
    if code:
        compile(code, "code", "exec")  # it is whole; only compiled


@pytest.mark.slow
def test_torch_compile_of_such_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    count = iter(range(1000))
    program = from_onnx(hostile_model(lambda: PAYLOADS[0].replace("{n}", str(next(count)))))
    module, x = to_torch(program), torch.randn(2, 3)
    torch.testing.assert_close(torch.compile(module, backend="eager")(x), module(x))
    exported = torch.export.export(module, (x,), strict=True)
    torch.testing.assert_close(exported.module()(x), module(x))
    assert [path.name for path in tmp_path.iterdir()] == []


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([1.0, -2.0, 3.0]))
        self.register_buffer("count", torch.tensor(0.0))

    def forward(self, x: Tensor, scale: Tensor) -> Tensor:
        self.count.add_(1)
        return x * self.weight * scale


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()

    def forward(self, x: Tensor, *, scale: Tensor, option: str = "plain") -> dict[str, Tensor]:
        y = self.inner(x, scale)
        condition = torch.cond(y.sum() > 0, lambda y: y.exp(), lambda y: y.sin(), (y,))
        return {"result": y + x.shape[0], "condition": condition}


def with_names(program: Program, name: Any) -> Program:
    """The program with other names in every place."""
    values: dict[Value, Value] = {}
    cells = {call.path: f"{name()}." if call.path else "" for call in program.calls}

    def new(value: Value) -> Value:
        if value not in values:
            shape = tuple(symbol(name() or "s") if not isinstance(dim, int) else dim for dim in value.shape)
            values[value] = Value(name() + str(len(values)), replace(value.type, shape=shape))
        return values[value]

    def node(old: Node) -> Node:
        attributes = {key: name() if key == "slot" else value for key, value in old.attributes.items()}
        inputs = tuple(None if value is None else new(value) for value in old.inputs)
        return Node(old.op, inputs, attributes, tuple(map(new, old.outputs)), old.cell, old.source)

    def renamed(stored: dict[str, Any]) -> dict[str, Any]:
        items = {}
        for key, item in stored.items():
            items[f"{cells[key.rpartition('.')[0]]}.{name()}{len(items)}"] = replace(item, value=new(item.value))
        return items

    positional, named = program.arguments.children
    keys = tuple(name() + str(i) for i in range(len(named.keys)))
    return program.replace(
        inputs=tuple(map(new, program.inputs)),
        outputs=tuple(map(new, program.outputs)),
        nodes=tuple(map(node, program.nodes)),
        parameters=renamed(program.parameters),
        buffers={
            key: replace(buffer, update=new(buffer.update) if buffer.update is not None else None)
            for key, buffer in renamed(program.buffers).items()
        },
        constants=tuple(replace(constant, value=new(constant.value)) for constant in program.constants),
        calls=tuple(CellCall(cells[c.path], name(), c.index, c.parent) for c in program.calls),
        arguments=replace(program.arguments, children=(positional, replace(named, keys=keys))),
        result=replace(program.result, keys=tuple(name() + str(i) for i in range(len(program.result.keys)))),
    )


@pytest.mark.slow
@pytest.mark.every(9)
def test_names_of_a_saved_program(payload: Any, tmp_path: Path) -> None:
    original, x, scale = Outer(), torch.randn(2, 3), torch.tensor(2.0)
    program = with_names(from_torch(original, (x,), {"scale": scale, "option": "plain"}), payload)
    program.save(tmp_path / "hostile.cell")
    program = load(tmp_path / "hostile.cell")
    (tmp_path / "hostile.cell").unlink()
    module = to_torch(program)
    assert_harmless(module)
    keys = program.arguments.children[1].keys
    expected = list(original(x, scale=scale).values())
    for variant in (module, copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        result = variant(x, **{keys[0]: scale})
        assert tuple(result) == program.result.keys
        for actual, expected_tensor in zip(result.values(), expected, strict=True):
            torch.testing.assert_close(actual, expected_tensor)
        sum(y.sum() for y in result.values()).backward()
        assert [(n, p.grad is not None) for n, p in named_parameters(variant)] == [
            (n, True) for n in program.parameters
        ]
        assert [n for n, _ in named_buffers(variant) if n in program.buffers] == list(program.buffers)
        assert [float(b) for n, b in named_buffers(variant) if n in program.buffers] == [1.0]
        for inner in variant.modules():
            assert_only_literals(getattr(inner, "code", ""))


def test_ordinary_names_stay() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.code = nn.Linear(3, 3)
            self.graph, self.bodies, self.elsewhere = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 3)
            self.blocks = nn.ModuleDict({"1x1": nn.Linear(3, 3), "conv-1": nn.Tanh(), "in": nn.Linear(3, 3)})
            self.blocks["a:b/c"] = nn.Linear(3, 3)
            self.scales = nn.ParameterDict({"x-y": nn.Parameter(torch.tensor(2.0)), "None": torch.tensor(3.0)})
            self._hidden = nn.Parameter(torch.ones(3))
            self.größe = nn.Parameter(torch.ones(3))

        def forward(self, input: Tensor, slice: Tensor) -> Tensor:
            x = self.elsewhere(self.bodies(self.graph(self.code(input)))) * slice
            for block in self.blocks.values():
                x = block(x)
            return x * self.scales["x-y"] * self.scales["None"] + self._hidden * self.größe

    net, args = Net(), (torch.randn(2, 3), torch.randn(3))
    module = to_torch(from_torch(net, args))
    assert list(module.state_dict()) == list(net.state_dict())
    module.load_state_dict(Net().state_dict())
    module.load_state_dict(net.state_dict())
    torch.testing.assert_close(module(*args), net(*args))
    torch.testing.assert_close(module(slice=args[1], input=args[0]), net(*args))
    assert list(from_torch(module, args).parameters) == list(net.state_dict())
    assert {path for path, _ in module.named_modules()} == {path for path, _ in net.named_modules()}


@pytest.mark.parametrize("names", [("a b", "a_b", "a_b_1"), ("a_b", "a b", "a\tb"), ("type", "type_1", "forward")])
def test_no_two_names_become_one(names: tuple[str, ...]) -> None:
    x = torch.randn(3)
    net = nn.Module()
    weights = [nn.Parameter(torch.tensor(float(i))) for i in range(3)]
    for i, weight in enumerate(weights):
        net.register_parameter(f"p{i}", weight)
    net.forward = lambda x: x * net.p0 + net.p1 - net.p2  # type: ignore[method-assign]
    program = from_torch(net, (x,))
    stored = zip(names, program.parameters.values(), strict=True)
    program = program.replace(parameters=dict(stored))
    module = to_torch(program)
    torch.testing.assert_close(module(x), net(x))
    assert [name for name, _ in named_parameters(module)] == list(names)
    assert {"a_b", "type_1"} & set(module.state_dict())
    assert len(set(module.state_dict())) == 3


def test_a_parameter_and_a_module_of_one_name() -> None:
    x = torch.randn(3)
    program = from_torch(Outer(), (x,), {"scale": x})
    (weight,), (count,) = program.parameters.values(), program.buffers.values()
    program = program.replace(parameters={"inner": weight}, buffers={"inner.count": count})
    module = to_torch(program)
    torch.testing.assert_close(module(x, scale=x)["result"], Outer()(x, scale=x)["result"])
    assert [name for name, _ in named_parameters(module)] == ["inner"]
    assert [name for name, _ in named_buffers(module) if name in program.buffers] == ["inner.count"]


def test_modules_with_empty_names_work() -> None:
    model = hostile_model(lambda: "a")
    model.graph.node[1].name = "/a./relu"
    model.graph.node[0].name = "/a../gemm"
    program = from_onnx(model)
    module, x = to_torch(program), torch.randn(2, 3)
    assert (module(x) >= 0).all()
    assert {path for path, _, _ in named_modules(module)} == {"", "a", "a.", "a.."}


def test_fields_of_named_tuples_are_identifiers() -> None:
    program = from_torch(nn.Linear(3, 2), (torch.ones(1, 3),))
    for name, key in (("Pair", "open('x','w')"), ("open('x','w')", "field"), ("Pair", "_hidden"), ("class", "field")):
        result = Structure("namedtuple", (TENSOR,), (key,), name)
        with pytest.raises(ValueError, match="can't be made"):
            to_torch(program.replace(result=result))(torch.ones(1, 3))
        with pytest.raises(ValueError, match="can't be made"):
            Structure.from_json(result.to_json())
    with pytest.raises(ValueError, match="can't be made"):
        Structure.from_json(Structure("dict", (TENSOR,), ("__class__",), "Config").to_json())


@pytest.mark.parametrize("text", ["x", "class", "a b", "1", "", "é", "ﬁ", "²", "⑴", "a" * 1000, "\ud800", "'", "__x__"])
def test_an_identifier_is_made_of_any_text(text: str) -> None:
    made = identifier(text)
    assert made.isidentifier()
    assert not keyword.iskeyword(made)
    assert is_harmless(made)
    assert identifier(made) == made


@pytest.mark.parametrize(
    ("text", "fallback", "made"),
    [("class", "x", "class_"), ("1x1", "x", "x_1x1"), ("1x1", "Module", "Module_1x1"), ("", "Module", "Module")],
)
def test_what_is_no_identifier_is_made_one(text: str, fallback: str, made: str) -> None:
    assert identifier(text, fallback) == made


def test_names_are_given_in_linear_time() -> None:
    names = Namespace()
    assert [names.unique("x") for _ in range(3)] == ["x", "x_1", "x_2"]
    assert len({names.unique("x") for _ in range(100_000)}) == 100_000


class Keyed(nn.Module):
    """Its inputs are a dict with any keys."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(3)

    def forward(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        (x,) = inputs.values()
        return {"y": nn.functional.dropout(self.norm(x)).view(-1)}


KEYS = ('x"); open("OWNED", "w"); ("', "x'); open('OWNED', 'w'); ('", "x\n", "\\", ("a", 'x"]'))


@pytest.mark.parametrize("key", KEYS)
def test_keys_of_inputs_that_torch_would_run_are_refused(
    key: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    x = torch.randn(4, 3)
    for shapes in (None, ({key: {0: "n"}},)):
        with pytest.raises(ConversionError, match=r"(?s)torch\.export can't take the input .*rename the input"):
            from_torch(Keyed(), ({key: x},), dynamic_shapes=shapes, train=True)
    program = from_torch(Keyed(), ({"x": x},))
    (inputs,) = program.arguments.children[0].children
    positional = replace(program.arguments.children[0], children=(replace(inputs, keys=(key,)),))
    program = program.replace(arguments=replace(program.arguments, children=(positional, Structure("dict"))))
    assert to_torch(program)({key: x})["y"].shape == (12,)
    assert [path.name for path in tmp_path.iterdir()] == []


def test_other_keys_are_taken() -> None:
    for key in ("a b", "x-y", "größe", "{x}", "x);(", "a/b:c"):
        program = from_torch(Keyed(), ({key: torch.randn(4, 3)},), dynamic_shapes=({key: {0: "n"}},), train=True)
        assert to_torch(program)({key: torch.randn(5, 3)})["y"].shape == (15,)
