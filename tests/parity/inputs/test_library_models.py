"""Models of libraries by their names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from cellbridge.parity.inputs.model_file import load
from cellbridge.parity.sides.kinds import Kind, kind_of_path
from cellbridge.runtime.errors import UsageError

SMALL_BERT = "hf:BertModel?num_hidden_layers=1&vocab_size=50&intermediate_size=32"


def _arguments(target: str) -> dict[str, Any]:
    """Return the keyword arguments of a model, with which it was run."""
    model = load(target)
    assert not model.args
    model.module.eval()(**model.kwargs)
    return model.kwargs


@pytest.mark.parametrize(
    ("target", "shapes"),
    [
        (SMALL_BERT, {"input_ids": (2, 16)}),
        (f"{SMALL_BERT}&max_position_embeddings=8", {"input_ids": (2, 8)}),
        ("hf:ViTModel?num_hidden_layers=1&image_size=32&num_channels=1", {"pixel_values": (2, 1, 32, 32)}),
        (
            "hf:T5Model?num_layers=1&vocab_size=50&d_ff=32",
            {"input_ids": (2, 16), "decoder_input_ids": (2, 16)},
        ),
        (
            "hf:WhisperModel?encoder_layers=1&decoder_layers=1&max_source_positions=20",
            {"input_features": (2, 80, 40), "decoder_input_ids": (2, 16)},
        ),
        ("hf:ASTModel?num_hidden_layers=1&max_length=32&num_mel_bins=16", {"input_values": (2, 32, 16)}),
        (
            "hf:CLIPModel?text_config.num_hidden_layers=1&vision_config.num_hidden_layers=1&vision_config.image_size=64",
            {"input_ids": (2, 16), "pixel_values": (2, 3, 64, 64)},
        ),
    ],
)
def test_inputs_follow_from_the_configuration(target: str, shapes: dict[str, tuple[int, ...]]) -> None:
    """The model takes what is drawn for it, at the sizes that were set."""
    assert {name: tuple(array.shape) for name, array in _arguments(target).items()} == shapes


def test_tokens_are_in_the_vocabulary_and_not_padding() -> None:
    """A padded token hides what a model computes of it."""
    tokens = _arguments("hf:BertModel?num_hidden_layers=1&vocab_size=3&pad_token_id=1")["input_ids"]
    assert set(tokens.unique().tolist()) <= {0, 2}


def test_the_same_seed_gives_the_same_weights() -> None:
    """Two runs compare the same network, and another seed gives another."""
    first, second, third = (load(SMALL_BERT, seed).module.state_dict() for seed in (0, 0, 1))
    name = "embeddings.word_embeddings.weight"
    assert torch.equal(first[name], second[name])
    assert not torch.equal(first[name], third[name])


def test_heads_keep_their_size_in_a_network_of_another_width() -> None:
    """BERT's 12 heads don't divide a width of 128; a number that is given is taken."""
    small, groups = load(f"{SMALL_BERT}&hidden_size=128").module.config, "num_key_value_heads"
    assert (small.hidden_size, small.num_attention_heads) == (128, 2)
    assert load(f"{SMALL_BERT}&hidden_size=128&num_attention_heads=4").module.config.num_attention_heads == 4
    llama = load("hf:LlamaModel?hidden_size=256&num_hidden_layers=1&intermediate_size=16&vocab_size=20").module.config
    assert (llama.num_attention_heads, getattr(llama, groups)) == (2, 2)


def _saved(folder: Path, *, with_weights: bool) -> torch.nn.Module:
    """Write a small BERT to a folder, and return it."""
    network = load(SMALL_BERT, seed=7).module
    if with_weights:
        network.save_pretrained(folder)
    else:
        network.config.architectures = ["BertModel"]
        network.config.save_pretrained(folder)
    return network


@pytest.mark.parametrize("with_weights", [True, False])
def test_a_folder_gives_configuration_and_weights(tmp_path: Path, with_weights: bool) -> None:
    """Weights in safetensors files are read; without them, they are random."""
    saved = _saved(tmp_path / "bert", with_weights=with_weights)
    loaded = load(f"hf:{tmp_path / 'bert'}").module
    name = "embeddings.word_embeddings.weight"
    assert loaded.config.vocab_size == 50
    assert torch.equal(saved.state_dict()[name], loaded.state_dict()[name]) == with_weights


def test_code_of_a_folder_is_not_run(tmp_path: Path) -> None:
    """A configuration may name Python files beside it: nobody runs them."""
    _saved(tmp_path / "bert", with_weights=False)
    file = tmp_path / "bert" / "config.json"
    config = json.loads(file.read_text()) | {"model_type": "own", "auto_map": {"AutoConfig": "code.Config"}}
    file.write_text(json.dumps(config))
    (tmp_path / "bert" / "code.py").write_text(f"open({str(tmp_path / 'run')!r}, 'w')\n")
    with pytest.raises(UsageError, match="contains custom code"):
        load(f"hf:{tmp_path / 'bert'}")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("hf:BertModle", "no model class 'BertModle'.*did you mean BertModel"),
        ("hf:BertConfig", "no model class 'BertConfig'"),
        ("hf:__loader__", "no model class '__loader__'"),
        ("hf:BertModel?hidden_sise=3", "BertConfig has no setting 'hidden_sise'; did you mean hidden_size"),
        ("hf:BertModel?text_config.hidden_size=3", "has no setting 'text_config.hidden_size'"),
        ("hf:BertModel?_commit_hash=3", "has no setting '_commit_hash'"),
        ("hf:BertModel?to_dict=3", "has no setting 'to_dict'"),
        ("hf:BertModel?hidden_size", "'hidden_size' isn't a setting; write KEY=VALUE"),
        ("hf:BertModel?hidden_size=100", "hidden size .100. is not a multiple"),
        ("hf:PatchTSTModel?num_hidden_layers=1", "takes past_values, which can't be made"),
    ],
)
def test_mistakes_get_a_message(target: str, words: str) -> None:
    """One message says what was given and what there is."""
    with pytest.raises(UsageError, match=f"(?s){words}"):
        load(target)


def test_a_library_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says what to install."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match="needs the package timm, which isn't installed: pip install timm"):
        load("timm:resnet18")


def test_a_library_model_is_a_model_file() -> None:
    """Every command takes it where it takes a model file."""
    assert kind_of_path("timm:resnet18") is kind_of_path(SMALL_BERT) is Kind.MODEL_FILE


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "shape"),
    [
        ("timm:resnet18", (2, 3, 224, 224)),
        ("timm:resnet18?in_chans=1", (2, 1, 224, 224)),
        ("timm:vit_tiny_patch16_224?img_size=64", (2, 3, 64, 64)),
    ],
)
def test_models_of_timm(target: str, shape: tuple[int, ...]) -> None:
    """timm's description has the size of its images."""
    pytest.importorskip("timm")
    model = load(target)
    assert tuple(model.args[0].shape) == shape
    model.module.eval()(*model.args)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("timm:resnet81", "timm has no model 'resnet81'; did you mean resnet18"),
        ("timm:resnet18?foo=1", "unexpected keyword argument 'foo'"),
    ],
)
def test_mistakes_with_timm_get_a_message(target: str, words: str) -> None:
    """One message says what was given and what there is."""
    pytest.importorskip("timm")
    with pytest.raises(UsageError, match=words):
        load(target)
