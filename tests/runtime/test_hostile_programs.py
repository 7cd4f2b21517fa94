"""Saved programs that are malformed or mean harm: an error that a person understands, soon, and with little memory."""

from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cellbridge.runtime import CellbridgeError, Program, ProgramError, load
from cellbridge.runtime.errors import ShapeError
from cellbridge.runtime.ir.dim_parser import parse
from cellbridge.runtime.ir.dims import symbol
from cellbridge.runtime.ir.types import BOOL, FLOAT32, INT64, Type
from cellbridge.runtime.memory import check_memory, memory_size
from cellbridge.runtime.ops import (
    comparison,
    creation,
    data_dependent,
    elementwise,
    linear,
    shaping,
    slicing,
    trigonometry,
)
from cellbridge.runtime.ops.higher_order import control_flow
from cellbridge.runtime.programs.interpreter import execute
from cellbridge.runtime.programs.subprograms import trace_subprogram
from cellbridge.runtime.programs.verify import verify
from tests.limits import limited
from tests.runtime.building import build

HUGE = 10**12
N = symbol("n")
GRAPH, TENSORS = "program.json", "tensors.safetensors"


@pytest.fixture(autouse=True)
def _usual_recursion_limit() -> Iterator[None]:
    """Deep modules of other tests raise the limit for the whole process."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    yield
    sys.setrecursionlimit(before)


def example() -> Program:
    """Symbolic and data-dependent sizes, a branch, parameters."""
    then_branch = trace_subprogram(lambda x: [x * 2.0], [Type(FLOAT32, (N, 2))], "then")
    else_branch = trace_subprogram(lambda x: [trigonometry.sin(x)], [Type(FLOAT32, (N, 2))], "else")

    def function(x: Any, w: Any) -> Any:
        y = linear.matmul(x, w)
        positive = shaping.reshape(comparison.greater(y, 0.0), shape=(N * 2,))
        flag = shaping.reshape(slicing.slice(positive, starts=(0,), stops=(1,), steps=(1,), axes=(0,)), shape=())
        z = control_flow.cond(flag, y, then_branch=then_branch, else_branch=else_branch)
        positions = data_dependent.nonzero(positive, symbols=("k",))
        return z, positions, elementwise.cast(y, dtype=np.dtype("float64"))

    return build(function, (N, 3), parameters={"w": np.ones((3, 2), np.float32)})


def written(program: Program, path: Path) -> tuple[Any, bytes]:
    """What a saved program consists of: JSON and tensors."""
    program.save(path)
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read(GRAPH)), archive.read(TENSORS)


def pack(path: Path, graph: Any, tensors: bytes, compression: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr(GRAPH, graph if isinstance(graph, (str, bytes)) else json.dumps(graph))
        archive.writestr(TENSORS, tensors)
    return path


@pytest.fixture
def saved(tmp_path: Path) -> tuple[Any, bytes, Path]:
    path = tmp_path / "program.cell"
    return *written(small(), path), path


def small() -> Program:
    return build(
        lambda x, w: (shaping.reshape(x * w, shape=(N * 3,)),), (N, 3), parameters={"w": np.ones(3, np.float32)}
    )


EMPTY = '"inputs": [], "parameters": {}, "buffers": {}, "constants": [], "sources": []'
DEEP = {  # what stands in for a text like "{{list}}": beginning, inside, end
    "list": ('{"list": [', '"tensor"', "]}"),
    "attribute": ("[", "1", "]"),
    "program": ('{"program": {' + EMPTY + ', "nodes": [{"inputs": [], "attributes": {"x": ', "1", "}}]}}"),
}


def deepened(graph: Any, depth: int = 900) -> str:
    """As JSON, with values nested in place of texts like "{{list}}"."""
    text = json.dumps(graph)
    for name, (before, inside, after) in DEEP.items():
        text = text.replace(json.dumps("{{" + name + "}}"), before * depth + inside + after * depth)
    return text


# ---- the file ----


def test_zip_bombs(saved: tuple[Any, bytes, Path]) -> None:
    graph, tensors, path = saved
    pack(path, json.dumps(graph) + " " * 10**7, tensors, zipfile.ZIP_DEFLATED)
    with limited(memory=2**26), pytest.raises(ProgramError, match=r"program\.json is compressed"):
        load(path)


def test_a_member_said_to_be_larger_than_the_file(saved: tuple[Any, bytes, Path]) -> None:
    graph, tensors, path = saved
    data = pack(path, graph, tensors).read_bytes()
    size = len(tensors).to_bytes(4, "little")
    path.write_bytes(data.replace(size * 2, (2**31 - 1).to_bytes(4, "little") * 2))
    with limited(memory=2**27), pytest.raises(ProgramError, match=r"claims to be larger than the file|damaged"):
        load(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 10**6, "nested too deeply"),
        ('{"a":' * 10**5, "nested too deeply"),
        ("9" * 10**6, "digits"),
        ("[" + "1," * 10**6 + "1]", "is not a saved program"),
        ('"' + "a" * 10**7 + '"', "is not a saved program"),
        ("NaN", "is not a saved program"),
        ("\ud800", "damaged"),
    ],
)
def test_json_that_is_no_program(saved: tuple[Any, bytes, Path], text: str, message: str) -> None:
    pack(saved[2], text.encode("utf-8", "surrogatepass"), saved[1])
    with limited(), pytest.raises(ProgramError, match=message):
        load(saved[2])


# ---- what it says ----

Edit = Callable[[Any], Any]


def _inputs(shape: Any, dtype: str = "float32") -> Edit:
    return lambda w: w.update(inputs=[["x", dtype, shape]])


def _full(**attributes: Any) -> Edit:
    """Put a node in front that fills a tensor."""
    given = {"shape": [3], "value": 1.0, "dtype": {"dtype": "float32"}} | attributes
    shape = given["shape"]

    def edit(w: Any) -> None:
        node = {"op": "full", "inputs": [], "attributes": given, "cell": 0, "source": None}
        w["nodes"].insert(0, node | {"outputs": [["filled", "float32", shape]]})

    return edit


def _arguments(structure: Any) -> Edit:
    return lambda w: w.update(arguments=structure)


EDITS: dict[str, tuple[Edit, str]] = {
    "an input of terabytes": (_inputs([HUGE]), "input %x.* would take 4 TB; this machine has"),
    "an input of a negative size": (_inputs([-3]), "a size is negative"),
    "an input of more than 64 bits": (_inputs([10**30]), "would take"),
    "no elements of a size that NumPy lacks": (_inputs([0, 2**62]), "its sizes are too large"),
    "a constant of terabytes": (_full(shape=[HUGE]), "op full.* would take 4 TB"),
    "a constant of a negative size": (_full(shape=[-1]), "a size is negative"),
    "a constant of a size with a fraction": (_full(shape=[2.5]), "needed an integer or a string, given 2.5"),
    "a product of sums": (_inputs(["*".join(["(a+b+c)"] * 30), 3]), "symbolic dimension"),
    "a power": (_inputs(["9**9**9", 3]), "not a dimension"),
    "parentheses without end": (_inputs(["(" * 9000 + "n" + ")" * 9000, 3]), "not a dimension"),
    "signs without end": (_inputs(["-" * 15000 + "n", 3]), "not a dimension"),
    "thousands of terms": (_inputs(["+".join(f"n{i}" for i in range(3000)), 3]), "not a dimension|symbolic dimension"),
    "a dimension of megabytes": (_inputs(["n+" * 10**6 + "n", 3]), "of 2000001 characters"),
    "a division by zero": (_inputs(["n//0", 3]), "not a dimension"),
    "a dtype of any size": (_inputs([3], "S1000000000"), "isn't a dtype of tensors"),
    "a dtype of objects": (_inputs([3], "object"), "isn't a dtype of tensors"),
    "a dtype of records": (_inputs([3], "f4,f8"), "isn't a dtype of tensors"),
    "a dtype of other machines": (_inputs([3], ">f4"), "isn't a dtype of tensors"),
    "a dtype of times": (_inputs([3], "datetime64"), "isn't a dtype of tensors"),
    "structures without end": (_arguments("{{list}}"), "nested too deeply"),
    "a class that can't be": (_arguments({"namedtuple": ["tensor"], "keys": ["a b"], "name": "x"}), "can't be made"),
    "fewer keys than values": (_arguments({"dict": ["tensor", "tensor"], "keys": ["a"]}), "can't have 1 keys"),
    "attributes without end": (
        lambda w: w["nodes"][0]["attributes"].update(x="{{attribute}}"), "nested too deeply"
    ),
    "programs within programs without end": (
        lambda w: w["nodes"][0]["attributes"].update(x="{{program}}"), "nested too deeply",
    ),
    "a huge attribute": (lambda w: w["nodes"][-1]["attributes"].update(shape=[3] * 10**5), "reshape|digits"),
}  # fmt: skip


@pytest.mark.parametrize("name", EDITS)
def test_programs_that_break_a_rule(saved: tuple[Any, bytes, Path], name: str) -> None:
    graph, tensors, path = saved
    edit, message = EDITS[name]
    edit(graph)
    pack(path, deepened(graph), tensors)
    with limited(), pytest.raises(ProgramError, match=message) as raised:
        load(path)
    assert len(str(raised.value)) < 10_000, "nobody reads it all"


@pytest.mark.slow
def test_long_texts_are_not_copied_for_each_node(saved: tuple[Any, bytes, Path]) -> None:
    graph, tensors, path = saved
    graph["sources"] = [["f", 1, "text" * 10**6, "op"]]
    node = graph["nodes"][0]
    many = [{**node, "outputs": [[f"y{i}", *node["outputs"][0][1:]]], "source": 0} for i in range(20_000)]
    graph["nodes"] += many
    pack(path, graph, tensors)
    with limited(seconds=20):
        load(path)


# ---- running ----


def test_sizes_of_a_run_are_checked_before_anything_is_computed() -> None:
    program = build(lambda x: x.builder.create(creation.full, shape=(N * HUGE, N), value=1.0, dtype=FLOAT32), (N,))
    verify(program)
    with limited(), pytest.raises(CellbridgeError, match=r"op full\(\) failed in Cell \(root\): one tensor .* 16 TB"):
        program(np.ones(2, np.float32))


def test_sizes_that_only_the_run_tells_are_checked() -> None:
    def function(x: Any) -> Any:
        data_dependent.read_sizes(x, symbols=("k",))
        return x.builder.create(creation.full, shape=(symbol("k"),), value=0, dtype=INT64)

    program = build(function, (), dtype="int64")
    assert program(np.array(4)).shape == (4,)
    with limited(), pytest.raises(CellbridgeError, match=r"would take 8 TB"):
        program(np.array(HUGE))
    with limited(), pytest.raises(CellbridgeError, match="a size is negative"):
        program(np.array(-1))


def test_an_input_whose_sizes_divide_by_zero() -> None:
    program = build(lambda x, y: x, (N, symbol("m")), (N // symbol("m"),))
    with pytest.raises(CellbridgeError, match=r"dimension 0: the size .* divides by 0"):
        execute(program, [np.ones((3, 0), np.float32), np.ones(3, np.float32)])


@pytest.mark.parametrize("op", [lambda: creation.full(shape=(HUGE,), value=1, dtype=FLOAT32),
                                lambda: creation.arange(stop=HUGE, dtype=INT64),
                                lambda: shaping.expand(np.ones((1, 1), np.float32), shape=(10**6, 10**7))])  # fmt: skip
def test_ops_on_arrays_are_checked_too(op: Callable[[], Any]) -> None:
    with limited(), pytest.raises(ShapeError, match="this machine has"):
        op()


def test_what_fits_is_allowed() -> None:
    check_memory((2**26,), FLOAT32)
    check_memory((0, HUGE), FLOAT32)
    check_memory((memory_size() // 2,), BOOL)
    with pytest.raises(ShapeError, match="may take half"):
        check_memory((memory_size() // 2 + 1,), BOOL)


@pytest.mark.parametrize(
    "text", ["9**9**9", "(" * 5000 + "n" + ")" * 5000, "n//0", "n%(n-n)", "9" * 5000, "", "\0", "n.m"]
)
def test_dimensions_are_read_as_data(text: str) -> None:
    with limited(seconds=1), pytest.raises(ValueError, match="not a dimension"):
        parse(text)


def test_dimensions_do_not_grow_without_end() -> None:
    def grown(step: Callable[[Any], Any]) -> None:
        dim: Any = N
        for _ in range(200):
            dim = step(dim)

    for step in (
        lambda d: d * d,
        lambda d: d * (d + 1),
        lambda d: d // 3 + d // 5 * 2,
        lambda d: (d + 1) // 2 * (d % 7),
    ):
        with limited(seconds=5), pytest.raises(ShapeError, match="symbolic dimension"):
            grown(step)
