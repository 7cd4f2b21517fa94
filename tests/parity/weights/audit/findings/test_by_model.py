"""What a model would leave at its initial values, ignore or refuse of a checkpoint."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from cellbridge.parity import assert_checkpoint, check_checkpoint
from cellbridge.parity.weights.audit.findings.finding import LOOK, WRONG, Finding
from cellbridge.runtime.errors import UsageError


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc, self.norm = nn.Linear(4, 3), nn.BatchNorm1d(3)
        self.emb, self.head = nn.Embedding(5, 3), nn.Linear(3, 5, bias=False)
        self.head.weight = self.emb.weight


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def of_model(state: dict[str, torch.Tensor]) -> list[Finding]:
    """Return what is said of the model, for a checkpoint of itself."""
    torch.save(state, "a.pt")
    without = {finding.text for finding in check_checkpoint("a.pt", "a.pt").findings}
    return [f for f in check_checkpoint("a.pt", "a.pt", model=Net()).findings if f.text not in without]


def test_its_own_checkpoint_is_right_also_without_a_tied_name() -> None:
    state = Net().state_dict()
    assert of_model(state) == []
    assert of_model({name: tensor for name, tensor in state.items() if name != "head.weight"}) == []


def test_a_parameter_of_another_name_is_lost() -> None:
    state = Net().state_dict()
    state["norm.gamma"] = state.pop("norm.weight")
    lost, ignored = of_model(state)
    assert (lost.rank, lost.text) == (WRONG, "the model's parameter norm.weight would keep its initial values")
    assert (ignored.rank, ignored.text) == (LOOK, "the model would ignore norm.gamma")
    with pytest.raises(AssertionError, match=r"norm\.weight would keep its initial values"):
        assert_checkpoint("a.pt", "a.pt", model=Net())


def test_statistics_that_are_missing_are_to_be_looked_at() -> None:
    state = Net().state_dict()
    del state["norm.running_mean"], state["norm.running_var"]
    (finding,) = of_model(state)
    assert finding.rank == LOOK
    assert finding.text == "the model's buffers norm.running_mean, norm.running_var would keep their initial values"


def test_another_shape_is_refused() -> None:
    state = Net().state_dict()
    state["fc.weight"] = state["fc.weight"].T.contiguous()
    (finding,) = of_model(state)
    assert (finding.rank, finding.text) == (WRONG, "fc.weight has shape [4, 3], and [3, 4] in the model")


@pytest.mark.parametrize("prefix", ["model.", "a.b."])
def test_another_class_lacks_a_prefix(prefix: str) -> None:
    Path("config.json").write_text(json.dumps({"architectures": ["NetForCausalLM"]}))
    (finding,) = of_model({prefix + name: tensor for name, tensor in Net().state_dict().items()})
    assert finding.rank == WRONG
    assert f"differ by the prefix {prefix}, which the checkpoint has and the model lacks" in finding.text
    assert "config.json beside it names NetForCausalLM, and the model is a Net" in finding.evidence


def test_the_model_may_have_the_prefix() -> None:
    torch.save(Net().state_dict(), "a.pt")
    report = check_checkpoint("a.pt", "a.pt", model=nn.ModuleDict({"inner": Net()}))
    assert "differ by the prefix inner., which the model has and the checkpoint lacks" in report.wrong[0].text


@pytest.mark.parametrize("config", ["[1]", "{", '{"architectures": {"a": 1}}', '{"architectures": [1]}'])
def test_a_strange_configuration_says_nothing(config: str) -> None:
    Path("config.json").write_text(config)
    state = Net().state_dict()
    del state["fc.bias"]
    (finding,) = of_model(state)
    assert finding.evidence == "the checkpoint has nothing of that name"


def test_what_is_no_module_is_refused() -> None:
    torch.save(Net().state_dict(), "a.pt")
    Path("port.py").write_text("def model():\n    return 3\n")
    with pytest.raises(UsageError, match=r"model\(\)"):
        check_checkpoint("a.pt", "a.pt", model="port.py")
