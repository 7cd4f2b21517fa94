"""Containers: what they take, how their children are named, and how both change."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest

from cellbridge.runtime import Tensor, nn, ops


def dense(size: int = 1) -> nn.Cell:
    return nn.Dense(size, size, has_bias=False)


def names(cell: nn.Cell) -> list[str]:
    return [parameter.name for parameter in cell.get_parameters()]


def sizes(cell: nn.Cell) -> list[int]:
    return [parameter.shape[0] for parameter in cell.get_parameters()]


def nested(container: nn.Cell) -> nn.Cell:
    outer = nn.Cell()
    outer.c = container
    return outer


# ---- SequentialCell ----


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (([dense(), dense()],), ["0.weight", "1.weight"]),
        ((dense(), dense()), ["0.weight", "1.weight"]),
        ((OrderedDict([("a", dense()), ("b", dense())]),), ["a.weight", "b.weight"]),
        ((), []),
        (([],), []),
    ],
)
def test_a_sequential_cell_is_made_of(args: Any, expected: list[str]) -> None:
    assert names(nn.SequentialCell(*args)) == expected


def test_cells_run_in_order() -> None:
    x = Tensor([[-1.0, 2.0]])
    doubling = nn.Dense(2, 2, weight_init=Tensor([[2.0, 0.0], [0.0, 2.0]]), has_bias=False)
    assert nn.SequentialCell([doubling, nn.ReLU()])(x).tolist() == [[0.0, 4.0]]
    assert nn.SequentialCell()(x) is x


def test_indexing_and_slices() -> None:
    cells = [dense(1), dense(2), dense(3)]
    for container in (nn.SequentialCell(cells), nn.CellList(cells)):
        assert len(container) == 3
        assert (container[0], container[-1]) == (cells[0], cells[2])
        assert list(container) == cells
        part = container[1:]
        assert type(part) is type(container)
        assert (list(part), names(part)) == (cells[1:], ["1.weight", "2.weight"])
        assert names(container) == ["0.weight", "1.weight", "2.weight"]


def test_changing_renames_what_follows() -> None:
    for make in (nn.SequentialCell, nn.CellList):
        container = make([dense(1), dense(2), dense(3)])
        outer = nested(container)
        del container[0]
        assert (names(outer), sizes(outer)) == (["c.0.weight", "c.1.weight"], [2, 3])
        container.append(dense(4))
        container[0] = dense(5)
        assert (names(outer), sizes(outer)) == (["c.0.weight", "c.1.weight", "c.2.weight"], [5, 3, 4])
        assert [path for path, _ in outer.cells_and_names()] == ["", "c", "c.0", "c.1", "c.2"]
        del container[-2:]
        assert sizes(outer) == [5]


def test_a_named_child_keeps_its_name() -> None:
    container = nn.SequentialCell(OrderedDict([("a", dense(1)), ("b", dense(2))]))
    del container[0]
    container.append(dense(3))
    assert names(container) == ["b.weight", "1.weight"]
    assert container.b is container[0]


def test_a_shared_cell_keeps_one_parameter() -> None:
    outer = nn.Cell()
    outer.conv = dense()
    outer.seq = nn.SequentialCell([outer.conv, nn.ReLU()])
    assert names(outer) == ["seq.0.weight"]
    assert [path for path, _ in outer.cells_and_names()] == ["", "conv", "seq", "seq.1"]


# ---- CellList ----


def test_a_list_grows() -> None:
    cells = nn.CellList([dense(1)])
    cells.append(dense(2))
    assert cells.extend([dense(3)]) is cells
    cells.insert(0, dense(4))
    cells.insert(-1, dense(5))
    cells += [dense(6)]
    assert sizes(cells) == [4, 1, 2, 5, 3, 6]
    assert names(cells) == [f"{i}.weight" for i in range(6)]
    assert len(nn.CellList()) == 0


def test_without_auto_prefix_names_stay() -> None:
    cells = nn.CellList([dense(), dense()], auto_prefix=False)
    assert names(cells) == ["weight", "weight"]


# ---- CellDict ----


def test_a_dictionary() -> None:
    cells = nn.CellDict({"a": dense(1), "b": dense(2)})
    cells["c"] = dense(3)
    assert (list(cells), list(cells.keys()), len(cells)) == (["a", "b", "c"], ["a", "b", "c"], 3)
    assert (names(cells), sizes(cells)) == (["a.weight", "b.weight", "c.weight"], [1, 2, 3])
    assert "a" in cells
    assert cells["b"] is list(cells.values())[1] is dict(cells.items())["b"]
    assert cells.pop("a").weight.shape == (1, 1)
    del cells["b"]
    cells.update([("z", dense(4)), ["y", dense(5)]])
    assert names(nested(cells)) == ["c.c.weight", "c.z.weight", "c.y.weight"]
    cells.clear()
    assert len(cells) == 0


# ---- what is refused ----


@pytest.mark.parametrize(
    ("act", "error", "words"),
    [
        (lambda: nn.SequentialCell((dense(),)), TypeError, ["SequentialCell", "list", "tuple"]),
        (lambda: nn.SequentialCell(3), TypeError, ["SequentialCell", "list", "int"]),
        (lambda: nn.SequentialCell({"a": dense()}), TypeError, ["OrderedDict", "dict"]),
        (lambda: nn.SequentialCell([ops.ReLU()]), TypeError, ["element", "Cell", "ReLU"]),
        (lambda: nn.SequentialCell(dense(), ops.relu), TypeError, ["element", "Cell", "function"]),
        (lambda: nn.SequentialCell([dense()])[1], IndexError, ["[-1, 1)", "1"]),
        (lambda: nn.SequentialCell([dense()])["a"], TypeError, ["index", "int", "str"]),
        (lambda: nn.SequentialCell([dense()]).append(3), TypeError, ["element", "Cell", "int"]),
        (lambda: nn.SequentialCell([dense()]).__setitem__(0, 3), TypeError, ["element", "Cell", "int"]),
        (lambda: nn.SequentialCell([dense()]).__setitem__(1, dense()), IndexError, ["[-1, 1)"]),
        (lambda: nn.SequentialCell([dense()]).__delitem__(1), IndexError, ["[-1, 1)"]),
        (lambda: nn.CellList(3), TypeError, ["CellList", "list", "int"]),
        (lambda: nn.CellList((dense(),)), TypeError, ["CellList", "list", "tuple"]),
        (lambda: nn.CellList([3]), TypeError, ["element", "Cell", "int"]),
        (lambda: nn.CellList([nn.CellDict()]), TypeError, ["CellDict"]),
        (lambda: nn.CellList([dense()])(1), NotImplementedError, ["CellList", "can't be called"]),
        (lambda: nn.CellList([dense()]).extend([dense(), 3]), TypeError, ["element", "Cell", "int"]),
        (lambda: nn.CellList([dense()]).insert(9, dense()), IndexError, ["[-1, 1]", "9"]),
        (lambda: nn.CellDict(3), TypeError, ["CellDict", "mapping", "int"]),
        (lambda: nn.CellDict({"a": 3}), TypeError, ["element", "Cell", "int"]),
        (lambda: nn.CellDict({3: dense()}), TypeError, ["key", "string", "int"]),
        (lambda: nn.CellDict({"a.b": dense()}), KeyError, ["key", "dot", "a.b"]),
        (lambda: nn.CellDict({"": dense()}), KeyError, ["key", "empty"]),
        (lambda: nn.CellDict({"keys": dense()}), KeyError, ["key", "attribute", "keys"]),
        (lambda: nn.CellDict([("a", dense(), 1)]), ValueError, ["length 2", "3"]),
        (lambda: nn.CellDict({"a": nn.CellList()}), TypeError, ["container", "CellList"]),
        (lambda: nn.CellDict({"a": dense()})["b"], KeyError, ["b"]),
        (lambda: nn.CellDict({"a": dense()})(1), NotImplementedError, ["CellDict", "can't be called"]),
    ],
)
def test_refusals(act: Callable[[], Any], error: type[Exception], words: list[str]) -> None:
    with pytest.raises(error) as raised:
        act()
    assert [word for word in words if word not in str(raised.value)] == []


def test_nothing_is_added_if_one_of_several_is_refused() -> None:
    cells = nn.CellList([dense()])
    with pytest.raises(TypeError):
        cells.extend([dense(), 3])  # type: ignore[list-item]
    assert len(cells) == 1
