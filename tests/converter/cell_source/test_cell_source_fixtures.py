"""The source written from every fixture computes what the original does, Cell by Cell, gradients included."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import torch

from cellbridge.converter import from_torch
from cellbridge.parity import assert_parity
from cellbridge.parity.assertions import UnpairedWarning
from cellbridge.parity.inputs import model_file
from fixtures.faults.models import MODELS
from tests.converter.cell_source.writing import assert_port, network_of

FIXTURES = Path(__file__).parents[3] / "fixtures"
SMALL = ["transformer_encoder", "transformer_encoder_mha", "lstm_classifier", "decoder_lm"]
LARGE = [pytest.param(name, marks=pytest.mark.slow) for name in ("unet", "resnet18")]
TRAINED = [pytest.param(name, marks=pytest.mark.slow) for name in ("transformer_encoder", "decoder_lm")]


def check(name: str, *, train: bool = False, modules_without_cell: tuple[str, ...] = ()) -> None:
    model = model_file.load(str(FIXTURES / f"{name}.py"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if modules_without_cell else "error", UnpairedWarning)
        _, report = assert_port(
            model.module, *model.args, kwargs=model.kwargs, train=train, dynamic_shapes=model.dynamic_shapes
        )
    assert {path.rpartition(".")[2] for path in report.correspondence.unpaired} == set(modules_without_cell)
    assert not report.correspondence.lone_cells
    assert any(cell.gradients for cell in report.cells.values())


@pytest.mark.parametrize("name", [*SMALL, *LARGE])
@pytest.mark.every(4)
def test_in_eval_mode(name: str) -> None:
    check(name)


@pytest.mark.parametrize("name", ["transformer_encoder_mha", "lstm_classifier", *TRAINED, *LARGE])
@pytest.mark.every(2)
@pytest.mark.slow
def test_in_train_mode_with_the_same_draws(name: str) -> None:
    check(name, train=True)


@pytest.mark.slow
@pytest.mark.parametrize("train", [False, True], ids=["eval", "train"])
def test_minilm(train: bool) -> None:
    check("minilm", train=train, modules_without_cell=("dropout",))  # held, but not called by BertSelfAttention


@pytest.mark.slow
@pytest.mark.parametrize("train", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("name", [name for name in MODELS if name not in ("unet", "transformer_encoder")])
@pytest.mark.every(6)
def test_networks_that_faults_are_planted_in(name: str, train: bool) -> None:
    torch.manual_seed(0)
    module, args = MODELS[name]()
    assert_port(module, *args, train=train)


@pytest.mark.slow
def test_source_of_a_program_in_eval_mode_trains() -> None:
    """What the mode of capture doesn't tell, here the momentum, is the usual one."""
    torch.manual_seed(0)
    module, args = MODELS["temporal"]()
    assert_parity(module, network_of(from_torch(module, args)), args, train=True)
    assert_parity(module, network_of(from_torch(module, args, train=True)), args)


def test_the_model_file_of_the_migration_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FIXTURES / "migration"))
    check("migration/encoder_block")
