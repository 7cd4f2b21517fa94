"""Checkpoints: what is written and read, what is matched, and that nothing is done by halves."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellbridge.runtime as ms
from cellbridge.runtime import Parameter, Tensor, nn, ops
from cellbridge.runtime.train.serialization import load_checkpoint, load_param_into_net, save_checkpoint


def network() -> nn.Cell:
    net = nn.Cell()
    net.fc = nn.Dense(2, 1, weight_init="ones", bias_init="zeros")
    net.bn = nn.BatchNorm1d(1)
    return net


NAMES = ["fc.weight", "fc.bias", "bn.moving_mean", "bn.moving_variance", "bn.gamma", "bn.beta"]


def named(**values: Any) -> dict[str, Any]:
    return {name.replace("_", "."): Parameter(Tensor(value)) for name, value in values.items()}


# ---- writing and reading ----


def test_a_cell_and_back(tmp_path: Path) -> None:
    net = network()
    net.fc.weight.set_data(Tensor([[1.5, -2.0]]))
    net.fc.weight.requires_grad = False
    save_checkpoint(net, str(tmp_path / "net"))
    assert os.listdir(tmp_path) == ["net.ckpt"]
    loaded = load_checkpoint(str(tmp_path / "net.ckpt"))
    assert list(loaded) == NAMES
    assert loaded["fc.weight"].tolist() == [[1.5, -2.0]]
    assert all(p.requires_grad and p.name == name for name, p in loaded.items())


@pytest.mark.parametrize(
    "dtype", ["float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool"]
)
@pytest.mark.parametrize("shape", [(), (1,), (2, 0), (2, 3)])
def test_every_dtype_and_shape(tmp_path: Path, dtype: str, shape: tuple[int, ...]) -> None:
    value = Tensor(np.ones(shape), dtype)
    save_checkpoint({"p": Parameter(value)}, tmp_path / "p.ckpt")
    loaded = load_checkpoint(tmp_path / "p.ckpt")["p"]
    assert (loaded.dtype, loaded.shape, loaded.tolist()) == (value.dtype, shape, value.tolist())


@pytest.mark.parametrize(
    "saved",
    [
        [{"name": "a", "data": Tensor([1.0])}],
        [Parameter(Tensor([1.0]), name="a")],
        {"a": Parameter(Tensor([1.0]), name="other")},
        {"a": Tensor([1.0])},
    ],
)
def test_what_can_be_saved(tmp_path: Path, saved: Any) -> None:
    save_checkpoint(saved, tmp_path / "a")
    ((name, parameter),) = load_checkpoint(tmp_path / "a.ckpt").items()
    assert (name, parameter.name, parameter.tolist()) == ("a", "a", [1.0])


def test_appended_numbers_and_strings(tmp_path: Path) -> None:
    save_checkpoint(network(), tmp_path / "a", append_dict={"epoch": 3, "lr": 0.5, "done": True, "note": "text"})
    loaded = load_checkpoint(tmp_path / "a.ckpt")
    assert list(loaded) == [*NAMES, "epoch", "lr", "done", "note"]
    assert [int(loaded["epoch"]), float(loaded["lr"]), bool(loaded["done"]), loaded["note"]] == [3, 0.5, True, "text"]
    missing, unused = load_param_into_net(network(), loaded)
    assert (missing, unused) == ([], ["epoch", "lr", "done", "note"])


def test_choosing_names(tmp_path: Path) -> None:
    save_checkpoint(network(), tmp_path / "a", choice_func=lambda name: name.startswith("fc"))
    file = tmp_path / "a.ckpt"
    assert list(load_checkpoint(file)) == ["fc.weight", "fc.bias"]
    assert list(load_checkpoint(file, choice_func=lambda name: "bias" in name)) == ["fc.bias"]
    assert list(load_checkpoint(file, filter_prefix="fc.w")) == ["fc.bias"]
    assert list(load_checkpoint(file, filter_prefix=["fc.b", "zz"])) == ["fc.weight"]
    assert list(load_checkpoint(file, specify_prefix="fc.b")) == ["fc.bias"]


def test_loading_into_a_network_at_once(tmp_path: Path) -> None:
    save_checkpoint(named(fc_weight=[[5.0, 6.0]]), tmp_path / "a")
    net = network()
    with pytest.warns(UserWarning, match=r"lacks.*fc\.bias"):
        load_checkpoint(tmp_path / "a.ckpt", net=net)
    assert net.fc.weight.tolist() == [[5.0, 6.0]]


def test_the_renaming_recipe(tmp_path: Path) -> None:
    save_checkpoint(network(), tmp_path / "a")
    renamed = {f"net.{name}": ops.ones_like(p) for name, p in load_checkpoint(tmp_path / "a.ckpt").items()}
    outer = nn.Cell()
    outer.net = network()
    values = {name: Parameter(value, name=name) for name, value in renamed.items()}
    assert load_param_into_net(outer, values) == ([], [])
    assert outer.net.fc.bias.tolist() == [1.0]


def test_no_pickle_and_nothing_but_safetensors(tmp_path: Path) -> None:
    save_checkpoint(network(), tmp_path / "a")
    data = (tmp_path / "a.ckpt").read_bytes()
    header = int.from_bytes(data[:8], "little")
    assert data[8:9] == b"{"
    assert b"fc.weight" in data[8 : 8 + header]


def test_a_file_that_cannot_be_written_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.ckpt"
    save_checkpoint(named(a=1.0), file)
    before = file.read_bytes()
    with pytest.raises(TypeError):
        save_checkpoint([Parameter(Tensor([2.0]), name="a"), 3], file)

    def full(*_: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="no space"):
        save_checkpoint(named(a=2.0), file)
    assert file.read_bytes() == before
    assert os.listdir(tmp_path) == ["a.ckpt"]


# ---- matching ----


def test_missing_and_extra_names_are_reported() -> None:
    net = network()
    net.fc.weight.requires_grad = False
    missing, unused = load_param_into_net(net, named(fc_weight=[[5.0, 6.0]], zz=1.0))
    assert (missing, unused) == (NAMES[1:], ["zz"])
    assert net.fc.weight.tolist() == [[5.0, 6.0]]
    assert not net.fc.weight.requires_grad


@pytest.mark.parametrize("given", [ms.float16, ms.float64, ms.bfloat16])
def test_floating_point_numbers_are_cast_unless_strict(given: Any) -> None:
    net = network()
    values = {"fc.bias": Parameter(Tensor([5.0], given))}
    with pytest.raises(RuntimeError, match=r"fc\.bias.*Float32"):
        load_param_into_net(net, values, strict_load=True)
    load_param_into_net(net, values)
    assert (net.fc.bias.tolist(), net.fc.bias.dtype) == ([5.0], np.float32)


def test_what_was_loaded_is_apart_from_the_dict() -> None:
    net, values = network(), named(fc_bias=[5.0])
    load_param_into_net(net, values)
    values["fc.bias"][0] = 9.0
    net.fc.bias[0] = 7.0
    assert (net.fc.bias.tolist(), values["fc.bias"].tolist()) == ([7.0], [9.0])


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (named(fc_bias=[5.0], bn_gamma=[1.0, 2.0]), ["bn.gamma", "shape", "(1,)", "(2,)"]),
        (named(fc_bias=[5.0], bn_gamma=[1]), ["bn.gamma", "Float32", "Int64"]),
    ],
)
def test_all_is_checked_before_anything_changes(values: dict[str, Any], words: list[str]) -> None:
    net = network()
    with pytest.raises(RuntimeError) as raised:
        load_param_into_net(net, values)
    assert [word for word in words if word not in str(raised.value)] == []
    assert net.fc.bias.tolist() == [0.0]


# ---- refusals ----


def broken(folder: Path, name: str, content: bytes) -> Path:
    (folder / name).write_bytes(content)
    return folder / name


@pytest.mark.parametrize(
    ("act", "error", "words"),
    [
        (lambda d: save_checkpoint(3, d / "a"), TypeError, ["save_obj", "Cell", "int"]),
        (lambda d: save_checkpoint((), d / "a"), TypeError, ["save_obj", "tuple"]),
        (lambda d: save_checkpoint([3], d / "a"), TypeError, ["save_obj", "Parameter", "int"]),
        (lambda d: save_checkpoint([{"a": 1}], d / "a"), TypeError, ["name", "data", "dict"]),
        (lambda d: save_checkpoint({3: Tensor(1)}, d / "a"), TypeError, ["name", "3"]),
        (lambda d: save_checkpoint(network(), ""), ValueError, ["ckpt_file_name", "''"]),
        (lambda d: save_checkpoint(network(), 3), TypeError, ["ckpt_file_name", "string", "int"]),
        (lambda d: save_checkpoint(network(), d / "a", append_dict={"e": [1]}), TypeError, ["append_dict", "list"]),
        (lambda d: save_checkpoint(network(), d / "a", append_dict={"fc.bias": 1}), ValueError, ["fc.bias"]),
        (lambda d: save_checkpoint(network(), d / "no" / "a"), FileNotFoundError, ["no folder"]),
        (lambda d: save_checkpoint([Parameter(1.0, name="a"), Parameter(2.0, name="a")], d / "a"), ValueError,
         ["two", "'a'"]),
        (lambda d: load_checkpoint(d / "a.ckpt"), ValueError, ["does not exist", "a.ckpt"]),
        (lambda d: load_checkpoint(broken(d, "a.txt", b"x")), ValueError, [".ckpt", "a.txt"]),
        (lambda d: load_checkpoint(broken(d, "a.ckpt", b"")), ValueError, ["empty"]),
        (lambda d: load_checkpoint(broken(d, "a.ckpt", b"hello" * 9)), ValueError, ["corrupted"]),
        (lambda d: load_checkpoint(broken(d, "a.ckpt", b"\x80\x04]\x94.")), ValueError, ["corrupted"]),
        (lambda d: load_checkpoint(None), TypeError, ["ckpt_file_name", "NoneType"]),
        (lambda d: load_param_into_net(3, {}), TypeError, ["net", "Cell", "int"]),
        (lambda d: load_param_into_net(network(), []), TypeError, ["parameter_dict", "dict", "list"]),
        (lambda d: load_param_into_net(network(), {"a": Tensor(1.0)}), TypeError, ["Parameter", "Tensor"]),
        (lambda d: load_param_into_net(network(), {3: Parameter(1.0)}), TypeError, ["Parameter", "3"]),
        (lambda d: load_param_into_net(network(), {}, strict_load=1), TypeError, ["strict_load", "bool"]),
    ],
)  # fmt: skip
def test_refusals(tmp_path: Path, act: Callable[[Path], Any], error: type[Exception], words: list[str]) -> None:
    with pytest.raises(error) as raised:
        act(tmp_path)
    assert [word for word in words if word not in str(raised.value)] == []


def test_a_truncated_file_is_corrupted(tmp_path: Path) -> None:
    save_checkpoint(network(), tmp_path / "a")
    data = (tmp_path / "a.ckpt").read_bytes()
    for size in (4, 20, len(data) - 1):
        with pytest.raises(ValueError, match="corrupted"):
            load_checkpoint(broken(tmp_path, "b.ckpt", data[:size]))


def test_nothing_left_to_load(tmp_path: Path) -> None:
    save_checkpoint(named(fc_bias=[1.0]), tmp_path / "a")
    with pytest.raises(ValueError, match="nothing is left"):
        load_checkpoint(tmp_path / "a.ckpt", filter_prefix="fc")


def test_training_goes_on_from_a_checkpoint_of_network_and_optimizer(tmp_path: Path) -> None:
    x, y = Tensor([[1.0, 2.0], [3.0, -1.0]]), Tensor([[1.0], [2.0]])

    def fresh() -> nn.TrainOneStepCell:
        net = network()
        return nn.TrainOneStepCell(
            nn.WithLossCell(nn.SequentialCell([net.fc, net.bn]), nn.MSELoss()), nn.Adam(net.trainable_params(), 0.1)
        ).set_train()

    straight, before, after = fresh(), fresh(), fresh()
    expected = [straight(x, y).asnumpy() for _ in range(6)]
    losses = [before(x, y).asnumpy() for _ in range(3)]
    save_checkpoint(before, tmp_path / "step")
    assert load_param_into_net(after, load_checkpoint(tmp_path / "step.ckpt")) == ([], [])
    losses += [after(x, y).asnumpy() for _ in range(3)]
    assert losses == expected


def test_names_with_a_prefix_are_found() -> None:
    net = network()
    values = named(fc_weight=[[5.0, 6.0]]) | {
        f"backbone.{name}": Parameter(Tensor(np.full(p.shape, 3.0, np.float32)))
        for name, p in zip(NAMES, network().get_parameters(), strict=True)
    }
    with pytest.warns(UserWarning, match="prefix 'backbone.'"):
        missing, unused = load_param_into_net(net, values)
    assert missing == []
    assert unused == [f"backbone.{name}" for name in NAMES]  # as MindSpore has it
    assert net.fc.weight.asnumpy().tolist() == [[5.0, 6.0]]
    assert net.fc.bias.asnumpy().tolist() == [3.0]
    assert net.bn.moving_mean.asnumpy().tolist() == [3.0]


def test_each_part_may_have_a_prefix_of_its_own() -> None:
    net = network()
    values = {f"{'head' if name.startswith('fc') else 'body'}.{name}": Parameter(p)
              for name, p in zip(NAMES, network().get_parameters(), strict=True)}  # fmt: skip
    with pytest.warns(UserWarning, match="prefix"):
        assert load_param_into_net(net, values)[0] == []


def test_a_value_under_a_prefix_must_fit_and_a_strict_load_takes_none() -> None:
    net = network()
    with pytest.warns(UserWarning, match="prefix"), pytest.raises(RuntimeError, match="shape"):
        load_param_into_net(net, {"x.fc.weight": Parameter(Tensor([1.0]))})
    strict = {"x.fc.weight": Parameter(Tensor([[1.0, 1.0]]))}
    assert load_param_into_net(net, strict, strict_load=True) == (NAMES, ["x.fc.weight"])
