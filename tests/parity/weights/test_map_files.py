"""Map files: every form in both directions, and what is refused."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest

from cellbridge.parity.weights import map_file, transfer
from cellbridge.parity.weights.arrangements import Array
from cellbridge.parity.weights.map_file import WeightMap
from cellbridge.runtime.errors import UsageError


def converted(arrays: dict[str, Array], toml: str, *, back: bool = False) -> dict[str, Array]:
    given = map_file.parse(tomllib.loads(toml), "the map")
    shapes = {name: array.shape for name, array in arrays.items()}
    made: dict[str, Array] = {}
    if back:
        for link in transfer.plan_to_torch(shapes, given, WeightMap()).links:
            made |= link.to_torch(arrays)
    else:
        for link in transfer.plan_to_cells(shapes, given).links:
            made |= link.to_cells(arrays)
    return made


def numbers(*shape: int) -> Array:
    return np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)


A = numbers(4, 3)
K = numbers(2, 3, 4, 5)
FORMS: dict[str, tuple[str, dict[str, Array], dict[str, Array]]] = {
    "a name": ('"a.b" = "c"', {"a.b": A}, {"c": A}),
    "a pattern": (
        '"layers.*.n.weight" = "blocks.*.n.scale"',
        {"layers.0.n.weight": A, "layers.11.n.weight": A + 1},
        {"blocks.0.n.scale": A, "blocks.11.n.scale": A + 1},
    ),
    "two stars": ('"*.x.*" = "*.y.*"', {"a.x.b": A, "c.d.x.e": A}, {"a.y.b": A, "c.d.y.e": A}),
    "the first holds": ('"a.b" = "one"\n"a.*" = "other.*"', {"a.b": A, "a.c": A}, {"one": A, "other.c": A}),
    "transposed": ('"a" = { transpose = true }', {"a": A}, {"a": A.T}),
    "transposed and renamed": ('"a" = { to = "b", transpose = true }', {"a": A}, {"b": A.T}),
    "axes": ('"a" = { transpose = [3, 2, 0, 1] }', {"a": K}, {"a": K.transpose(3, 2, 0, 1)}),
    "a new axis": ('"a" = { expand_dims = 2 }', {"a": A}, {"a": A[:, :, None]}),
    "parts": ('"a.qkv" = { to = ["a.q", "a.k"] }', {"a.qkv": A}, {"a.q": A[:2], "a.k": A[2:]}),
    "transposed parts": (
        '"*.qkv" = { to = ["*.q", "*.k", "*.v"], transpose = true }',
        {"a.qkv": A},
        {f"a.{name}": A.T[i : i + 1] for i, name in enumerate("qkv")},
    ),
    "a prefix": ('"old." = "new."', {"old.x": A, "other": A}, {"new.x": A, "other": A}),
    "a prefix of all": ('"module." = ""', {"module.x": A, "module.y.z": A}, {"x": A, "y.z": A}),
    "a prefix with a star": ('"h.*.ln." = "blocks.*.norm."', {"h.3.ln.x": A}, {"blocks.3.norm.x": A}),
    "a prefix of a layer": (
        '"backbone." = "net."',
        {"backbone.n.weight": A[0], "backbone.n.bias": A[1]},
        {"net.n.gamma": A[0], "net.n.beta": A[1]},
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_form_in_both_directions(form: str) -> None:
    toml, torch_arrays, cell_arrays = FORMS[form]
    for arrays, expected, back in ((torch_arrays, cell_arrays, False), (cell_arrays, torch_arrays, True)):
        made = converted(arrays, toml, back=back)
        assert made.keys() == expected.keys()
        for name, array in expected.items():
            np.testing.assert_array_equal(made[name], array)


def test_a_drop_on_either_side() -> None:
    toml = '"ids" = { drop = true }\n"ema.*" = { drop = true }'
    arrays = {"ids": A, "a": A, "ema.a": A}
    assert set(converted(arrays, toml)) == set(converted(arrays, toml, back=True)) == {"a"}
    assert set(converted({"a": A}, toml)) == {"a"}  # a drop need not find anything


REFUSED = {
    '"x" = "y"': "no name in the checkpoint matches 'x'",
    '"a.wieght" = "b"': "no name in the checkpoint matches 'a.wieght'; did you mean 'a.weight'",
    '"old." = "new."': "no name in the checkpoint matches 'old.*'",
    '"a.*" = "b"': "'a.*' and 'b' must have the same number of `*`",
    "a.weight = 'b'": 'Put a name with a dot in quotes: "fc.weight" = "fc.weight"',
    '"a.weight" = 3': "'a.weight': needed a name or a table with to, transpose, expand_dims, drop or from, given 3",
    '"a.weight" = { too = "b" }': "needed a name or a table",
    '"a.weight" = {}': "needed a name or a table",
    '"a.weight" = { drop = false }': "a drop is only { drop = true }",
    '"a.weight" = { drop = true, to = "b" }': "a drop is only { drop = true }",
    '"a.weight" = { to = 3 }': "`to` must be a name or a list of names, given 3",
    '"a.weight" = { to = [] }': "`to` must be a name or a list of names, given []",
    '"a.weight" = "b."': "`to` must be a name or a list of names, given 'b.'",
    '"a.weight" = ""': "`to` must be a name or a list of names, given ''",
    '"a.weight" = { transpose = "yes" }': "`transpose` must be true or a list of axes, given 'yes'",
    '"a.weight" = { transpose = false }': "`transpose` must be true or a list of axes, given False",
    '"a.weight" = { transpose = [0, 0] }': "a.weight has 2 axes, which don't fit transpose = [0, 0]",
    '"a.weight" = { expand_dims = -1 }': "`expand_dims` must be the number of an axis, given -1",
    '"a.weight" = { expand_dims = 5 }': "a.weight has shape [4, 3], which doesn't fit expand_dims = 5",
    '"v" = { transpose = true }': "v has 1 axes, which don't fit transpose = true",
    '"a.weight" = { to = ["b", "c", "d"] }': "a.weight: [4, 3] can't be split into 3 equal parts along axis 0",
    '"s" = { to = ["b", "c"] }': "s: [] can't be split into 2 equal parts along axis 0",
    '"v" = "s"': "both v and s would be named s",
}


@pytest.mark.parametrize("toml", REFUSED)
def test_refused(toml: str) -> None:
    given = "" if "a.weight" in toml else '\n"a.weight" = "a.weight"'
    with pytest.raises(UsageError) as error:
        converted({"a.weight": A, "v": A[0], "s": np.array(1.0)}, toml + given)
    assert REFUSED[toml] in str(error.value)


def test_refused_on_the_way_back() -> None:
    parts = '"qkv" = { to = ["q", "k"] }'
    with pytest.raises(UsageError, match="qkv consists of q, k; there is no k"):
        converted({"q": A, "other": A}, '"qkv" = { to = ["q", "k"] }\n"k2" = "other"', back=True)
    with pytest.raises(UsageError, match="its parts differ in shape or dtype"):
        converted({"q": A, "k": A.T}, parts, back=True)
    with pytest.raises(UsageError, match=r"c has shape \[4, 3\], which doesn't fit expand_dims = 1"):
        converted({"c": A}, '"c" = { expand_dims = 1 }', back=True)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a = ", "is not TOML"),
        (b"\xff\xfe", "is not UTF-8 text"),
        (None, "No such file"),
        (b"x = " + b"[" * 5000, "is not TOML"),
    ],
)
def test_a_file_that_is_none(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "map.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=message):
        map_file.read_map(str(path))
    with pytest.raises(UsageError, match="Is a directory"):
        map_file.read_map(str(tmp_path))


def test_the_example_of_the_documentation() -> None:
    page = (Path(__file__).parents[3] / "docs" / "weights.md").read_text()
    section = page.partition("### The map file")[2].partition("###")[0]
    lines = [line for line in section.splitlines() if line.startswith("    ")]
    given = map_file.parse(tomllib.loads("\n".join(lines)), "docs/weights.md")
    assert (len(given.entries), len(given.prefixes), len(given.assemblies)) == (7, 1, 6)
    for line in (map_file.__doc__ or "").splitlines():
        if line.startswith('    "'):
            map_file.parse(tomllib.loads(line), "map_file")
