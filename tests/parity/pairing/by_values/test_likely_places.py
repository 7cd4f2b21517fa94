"""Ports that compute a product of the module wrongly in other steps: the Cell that holds the product is accused."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

from benchmarks.twins.measuring import faults_of
from benchmarks.twins.twin import twins
from cellbridge import parity
from cellbridge.parity.pairing.by_values.flat import without_boundaries
from cellbridge.parity.pairing.by_values.likely_places import likely_places
from cellbridge.parity.report.report import Report
from cellbridge.parity.sides.records import INPUT
from cellbridge.parity.sides.torch_side import TorchSide

WIDTH, SCALE = 6, 3.0


class Adapted(nn.Module):
    """A layer without a bias, beside a low-rank update."""

    def __init__(self) -> None:
        super().__init__()
        self.base, self.down, self.up = (
            nn.Linear(i, o, bias=False) for i, o in ((WIDTH, WIDTH), (WIDTH, 2), (2, WIDTH))
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + SCALE * self.up(self.down(x))  # type: ignore[no-any-return]

    def merged(self, scale: float) -> Tensor:
        return self.base.weight + scale * self.up.weight @ self.down.weight


class Mixer(nn.Module):
    """Both layers are given the same tensor, and only their product is used."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right, self.out = Adapted(), Adapted(), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.out(self.left(x).tanh() * self.right(x))  # type: ignore[no-any-return]


class Causal(nn.Module):
    """Pads both sides and cuts one off afterwards."""

    def __init__(self, dilation: int) -> None:
        super().__init__()
        self.cut = 2 * dilation
        self.conv = weight_norm(nn.Conv1d(WIDTH, WIDTH, 3, padding=self.cut, dilation=dilation))
        self.conv.parametrizations.weight.original0.data *= 1 + torch.rand(WIDTH, 1, 1)  # type: ignore[union-attr]

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x)[..., : -self.cut].relu()  # type: ignore[no-any-return]


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Mixer(), Mixer()
        self.near, self.far = Causal(1), Causal(2)
        self.head = nn.Linear(WIDTH, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = self.second(self.first(x)).mT
        return self.head((y + self.far(self.near(y))).mean(-1))  # type: ignore[no-any-return]


class Port(nn.Module):
    """Has one weight for each product, and pads before it convolves."""

    def __init__(self, like: Network, dilation: int = 2) -> None:
        super().__init__()
        self.rights, self.lefts, self.outs = (
            nn.ModuleList(nn.Linear(WIDTH, WIDTH, bias=name == "out") for _ in range(2)) for name in ("", "", "out")
        )
        self.convs = nn.ModuleList(nn.Conv1d(WIDTH, WIDTH, 3, dilation=d) for d in (1, dilation))
        self.head = nn.Linear(WIDTH, 3)
        mixers, convs = (like.first, like.second), (like.near.conv, like.far.conv)
        state = {f"head.{name}": value for name, value in like.head.state_dict().items()}
        for i, (mixer, conv) in enumerate(zip(mixers, convs, strict=True)):
            state |= {f"outs.{i}.{name}": value for name, value in mixer.out.state_dict().items()}
            state |= {f"lefts.{i}.weight": mixer.left.merged(SCALE), f"rights.{i}.weight": mixer.right.merged(SCALE)}
            state |= {f"convs.{i}.weight": conv.weight, f"convs.{i}.bias": conv.bias}  # type: ignore[dict-item]
        self.load_state_dict(state)

    def forward(self, x: Tensor) -> Tensor:
        for left, right, out in zip(self.lefts, self.rights, self.outs, strict=True):
            x = x + out(right(x) * left(x).tanh())
        y = x.mT
        z = y
        for conv in self.convs:
            z = conv(nn.functional.pad(z, (2 * conv.dilation[0], 0))).relu()  # type: ignore[index, operator]
        return self.head((y + z).mean(-1))  # type: ignore[no-any-return]


class Fused(nn.Module):
    """A port with one weight for both products that are given the same tensor."""

    def __init__(self, port: Port) -> None:
        super().__init__()
        pairs = zip(port.rights, port.lefts, strict=True)
        self.both = nn.ParameterList(torch.cat([layer.weight for layer in pair]) for pair in pairs)  # type: ignore[misc]
        self.outs, self.convs, self.head = port.outs, port.convs, port.head

    def forward(self, x: Tensor) -> Tensor:
        for weight, out in zip(self.both, self.outs, strict=True):
            right, left = nn.functional.linear(x, weight).chunk(2, -1)
            x = x + out(right * left.tanh())
        y = z = x.mT
        for conv in self.convs:
            z = conv(nn.functional.pad(z, (2 * conv.dilation[0], 0))).relu()  # type: ignore[index, operator]
        return self.head((y + z).mean(-1))  # type: ignore[no-any-return]


def compared(
    weights: Mapping[str, float] | None = None, dilation: int = 2, bias: float = 0.0, *, is_fused: bool = False
) -> Report:
    """Compare the port with weights of another scale: of an update, or of a convolution's gain."""
    torch.manual_seed(1)
    module = Network()
    port = Port(module, dilation)
    with torch.no_grad():
        for name, scale in (weights or {}).items():
            kind, number = name.split(".")
            if kind == "convs":
                port.get_parameter(f"{name}.weight").mul_(torch.linspace(1, scale, WIDTH)[:, None, None])
            else:
                mixer = getattr(module, ("first", "second")[int(number)])
                port.get_parameter(f"{name}.weight").copy_(getattr(mixer, kind[:-1]).merged(scale))
        port.head.bias += bias
    return parity.compare(module, Fused(port) if is_fused else port, (torch.randn(3, 7, WIDTH),), seed=0)


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("fault", "failing"),
    [
        ({}, set()),
        ({"weights": {"rights.0": 1.0, "lefts.1": 1.0, "convs.0": 2.0}}, {"first.right", "second.left", "near.conv"}),
        ({"dilation": 1}, {"far.conv"}),
        ({"weights": {"rights.0": 1.0, "lefts.0": 1.0}, "is_fused": True}, {"first.right", "first.left"}),
    ],
)
def test_products_that_agree_with_nothing_are_placed_by_structure(fault: dict[str, object], failing: set[str]) -> None:
    report = compared(**fault)  # type: ignore[arg-type]
    assert set(report.failing) == failing, str(report)


@pytest.mark.slow
def test_places_that_don_t_make_the_port_right_aren_t_taken() -> None:
    report = compared({"lefts.1": 1.0, "rights.1": 1.0}, bias=1.0)
    assert set(report.failing) == {"second", "head"}, str(report)


@pytest.mark.causes
@pytest.mark.slow
def test_an_update_without_its_scale_is_named() -> None:
    report = compared({"lefts.0": 1.0})
    assert report.failing == ["first.left"], str(report)
    assert "the scale 3 isn't applied" in str(report), str(report)


@pytest.mark.slow
def test_a_product_for_keys_and_values_isn_t_put_in_place_of_the_keys_alone() -> None:
    twin = twins()["perceiver/torch attention"]
    reference = twin.reference()
    candidate = twin.candidate(reference, [faults_of(twin)["code"]])
    report = parity.compare(reference, candidate, twin.arguments(), probe=False)
    assert report.failing
    assert not [path for path in report.failing if "net" not in path], str(report)


class Embedding(nn.Module):
    """Embeds a number by its waves."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.last = nn.Linear(4, 10), nn.Linear(10, 3)

    def waves(self, number: Tensor) -> list[Tensor]:
        angles = number[:, None] * torch.tensor([1.0, 0.01])
        return [angles.cos(), angles.sin()]

    def forward(self, number: Tensor) -> Tensor:
        return self.last(self.layer(torch.cat(self.waves(number), -1)).tanh())  # type: ignore[no-any-return]


class SineFirst(Embedding):
    def waves(self, number: Tensor) -> list[Tensor]:
        return super().waves(number)[::-1]


@pytest.mark.parametrize(("scale", "is_taken"), [(1.0, False), (1.0, True), (2.0, False)])
def test_what_a_layer_is_given_has_its_place_there_if_it_has_the_weights_of_the_module(
    scale: float, is_taken: bool
) -> None:
    torch.manual_seed(0)
    port, number = SineFirst(), torch.tensor([3.0, 50.0])
    module = Embedding()
    module.load_state_dict(port.state_dict())
    port.layer.weight.data *= scale
    captured, plain = (TorchSide("torch", net, (number,), {}).in_interpreter().program for net in (module, port))
    plain = without_boundaries(plain)
    known = {name: parameter.value.name for name, parameter in plain.parameters.items()}
    concat = next(node.outputs[0] for node in plain.nodes if node.op == "concat")
    parameters = {"layer.weight", "layer.bias"}
    likely = likely_places(plain, captured, parameters, (), known, {concat} if is_taken else ())
    assert likely is not None
    given = {value for key, value in likely.places.items() if key.path == "layer" and key.kind == INPUT}
    assert given == ({concat} if scale == 1 and not is_taken else set())


class Direction(Causal):
    """A port whose whole weight has the name that the direction of a weight norm has in the module."""

    def forward(self, x: Tensor) -> Tensor:
        weight = self.conv.parametrizations.weight.original1  # type: ignore[union-attr]
        y = nn.functional.conv1d(x, weight, self.conv.bias, padding=self.cut, dilation=2)  # type: ignore[arg-type]
        return y[..., : -self.cut].relu()


def test_a_port_may_name_a_weight_as_the_module_names_the_direction_of_its_own() -> None:
    torch.manual_seed(1)
    module, port, x = Causal(2), Direction(2), torch.randn(3, WIDTH, 7)
    captured, plain = (TorchSide("torch", net, (x,), {}).in_interpreter().program for net in (module, port))
    plain = without_boundaries(plain)
    weight, bias = "conv.parametrizations.weight.original1", "conv.bias"
    names = {name: plain.parameters[name].value.name for name in (weight, bias)}
    own = {"conv.parametrizations.weight.original0", weight, bias}
    likely = likely_places(plain, captured, own, [names[weight]], {bias: names[bias]}, ())
    assert likely is not None
    assert {key.path for key in likely.places} == {"conv"}
