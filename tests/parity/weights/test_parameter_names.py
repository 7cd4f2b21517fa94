"""Conclusions from names and shapes of a checkpoint, and questions that remain open."""

from __future__ import annotations

import tomllib
from collections.abc import Callable

import pytest
import torch

from cellbridge.parity.weights import map_file
from cellbridge.parity.weights.map_file import WeightMap
from cellbridge.parity.weights.naming import Shapes
from cellbridge.parity.weights.transfer import Link, plan_to_cells, plan_to_torch
from cellbridge.runtime import nn
from cellbridge.runtime.errors import UsageError

NOTHING = WeightMap()


def shapes_of(module: torch.nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in module.state_dict().items()}


def names(links: tuple[Link, ...]) -> dict[str, str]:
    return {link.torch: " ".join(filter(None, [*link.cells, str(link.layout)])) for link in links}


def names_in_cells(shapes: Shapes, toml: str = "") -> dict[str, str]:
    return names(plan_to_cells(shapes, map_file.parse(tomllib.loads(toml), "the map")).links)


def names_in_torch(shapes: Shapes, toml: str = "") -> dict[str, str]:
    return names(plan_to_torch(shapes, map_file.parse(tomllib.loads(toml), "the map"), NOTHING).links)


def proposed(error: pytest.ExceptionInfo[UsageError]) -> str:
    """The lines for a map file that a message ends with."""
    return str(error.value).split("\n\n", 1)[1]


LAYERS: dict[str, Callable[[], tuple[torch.nn.Module, nn.Cell]]] = {
    "conv": lambda: (torch.nn.Conv2d(3, 4, 2), nn.Conv2d(3, 4, 2, has_bias=True)),
    "conv transposed": lambda: (torch.nn.ConvTranspose2d(3, 4, 2, bias=False), nn.Conv2dTranspose(3, 4, 2)),
    "conv of one axis": lambda: (torch.nn.Conv1d(3, 4, 2), nn.Conv1d(3, 4, 2, has_bias=True)),
    "conv of three": lambda: (torch.nn.Conv3d(3, 4, 2), nn.Conv3d(3, 4, 2, has_bias=True)),
    "dense": lambda: (torch.nn.Linear(3, 4), nn.Dense(3, 4)),
    "square dense": lambda: (torch.nn.Linear(4, 4), nn.Dense(4, 4)),
    "batch norm": lambda: (torch.nn.BatchNorm2d(4), nn.BatchNorm2d(4)),
    "layer norm": lambda: (torch.nn.LayerNorm(4), nn.LayerNorm((4,))),
    "layer norm of two axes": lambda: (torch.nn.LayerNorm((4, 4)), nn.LayerNorm((4, 4), -2, -2)),
    "group norm": lambda: (torch.nn.GroupNorm(2, 4), nn.GroupNorm(2, 4)),
    "lstm": lambda: (torch.nn.LSTM(3, 4, 2, bidirectional=True), nn.LSTM(3, 4, 2, bidirectional=True)),
    "gru cell": lambda: (torch.nn.GRUCell(3, 4), nn.GRUCell(3, 4)),
    "attention": lambda: (torch.nn.MultiheadAttention(4, 2), nn.MultiheadAttention(4, 2)),
    "nothing": lambda: (torch.nn.ReLU(), nn.ReLU()),
}


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_gets_the_names_and_shapes_of_its_cell(layer: str, inside: bool) -> None:
    """Judged by the Cell itself: what it calls its Parameters, and their shapes."""
    module, cell = LAYERS[layer]()
    if inside:
        module, cell = torch.nn.Sequential(torch.nn.Sequential(module)), nn.SequentialCell([nn.SequentialCell([cell])])
    shapes = shapes_of(module)
    cell_shapes = {parameter.name: tuple(parameter.shape) for parameter in cell.get_parameters()}
    arrays = {name: tensor.numpy() for name, tensor in module.state_dict().items()}
    made = {}
    plan = plan_to_cells(shapes, NOTHING)
    for link in plan.links:
        made |= {name: array.shape for name, array in link.to_cells(arrays).items()}
    assert made == cell_shapes
    assert {d.name.rpartition(".")[2] for d in plan.drops} <= {"num_batches_tracked"}
    if layer == "conv of one axis":
        return  # a kernel of (1, 2) may be one of two axes: below
    assert names_in_torch(cell_shapes) == names(plan.links)


def test_names_of_no_layer_stay() -> None:
    shapes = {"cls": (1, 1, 4), "block.gamma_1": (4,), "block.scale": (), "block.mix": (4, 4), "weight_g": (3,)}
    assert names_in_cells(shapes) == names_in_torch(shapes) == {name: name for name in shapes}


OPEN = {  # shapes, and the line that is proposed
    "a matrix alone": ({"fc.weight": (3, 4)}, '"fc.weight" = "fc.weight"'),
    "a table": ({"tok_embed.weight": (3, 4)}, '"tok_embed.weight" = "tok_embed.embedding_table"'),
    "a vector alone": ({"norm.weight": (3,)}, '"norm.weight" = "norm.gamma"'),
    "a slope": ({"act.weight": (1,)}, '"act.weight" = "act.w"'),
    "a transposed matrix": ({"fc.weight": (3, 4), "fc.bias": (4,)}, '"fc.weight" = { transpose = true }'),
    "at the root": ({"weight": (3, 4)}, '"weight" = "weight"'),
}


@pytest.mark.parametrize("case", OPEN)
def test_what_is_open_is_asked_for(case: str) -> None:
    shapes, line = OPEN[case]
    with pytest.raises(UsageError) as error:
        names_in_cells(shapes)
    lines = [text for text in proposed(error).splitlines() if not text.startswith("#")]
    assert lines == [line]
    names_in_cells(shapes, proposed(error))  # is a map file, and answers


def test_a_square_matrix_among_transposed_ones_is_asked_for() -> None:
    square = {"proj.weight": (4, 4), "proj.bias": (4,)}
    assert names_in_cells(square) == {"proj.weight": "proj.weight", "proj.bias": "proj.bias"}
    with pytest.raises(UsageError) as error:
        names_in_cells(square | {"up.weight": (4, 8), "up.bias": (8,)})
    assert '"proj.weight" = { transpose = true }' in proposed(error)


def test_questions_that_are_alike_are_one_line() -> None:
    shapes = {f"layers.{i}.{name}.weight": (4, 4) for i in range(12) for name in ("q", "k")} | {"head.weight": (9, 4)}
    with pytest.raises(UsageError, match="what 25 of 25 parameters are in Cells") as error:
        names_in_cells(shapes)
    lines = tomllib.loads(proposed(error))
    assert list(lines) == ["layers.*.q.weight", "layers.*.k.weight", "head.weight"]
    assert names_in_cells(shapes, proposed(error)) == {name: name for name in shapes}


def test_a_pattern_takes_in_only_what_is_in_question() -> None:
    """`*.weight` would speak of `2.weight` too, which is known."""
    shapes = {"0.weight": (4, 4), "1.weight": (4, 4), "2.weight": (4, 4), "2.bias": (4,)}
    with pytest.raises(UsageError) as error:
        names_in_cells(shapes)
    assert list(tomllib.loads(proposed(error))) == ["0.weight", "1.weight"]


def test_batch_norm_of_three_axes() -> None:
    """Its Cell holds another one. Where kernels have three axes it is asked for."""
    module, cell = torch.nn.Sequential(torch.nn.BatchNorm3d(4)), nn.SequentialCell([nn.BatchNorm3d(4)])
    shapes = shapes_of(module) | {"conv.weight": (4, 3, 2, 2, 2)}
    with pytest.raises(UsageError) as error:
        names_in_cells(shapes)
    assert '"0." = "0.bn2d."' in proposed(error)
    cell_names = {parameter.name for parameter in cell.get_parameters()}
    made = names_in_cells(shapes, proposed(error))
    assert set(made.values()) == cell_names | {"conv.weight"}
    assert names_in_cells(shapes, '"0." = "0."')["0.weight"] == "0.gamma"
    cell_shapes = dict.fromkeys(cell_names, (4,)) | {"conv.weight": (4, 3, 2, 2, 2)}
    with pytest.raises(UsageError) as error:
        names_in_torch(cell_shapes)
    assert '"0." = "0.bn2d."' in proposed(error)
    assert names_in_torch(cell_shapes, proposed(error)) == made


# --- the way back -----------------------------------------------------------------------------------------------------


def test_a_flat_kernel_is_asked_for() -> None:
    for shape in ((4, 3, 1, 5), (4, 3, 1, 1)):
        with pytest.raises(UsageError) as error:
            names_in_torch({"conv.weight": shape})
        assert names_in_torch({"conv.weight": shape}, proposed(error)) == {"conv.weight": "conv.weight expand_dims = 2"}
    among_images = {"point.weight": (4, 3, 1, 1), "conv.weight": (4, 3, 3, 3)}
    assert names_in_torch(among_images) == {name: name for name in among_images}


@pytest.mark.parametrize("name", ["norm.gamma", "act.w"])
def test_a_vector_alone_is_asked_for(name: str) -> None:
    with pytest.raises(UsageError) as error:
        names_in_torch({name: (4,)})
    weight_name = f"{name.partition('.')[0]}.weight"
    assert names_in_torch({name: (4,)}, proposed(error)) == {weight_name: name}


def test_state_of_training_is_left_behind() -> None:
    net = nn.SequentialCell([nn.Dense(3, 4), nn.BatchNorm1d(4)])
    step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), nn.Adam(net.trainable_params()))
    shapes = {parameter.name: tuple(parameter.shape) for parameter in step.get_parameters()}
    plan = plan_to_torch(shapes, NOTHING, NOTHING)
    assert names(plan.links) == names_in_torch({p.name: tuple(p.shape) for p in net.get_parameters()})
    assert {d.why for d in plan.drops} == {"state of training"}
    without_step = {"learning_rate": (), "moments.fc": (3,), "fc": (3,)}
    assert names_in_torch(without_step) == {name: name for name in without_step}


# --- collisions -------------------------------------------------------------------------------------------------------


def test_two_of_one_name_are_refused() -> None:
    with pytest.raises(UsageError, match="both a and b would be named a"):
        names_in_cells({"a": (3,), "b": (3,)}, '"b" = "a"')
    with pytest.raises(UsageError, match=r"both n.bias and n.beta would be named n\.bias"):
        names_in_torch({"n.gamma": (3,), "n.bias": (3,), "n.beta": (3,)})
