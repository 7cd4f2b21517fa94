"""`check_generation`: faults in caches, positions, masks and states are found, and placed in their Cells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from onnxruntime import OrtValue
from torch import nn

from cellbridge.converter import from_torch
from cellbridge.parity.jobs.generation import step_program
from cellbridge.parity.jobs.generation.check import GenerationReport, check_generation
from cellbridge.parity.jobs.generation.choices import likelihoods, log_softmax
from cellbridge.parity.jobs.generation.decoder import Decoder, greedy
from cellbridge.parity.jobs.generation.recorded import LogProbabilities, read_log_probabilities
from cellbridge.parity.jobs.generation.step_program import BoundStep
from cellbridge.runtime.errors import ConversionError, UsageError
from tests.parity.jobs.generation.networks import CausalConvolution, Recurrent, decode, make


def check(**faults: Any) -> GenerationReport:
    module, prompt = make(**faults)
    return check_generation(module, prompt, decode=decode, tokens=8)


def failing_sides(report: GenerationReport) -> set[str]:
    return {c.side for cell in report.cells.values() for c in cell.failures}


def test_a_sound_decoder_computes_the_same_in_all_ways() -> None:
    report = check()
    assert report.ok, str(report)
    assert report.sides == ["cached", "token by token", "in chunks", "padded"]
    tensors = {c.tensor for c in report.cells[""].comparisons}
    assert "logits" in tensors
    assert any(tensor.startswith("state[1][0][0]") for tensor in tensors)
    assert [likelihood.side for likelihood in report.likelihoods] == report.sides
    assert all(likelihood.units < 10 for likelihood in report.likelihoods)


def test_positions_that_are_off_by_one_are_passed_by_the_network_itself() -> None:
    report = check(offset=1)
    assert report.failing == [""]
    assert failing_sides(report) == {"cached", "token by token", "in chunks"}
    passed = [c for c in report.cells[""].failures if c.kind == "passed value"]
    assert not passed or "positions" in passed[0].tensor
    assert report.cells["positions"].status != "fail" or not report.cells["positions"].failures[0].of_cell_alone


def test_a_cache_that_forgets_is_placed_in_its_attention() -> None:
    report = check(window=5)
    assert "blocks.1.attention" in report.failing
    failures = [c for c in report.cells["blocks.1.attention"].failures if c.of_cell_alone]
    assert failures
    assert "from position" in failures[0].reason
    assert "blocks.0.attention" not in report.failing


def test_caches_in_the_wrong_order_are_placed_in_the_network_which_passes_them() -> None:
    report = check(swaps_caches=True)
    failures_by_path = {path: [c for c in cell.failures if c.of_cell_alone] for path, cell in report.cells.items()}
    assert [path for path, failures in failures_by_path.items() if failures] == [""]
    assert "it isn't the state that blocks.0 returned in the step before" in str(report)


def test_a_cache_in_half_precision_is_placed_by_rounding() -> None:
    report = check(half=True)
    assert report.failing == ["blocks.1.attention"]
    (failure, *_) = [c for c in report.cells["blocks.1.attention"].failures if c.of_cell_alone]
    assert failure.check == "rounding"


def test_padding_that_is_not_masked_fails_in_the_padded_batch_alone() -> None:
    report = check(masks_padding=False)
    assert failing_sides(report) == {"padded"}
    assert "blocks.1.attention" in report.failing


def test_positions_that_count_padding_fail_in_the_padded_batch_alone() -> None:
    report = check(shifts=False)
    assert failing_sides(report) == {"padded"}
    assert report.failing == [""]


def test_a_fault_is_no_tie() -> None:
    report = check(offset=1)
    first = report.likelihoods[0]
    assert first.units > 1000
    assert first.choices
    assert first.choices[0] not in first.ties
    assert "a fault, not a tie" in " ".join(first.lines)


def test_a_margin_within_rounding_is_a_tie() -> None:
    truth = np.array([[1.0, 1.0 - 1e-8, 0.0]])
    candidate = np.array([[1.0, 1.0 + 1e-7, 0.0]], np.float32)
    likelihood = likelihoods("cached", [truth], [truth.astype(np.float32)], [candidate], bar=1e-6)
    assert likelihood.choices == likelihood.ties == (0,)
    assert "a tie within rounding" in " ".join(likelihood.lines)
    assert likelihoods("cached", [truth], [truth.astype(np.float32)], [candidate], bar=1e-10).ties == ()


def test_log_softmax_is_torchs() -> None:
    logits = torch.randn(4, 7, dtype=torch.float64) * 100
    np.testing.assert_allclose(log_softmax(logits.numpy()), logits.log_softmax(-1).numpy(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("network", [CausalConvolution, Recurrent])
@pytest.mark.every(2)
def test_streams_may_be_cut_anywhere(network: type[nn.Module]) -> None:
    torch.manual_seed(0)
    report = check_generation(network(), torch.randn(2, 11, 2), decode=lambda m, x, s: m(x, s))
    assert report.ok, str(report)
    assert report.sides == ["cached", "token by token", "in chunks", "interpreter", "onnxruntime"]
    assert any(c.tensor.startswith("state") for c in report.cells[""].comparisons)


@pytest.mark.parametrize(("network", "cell"), [(CausalConvolution(2), ""), (Recurrent(forgets=True), "")])
@pytest.mark.every(2)
def test_a_state_that_is_lost_is_found(network: nn.Module, cell: str) -> None:
    torch.manual_seed(0)
    report = check_generation(network, torch.randn(2, 11, 2), decode=lambda m, x, s: m(x, s))
    assert cell in report.failing
    assert "conv" not in report.failing


def test_greedy_tokens_are_those_of_the_whole() -> None:
    module, prompt = make()
    decoder = Decoder(module.eval(), decode, "net")
    tokens = prompt
    for _ in range(5):
        tokens = torch.cat([tokens, module(tokens)[0][:, -1:].argmax(-1)], 1)
    assert torch.equal(greedy(decoder, prompt, 5), tokens)


def test_log_probabilities_of_another_engine_are_judged(tmp_path: Path) -> None:
    module, prompt = make()
    tokens = greedy(Decoder(module.eval(), decode, "net"), prompt, 4)
    logits = module(tokens)[0].detach()
    values = torch.full(tokens.shape, torch.nan)
    values[:, 1:] = logits.log_softmax(-1)[:, :-1].gather(-1, tokens[:, 1:, None])[..., 0]
    np.savez(tmp_path / "good.npz", tokens=tokens.numpy(), logprobs=values.numpy())
    recorded = read_log_probabilities(tmp_path / "good.npz")
    report = check_generation(module, prompt, decode=decode, recorded=recorded)
    assert report.ok, str(report)
    assert "recorded" in report.sides
    short = LogProbabilities(recorded.tokens[:, :3], recorded.values[:, :3])
    assert check_generation(module, prompt, decode=decode, recorded=short).ok
    wrong = LogProbabilities(recorded.tokens, recorded.values + 1e-3)
    report = check_generation(module, prompt, decode=decode, recorded=wrong)
    assert failing_sides(report) == {"recorded"}


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"tokens": np.zeros((1, 2), int)}, "needed the arrays tokens and logprobs"),
        ({"tokens": np.zeros((1, 2), int), "logprobs": np.zeros((1, 3))}, "both"),
        ({"tokens": np.zeros((1, 1), int), "logprobs": np.zeros((1, 1))}, "two tokens or more"),
        ({"tokens": np.zeros((1, 2)), "logprobs": np.zeros((1, 2))}, "tokens of integers"),
    ],
)
def test_arrays_that_do_not_fit_are_said(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(UsageError, match=message):
        read_log_probabilities(tmp_path / "bad.npz")


def test_objects_are_not_loaded(tmp_path: Path) -> None:
    np.savez(tmp_path / "bad.npz", tokens=np.array([object()], dtype=object), logprobs=np.zeros(1))
    with pytest.raises(UsageError, match=r"isn't a \.npz file of arrays"):
        read_log_probabilities(tmp_path / "bad.npz")


def test_a_model_without_a_way_to_decode_is_said() -> None:
    with pytest.raises(UsageError, match="define decode"):
        check_generation(nn.Embedding(4, 4), torch.zeros(1, 3, dtype=torch.int64))


def test_a_decode_that_returns_something_else_is_said() -> None:
    module, prompt = make()
    with pytest.raises(UsageError, match="must return the outputs and the new state"):
        check_generation(module, prompt, decode=lambda m, x, s: m(x, s)[0], tokens=2)


@pytest.mark.slow
def test_a_module_in_the_manner_of_transformers_needs_no_decode() -> None:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.GPT2Config(vocab_size=20, n_embd=16, n_layer=2, n_head=2, n_positions=32)
    module = transformers.GPT2LMHeadModel(config)
    report = check_generation(module, torch.randint(0, 20, (1, 5)), tokens=4)
    assert report.ok, str(report)
    assert report.sides[-3:] == ["padded", "interpreter", "onnxruntime"]
    assert any(c.tensor == "state.layers[1].keys" for c in report.cells[""].comparisons)


def test_a_state_with_numbers_has_no_program() -> None:
    assert "the state has values that aren't tensors ([0])" in " ".join(check().notes)


def test_a_fault_in_the_step_shows_in_its_program_too() -> None:
    torch.manual_seed(0)
    report = check_generation(CausalConvolution(2), torch.randn(2, 11, 2), decode=lambda m, x, s: m(x, s))
    assert {"interpreter", "onnxruntime"} <= failing_sides(report)


@pytest.mark.slow
def test_the_step_of_a_decoder_with_grouped_heads_is_a_program() -> None:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=20, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=32,
    )  # fmt: skip
    report = check_generation(transformers.LlamaForCausalLM(config), torch.randint(0, 20, (1, 5)), tokens=4)
    assert report.ok, str(report)
    assert report.sides[-2:] == ["interpreter", "onnxruntime"]


def test_a_step_that_onnx_runtime_cannot_run_is_judged_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(program: Any) -> Any:
        raise ConversionError("op f can't be written in ONNX: not with these attributes\nmore")

    monkeypatch.setattr(step_program, "BoundStep", refuse)
    torch.manual_seed(0)
    report = check_generation(CausalConvolution(), torch.randn(2, 11, 2), decode=lambda m, x, s: m(x, s))
    assert report.ok, str(report)
    assert report.sides[-1] == "interpreter"
    assert report.notes == [
        "the step can't be run by ONNX Runtime: op f can't be written in ONNX: not with these attributes"
    ]


def test_the_state_stays_where_onnx_runtime_put_it() -> None:
    class Sum(nn.Module):
        def forward(self, x: torch.Tensor, state: tuple[torch.Tensor]) -> Any:
            return x + state[0], (state[0] + x,)

    x, state = torch.ones(1, 1, 2), torch.full((1, 1, 2), 3.0)
    step = BoundStep(from_torch(Sum(), (x, (state,))))
    first, kept = step(x.numpy(), [state.numpy()])
    second, _ = step(x.numpy(), kept)
    assert isinstance(kept[0], OrtValue)
    np.testing.assert_array_equal(first, np.full((1, 1, 2), 4.0))
    np.testing.assert_array_equal(second, np.full((1, 1, 2), 5.0))
    with pytest.raises(ConversionError, match="takes a state of 1 tensors, and returns 0"):
        BoundStep(from_torch(nn.Bilinear(2, 2, 3), (torch.ones(1, 2), torch.ones(1, 2))))
