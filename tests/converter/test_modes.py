"""Train mode: of all parts alike, or of each as it is."""

import pytest
import torch
from torch import nn

from cellbridge import parity
from cellbridge.converter import from_torch
from cellbridge.converter.capture.modes import parts_in_other_mode

X = torch.randn(4, 3, 5, 5, generator=torch.Generator().manual_seed(0))


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
        self.frozen = nn.Sequential(nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4))

    def forward(self, x):
        return self.frozen(self.stem(x))


def fine_tuned() -> Network:
    network = Network().train()
    network.frozen[1].eval()
    return network


def test_a_frozen_batch_norm_stays_in_eval_mode():
    network = fine_tuned()
    modes = [module.training for module in network.modules()]
    program = from_torch(network, (X,), train=True)
    assert sorted(program.updates) == [
        "stem.1.num_batches_tracked", "stem.1.running_mean", "stem.1.running_var",
    ]  # fmt: skip
    assert [module.training for module in network.modules()] == modes


@pytest.mark.parametrize("start", ["eval", "train"])
@pytest.mark.every(2)
def test_a_module_in_one_mode_is_put_into_train_mode(start):
    network = getattr(Network(), start)()
    assert len(from_torch(network, (X,), train=True).updates) == 6
    assert all(module.training == (start == "train") for module in network.modules())


def test_a_module_that_freezes_a_part_in_its_train_method():
    class Frozen(Network):
        def train(self, mode=True):
            super().train(mode)
            self.frozen.eval()
            return self

    assert len(from_torch(Frozen(), (X,), train=True).updates) == 3
    assert parts_in_other_mode(Frozen(), True) == ["frozen"]


def test_eval_mode_is_that_of_all_parts():
    assert not from_torch(fine_tuned(), (X,)).updates


def test_what_stays_in_eval_mode_is_told_by_its_outermost_part():
    network = Network().train()
    network.frozen.eval()
    assert parts_in_other_mode(network, True) == ["frozen"]
    network.frozen[0].train()
    assert parts_in_other_mode(network, True) == ["frozen", "frozen.1"]
    assert parts_in_other_mode(Network().eval(), True) == []


@pytest.mark.slow
def test_reports_name_what_stays_in_eval_mode():
    network = fine_tuned()
    note = "in eval mode, as set in the module, while the others are in train mode: frozen.1"
    checked = parity.check(network, (X,), train=True)
    assert checked.ok, str(checked)
    assert note in checked.notes
    assert note in parity.compare(network, fine_tuned(), (X,), train=True).notes
    assert note not in parity.check(network, (X,), train=False).notes
    trained = parity.check_training(network, (X,), steps=2)
    assert trained.ok, str(trained)
    assert note in trained.notes


def test_batch_statistics_where_they_are_frozen_are_a_failure():
    wrong = Network().train()
    wrong.load_state_dict((network := fine_tuned()).state_dict())
    report = parity.compare(network, wrong, (X,), train=True)
    assert "frozen.1" in report.failing


def test_dropout_in_eval_mode_stays_idle_in_training():
    network = nn.Sequential(nn.Linear(5, 5), nn.Dropout(0.5), nn.Linear(5, 2)).train()
    network[1].eval()
    program = from_torch(network, (X,), train=True)
    assert not any(node.op == "dropout_mask" or "bernoulli" in node.op for node in program.nodes)
    assert parity.check(network, (X,), train=True).ok
