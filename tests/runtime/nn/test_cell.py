"""`Cell`: what becomes of attributes, names, what can be asked of it, flags, and how it is shown."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest

import cellbridge.runtime as ms
from cellbridge.runtime import Parameter, ParameterTuple, Tensor, grad, nn


class Net(nn.Cell):
    """An own Parameter between two children, one of which has children too."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Dense(2, 3)
        self.scale = Parameter(Tensor([1.0, 1.0, 1.0]))
        self.rest = nn.SequentialCell([nn.ReLU(), nn.Dense(3, 1, has_bias=False)])

    def construct(self, x: Any) -> Any:
        return self.rest(self.first(x) * self.scale)


NAMES = ["scale", "first.weight", "first.bias", "rest.1.weight"]


def names(cell: nn.Cell) -> list[str]:
    return [parameter.name for parameter in cell.get_parameters()]


# ---- attributes ----


def test_parameters_and_cells_are_registered_where_they_are_assigned() -> None:
    net = Net()
    assert names(net) == NAMES
    assert [path for path, _ in net.cells_and_names()] == ["", "first", "rest", "rest.0", "rest.1"]
    net.number, net.listed = 3, [nn.Dense(1, 1), Parameter(Tensor([1.0]))]
    assert names(net) == NAMES
    assert net.number == 3
    assert {"number", "scale", "first", "construct"} <= set(dir(net))


def test_assigning_over_a_parameter() -> None:
    net = Net()
    before = net.scale
    net.scale = Tensor([4, 5, 6], ms.int32)  # its value, in its dtype
    assert net.scale is before
    assert (before.tolist(), str(before.dtype)) == ([4.0, 5.0, 6.0], "float32")
    net.scale = Parameter(Tensor([7.0]), name="other")
    assert net.scale is not before
    assert names(net)[0] == "other"
    net.scale = None
    assert net.scale is None
    assert names(net) == NAMES[1:]
    net.scale = Parameter(Tensor([1.0]))
    assert names(net) == NAMES


def test_assigning_over_a_child() -> None:
    net = Net()
    net.first = nn.Dense(2, 3, has_bias=False)  # in its place
    assert names(net) == ["scale", "first.weight", "rest.1.weight"]
    net.first = None
    assert net.first is None
    assert "first" not in net.name_cells()


def test_deleting() -> None:
    net = Net()
    net.number = 1
    del net.scale, net.first, net.number
    assert names(net) == ["rest.1.weight"]
    assert not hasattr(net, "scale")
    with pytest.raises(AttributeError):
        del net.scale


def test_a_parameter_tuple_registers_its_parameters() -> None:
    net = nn.Cell()
    net.both = ParameterTuple([Parameter(Tensor([1.0]), name="a"), Parameter(Tensor([2.0]), name="b")])
    assert names(net) == ["a", "b"]
    outer = nn.Cell()
    outer.net = net
    assert names(outer) == ["net.a", "net.b"]


@pytest.mark.parametrize(
    ("act", "error", "words"),
    [
        (lambda net: setattr(net, "scale", 3), TypeError, ["scale", "Parameter", "int"]),
        (lambda net: setattr(net, "scale", nn.ReLU()), TypeError, ["scale", "ReLU"]),
        (lambda net: setattr(net, "scale", Tensor([1.0])), ValueError, ["scale", "(3,)", "(1,)"]),
        (lambda net: setattr(net, "first", 3), TypeError, ["Sub cell", "first", "int"]),
        (lambda net: setattr(net, "first", Parameter(Tensor([1.0]))), TypeError, ["Sub cell", "first"]),
        (lambda net: net.unknown, AttributeError, ["Net", "unknown"]),
        (lambda net: nn.Cell()(1), AttributeError, ["construct", "Cell"]),
        (lambda net: net.insert_param_to_cell("", Parameter(1.0)), KeyError, ["param_name", "empty"]),
        (lambda net: net.insert_param_to_cell("a.b", Parameter(1.0)), KeyError, ["param_name", "dots", "a.b"]),
        (lambda net: net.insert_param_to_cell("construct", Parameter(1.0)), KeyError, ["Net", "construct"]),
        (lambda net: net.insert_param_to_cell("a", Tensor(1.0)), TypeError, ["param", "Parameter", "Tensor"]),
        (lambda net: net.insert_param_to_cell(3, Parameter(1.0)), TypeError, ["param_name", "str", "int"]),
        (lambda net: net.insert_child_to_cell("", nn.ReLU()), KeyError, ["child_name", "empty"]),
        (lambda net: net.insert_child_to_cell("a.b", nn.ReLU()), KeyError, ["child_name", "a.b"]),
        (lambda net: net.insert_child_to_cell("scale", nn.ReLU()), KeyError, ["child_name", "scale"]),
        (lambda net: net.insert_child_to_cell("a", 3), TypeError, ["child_cell", "Cell", "int"]),
        (lambda net: net.insert_child_to_cell(3, nn.ReLU()), TypeError, ["child_name", "str", "int"]),
        (lambda net: net.update_parameters_name(3), TypeError, ["prefix", "str", "int"]),
        (lambda net: net.to_float(ms.float64), ValueError, ["dst_type", "float16", "float64"]),
        (lambda net: net.to_float("number"), ValueError, ["dst_type", "'number'"]),
    ],
)
def test_refusals(act: Callable[[Any], Any], error: type[Exception], words: list[str]) -> None:
    net = Net()
    with pytest.raises(error) as raised:
        act(net)
    assert [word for word in words if word not in str(raised.value)] == []
    assert names(net) == NAMES


def test_nothing_can_be_registered_before_init() -> None:
    class Early(nn.Cell):
        def __init__(self, what: Any) -> None:
            self.what = what
            super().__init__()

    for what in (Parameter(1.0), nn.ReLU(), ParameterTuple([])):
        with pytest.raises(AttributeError, match=r"super\(\).__init__"):
            Early(what)

    class Never(nn.Cell):
        def __init__(self) -> None:
            pass

    with pytest.raises(AttributeError, match=r"super\(\).__init__"):
        Never()(1)


# ---- names ----


def test_names_are_paths_of_attributes() -> None:
    outer, inner = nn.Cell(), Net()
    inner.odd = Parameter(Tensor([1.0]), name="zz")
    assert names(inner)[:2] == ["scale", "zz"]
    outer.inner = inner
    assert names(outer) == ["inner.scale", "inner.odd", *("inner." + name for name in NAMES[1:])]
    assert [path for path, _ in outer.parameters_and_names()] == names(outer)
    assert [path for path, _ in inner.parameters_and_names("p")][:2] == ["p.scale", "p.odd"]
    assert [path for path, _ in inner.cells_and_names(name_prefix="p")][:2] == ["p", "p.first"]
    assert (outer.param_prefix, inner.param_prefix, inner.rest[1].param_prefix) == ("", "inner", "inner.rest.1")


def test_without_auto_prefix_names_stay() -> None:
    class Wrapper(nn.Cell):
        def __init__(self, net: nn.Cell) -> None:
            super().__init__(auto_prefix=False)
            self.net = net

    wrapper = Wrapper(Net())
    assert names(wrapper) == NAMES
    outer = nn.Cell()
    outer.wrapper = wrapper
    assert names(outer)[0] == "wrapper.net.scale"


def test_update_parameters_name() -> None:
    net = Net()
    net.update_parameters_name("a.")
    assert names(net) == ["a." + name for name in NAMES]
    net.update_parameters_name("b.")
    assert names(net) == ["b." + name for name in NAMES]
    net.update_parameters_name("")
    net.update_parameters_name("c.", recurse=False)
    assert names(net) == ["c.scale", *("b." + name for name in NAMES[1:])]


def test_inserting_children_and_parameters() -> None:
    net = nn.Cell()
    net.insert_child_to_cell("child", nn.Dense(1, 1, has_bias=False))
    net.insert_param_to_cell("p", Parameter(Tensor([1.0])))
    assert names(net) == ["p", "weight"]  # a child that is inserted keeps its names
    assert net.child is net.name_cells()["child"]
    net.insert_param_to_cell("p", Parameter(Tensor([2.0])))
    assert net.p.tolist() == [2.0]


# ---- what can be asked ----


def test_listing_parameters() -> None:
    net = Net()
    net.first.weight.requires_grad = False
    assert [p.name for p in net.trainable_params()] == ["scale", "first.bias", "rest.1.weight"]
    assert [p.name for p in net.untrainable_params()] == ["first.weight"]
    assert [p.name for p in net.get_parameters(expand=False)] == ["scale"]
    assert [p.name for p in net.trainable_params(recurse=False)] == ["scale"]
    assert isinstance(net.parameters_dict(), OrderedDict)
    assert list(net.parameters_dict()) == NAMES
    assert net.parameters_dict()["scale"] is net.scale
    assert not isinstance(net.get_parameters(), list)


def test_each_cell_and_parameter_is_listed_once() -> None:
    net = Net()
    net.again = net.first
    net.tied = nn.Dense(2, 3)
    net.tied.weight = net.first.weight
    assert list(net.name_cells()) == ["first", "rest", "tied"]
    assert [type(cell).__name__ for cell in net.cells()] == ["Dense", "SequentialCell", "Dense"]
    assert len(list(net.get_parameters())) == 5
    assert net.first.weight.name == "again.weight"  # the last attribute names it


def test_apply_goes_from_the_leaves_up() -> None:
    net, class_names = Net(), []
    assert net.apply(lambda cell: class_names.append(cell.cls_name)) is net
    assert class_names == ["Dense", "ReLU", "Dense", "SequentialCell", "Net"]


def test_repr_shows_the_tree() -> None:
    assert repr(Net()) == (
        "Net(\n"
        "  (first): Dense(input_channels=2, output_channels=3, has_bias=True)\n"
        "  (rest): SequentialCell(\n"
        "    (0): ReLU()\n"
        "    (1): Dense(input_channels=3, output_channels=1)\n"
        "  )\n"
        ")"
    )
    assert str(nn.Cell()) == "Cell()"

    class Sized(Net):
        def extend_repr(self) -> str:
            return "size=3"

    assert repr(Sized()).startswith("Sized(\n  size=3\n  (first): Dense(")


# ---- flags ----


def test_training_and_phase() -> None:
    net = Net()
    assert (net.training, net.phase, net.first.training) == (False, "train", False)
    assert net.set_train() is net
    assert (net.training, net.phase, net.rest[1].training) == (True, "train", True)
    net.set_train(False)
    assert (net.phase, net.first.phase, net.first.training) == ("predict", "train", False)
    net.first.set_train(1)  # type: ignore[arg-type]
    assert (net.training, net.first.training) == (False, True)


def test_added_flags_are_attributes() -> None:
    net = Net().add_flags(fp16=True)
    assert net.fp16
    assert net.add_flags_recursive(bar=1) is net
    assert net.get_flags() == {"fp16": True, "bar": 1}
    assert net.first.get_flags() == {"bar": 1}
    assert nn.Cell(flags={"z": 1}).get_flags() == {"z": 1}
    assert nn.Cell(flags={"z": 1}).z == 1


# ---- calls and copies ----


def test_calls_by_position_and_keyword() -> None:
    net = Net()
    x = Tensor([[1.0, 2.0]])
    assert net(x).shape == net(x=x).shape == (1, 1)
    with pytest.raises(TypeError, match="construct"):
        net()
    with pytest.raises(TypeError, match="construct"):
        net(x, x)


def test_a_copy_is_apart_and_ties_stay() -> None:
    net = Net()
    net.tied = nn.Dense(2, 3)
    net.tied.weight = net.first.weight
    class_names: list[str] = []
    net.register_forward_hook(lambda cell, inputs, output: class_names.append(cell.cls_name))
    net.group = ParameterTuple([net.scale])
    twin = copy.deepcopy(net)
    assert names(twin) == names(net)
    assert twin.tied.weight is twin.first.weight
    assert twin.group[0] is twin.scale
    assert twin.scale is not net.scale
    twin.scale.set_data(Tensor([5.0, 5.0, 5.0]))
    assert net.scale.tolist() == [1.0, 1.0, 1.0]
    x = Tensor([[1.0, 2.0]])
    grad(twin, None, twin.trainable_params())(x)
    assert class_names == ["Net"]  # its hooks are copied along
    twin.add = nn.ReLU()
    assert "add" not in net.name_cells()


def test_a_copy_of_something_frozen_in_training_is_so_too() -> None:
    net = Net().set_train().to_float(ms.float16)
    net.scale.requires_grad = False
    twin = copy.deepcopy(net)
    assert (twin.training, twin.first.training, twin.scale.requires_grad) == (True, True, False)
    assert twin(Tensor([[1.0, 2.0]])).dtype == ms.float16
