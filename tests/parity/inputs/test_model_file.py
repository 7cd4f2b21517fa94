"""Valid forms of model files, and messages about wrong ones."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from cellbridge import parity
from cellbridge.converter import from_torch
from cellbridge.parity.inputs.model_file import load
from cellbridge.runtime.errors import UsageError

GOOD = """
import torch
from torch import nn

def model():
    return nn.Linear(3, 2)

def inputs():
    return (torch.randn(4, 3),)
"""

NAMED_WRONGLY = """
import torch

class Net(torch.nn.Module):
    def forward(self, x):
        return x.relu() * 2

model, inputs = Net(), (torch.randn(4, 3),)
"""

Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Write a file into the current folder and return its name."""
    monkeypatch.chdir(tmp_path)

    def write(source: str, name: str = "net.py") -> str:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(source)
        return name

    return write


def refused(target: str) -> str:
    with pytest.raises(UsageError) as caught:
        load(target)
    assert caught.value.exit_code == 2
    return str(caught.value)


def test_a_file_gives_the_module_and_its_arguments(write: Write) -> None:
    model = load(write(GOOD))
    assert isinstance(model.module, nn.Linear)
    assert [tuple(argument.shape) for argument in model.args] == [(4, 3)]
    assert (model.kwargs, model.loss, model.dynamic_shapes, model.name) == ({}, None, None, "net.py")


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="names of files are Unicode there")
def test_a_name_that_is_not_utf8(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """torch.export takes names of files in UTF-8 alone: it reads lines of a class, and says where it stands."""
    monkeypatch.chdir(tmp_path)
    name = "net\udcff.py"
    Path(name).write_text(NAMED_WRONGLY)
    made = load(name)
    report = parity.check(made.module, made.args, model=made.name)
    assert report.ok
    program = from_torch(made.module, made.args)
    assert any("x.relu() * 2" in str(node.source) for node in program.nodes)


def test_the_seed_decides_the_weights_and_the_inputs(write: Write) -> None:
    target = write(GOOD)
    first, same, other_seed = load(target, seed=7), load(target, seed=7), load(target, seed=8)
    assert torch.equal(first.module.weight, same.module.weight)  # type: ignore[arg-type]
    assert torch.equal(first.args[0], same.args[0])
    assert not torch.equal(first.module.weight, other_seed.module.weight)  # type: ignore[arg-type]


def test_another_factory_of_the_file(write: Write) -> None:
    target = write(GOOD + "\ndef wide():\n    return nn.Linear(3, 50)\n")
    model = load(f"{target}:wide")
    assert model.module.out_features == 50
    assert model.name == "net.py:wide"


def test_a_dotted_module(write: Write) -> None:
    write("", "package/__init__.py")
    write("WIDTH = 9", "package/sizes.py")
    write(GOOD.replace("nn.Linear(3, 2)", "nn.Linear(3, WIDTH)") + "\nfrom .sizes import WIDTH", "package/net.py")
    assert load("package.net:model").module.out_features == 9


def test_values_instead_of_functions(write: Write) -> None:
    source = "import torch\nmodel = torch.nn.Linear(3, 2)\ninputs = (torch.ones(1, 3),)\n"
    model = load(write(source))
    assert isinstance(model.module, nn.Linear)
    assert torch.equal(model.args[0], torch.ones(1, 3))


def test_a_class_is_a_factory(write: Write) -> None:
    write(GOOD + "\nclass Net(nn.Linear):\n    def __init__(self): super().__init__(3, 5)\n")
    assert load("net.py:Net").module.out_features == 5


@pytest.mark.parametrize(
    ("value", "args", "kwargs"),
    [
        ("(1, 2)", (1, 2), {}),
        ("[1, 2]", (1, 2), {}),
        ("{'x': 1, 'y': 2}", (), {"x": 1, "y": 2}),
        ("__import__('collections').UserDict(x=1)", (), {"x": 1}),
        ("()", (), {}),
        ("lambda: {'x': 1}", (), {"x": 1}),
    ],
)
def test_inputs_are_positional_or_named(write: Write, value: str, args: object, kwargs: object) -> None:
    model = load(write(f"from torch import nn\nmodel = nn.Identity()\ninputs = {value}\n"))
    assert (model.args, model.kwargs) == (args, kwargs)


def test_one_tensor_is_one_argument(write: Write) -> None:
    model = load(write(GOOD.replace("(torch.randn(4, 3),)", "torch.zeros(4, 3)")))
    (argument,) = model.args
    assert torch.equal(argument, torch.zeros(4, 3))


def test_loss_and_dynamic_shapes(write: Write) -> None:
    model = load(write(GOOD + "\ndef loss(outputs): return outputs.sum()\ndynamic_shapes = ({0: 'batch'},)\n"))
    assert model.loss is not None
    assert model.loss(torch.ones(3)) == 3
    assert model.dynamic_shapes == ({0: "batch"},)


def test_dynamic_shapes_from_a_function(write: Write) -> None:
    assert load(write(GOOD + "\ndef dynamic_shapes(): return ({0: 'batch'},)\n")).dynamic_shapes == ({0: "batch"},)


def test_files_beside_it_can_be_imported(write: Write) -> None:
    write("WIDTH = 6", "folder/sizes_beside.py")
    target = write(GOOD.replace("(3, 2)", "(3, WIDTH)") + "\nfrom sizes_beside import WIDTH", "folder/net.py")
    assert load(target).module.out_features == 6


def test_its_classes_know_their_module_and_source(write: Write) -> None:
    source = GOOD + "\nfrom dataclasses import dataclass\n@dataclass\nclass Sizes:\n    width: 'int' = 3\n"
    module = sys.modules[load(write("from __future__ import annotations\n" + source)).module.__class__.__module__]
    assert module is sys.modules["torch.nn.modules.linear"]
    (file_module,) = (m for name, m in sys.modules.items() if name.startswith("net") and hasattr(m, "Sizes"))
    assert file_module.Sizes().width == 3


def test_two_files_of_one_name(write: Write) -> None:
    first = load(write(GOOD, "a/net.py"))
    second = load(write(GOOD.replace("(3, 2)", "(3, 7)"), "b/net.py"))
    assert (first.module.out_features, second.module.out_features) == (2, 7)


def test_a_file_named_like_a_loaded_module_leaves_that_alone(write: Write) -> None:
    load(write(GOOD, "torch.py"))
    assert sys.modules["torch"] is torch


def test_the_future_imports_of_the_loader_are_not_the_files(write: Write) -> None:
    load(write(GOOD + "\ndef f(x: int): ...\nassert f.__annotations__ == {'x': int}\n"))


def test_loading_leaves_no_file(write: Write, tmp_path: Path) -> None:
    load(write(GOOD))
    assert [path.name for path in tmp_path.iterdir()] == ["net.py"]


def test_what_calls_sys_exit_under_main_loads(write: Write) -> None:
    load(write(GOOD + "\nif __name__ == '__main__':\n    raise SystemExit(1)\n"))


# --- what is wrong -----------------------------------------------------------------------------------------------


def test_no_such_file(write: Write) -> None:
    write(GOOD, "resnet18.py")
    assert refused("resnet81.py") == "no such file: resnet81.py; did you mean resnet18.py?"
    assert refused("resnet18") == "no such file: resnet18; did you mean resnet18.py?"
    assert refused("zzz.py") == "no such file: zzz.py"
    assert refused("models/zzz.py:build") == "no such file: models/zzz.py (there is no folder models)"


def test_a_folder_and_a_file_of_another_kind(write: Write) -> None:
    write("", "folder/net.py")
    assert "is a folder" in refused("folder")
    assert "isn't a Python file" in refused(write("weights", "model.txt"))
    assert "torch.jit.load('model.pt')" in refused(write("weights", "model.pt"))


def test_no_such_module(write: Write) -> None:
    assert refused("no_such_package.net:model").startswith("no module named 'no_such_package'")
    write("", "package/__init__.py")
    assert refused("package.net:model").startswith("no module named 'package.net'")


def test_a_module_whose_package_raises(write: Write) -> None:
    write("1 / 0", "raising_package/__init__.py")
    message = refused("raising_package.net:model")
    assert "raising_package/__init__.py:1: 1 / 0\n  ZeroDivisionError: division by zero" in message


def test_syntax_error(write: Write) -> None:
    assert refused(write("import torch\nx = (1,\n     2\n", "net.py")) == (
        "net.py has a syntax error:\n  net.py:2: '(' was never closed\n    x = (1,\n        ^"
    )


@pytest.mark.parametrize("source", [b"x = '\xe4'", b"x = 1\x00"])
def test_a_file_that_is_no_text(write: Write, tmp_path: Path, source: bytes) -> None:
    write("")
    (tmp_path / "net.py").write_bytes(source)
    assert re.search(r"net.py (has a syntax error|raised)", refused("net.py"))


def test_a_syntax_error_in_a_file_it_imports(write: Write) -> None:
    write("x ==", "broken_sibling.py")
    assert "  broken_sibling.py:1: invalid syntax\n" in refused(write("import broken_sibling"))


def test_it_raises_while_loaded(write: Write) -> None:
    target = write("import torch\nweights = torch.load('absent.pt')\n")
    message = refused(target)
    assert message.startswith("net.py raised FileNotFoundError while it was loaded:\n  net.py:2: weights = torch.load(")
    assert message.endswith("No such file or directory: 'absent.pt'")


def test_the_line_is_the_users_not_a_librarys(write: Write) -> None:
    write("import torch\n\ndef build():\n    return torch.nn.Linear('three', 2)\n", "builder_beside.py")
    message = refused(write("import builder_beside\nmodel = builder_beside.build\ninputs = ()\n"))
    assert "raised TypeError when model() was called:\n  builder_beside.py:4: return torch.nn.Linear" in message


def test_the_traceback_is_the_cause(write: Write) -> None:
    with pytest.raises(UsageError) as caught:
        load(write("1 / 0"))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_failed_load_is_not_kept(write: Write) -> None:
    refused(write("1 / 0"))
    assert "net" not in sys.modules


def test_sys_exit_while_loaded(write: Write) -> None:
    message = refused(write("import argparse\nargparse.ArgumentParser().exit(5)\n"))
    assert message.startswith("net.py ended Python (sys.exit) while it was loaded:\n  net.py:2: argparse")


def test_ctrl_c_is_let_through(write: Write) -> None:
    target = write("raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        load(target)


def test_a_relative_import_outside_a_package(write: Write) -> None:
    assert refused(write("from .layers import Layer")).endswith(
        "It is part of a package: give package.module:model, from the folder that holds the package."
    )


def test_a_long_exception_is_shortened(write: Write) -> None:
    message = refused(write("raise ValueError('\\n'.join(f'line {i}' for i in range(100)))"))
    assert message.endswith("... 80 more lines (-v shows them)")


def test_no_model_but_another_factory(write: Write) -> None:
    message = refused(write(GOOD.replace("def model", "def build_network")))
    assert message == (
        "net.py defines no `model`. It defines build_network (function), inputs (function).\n"
        "Is it `build_network`? Then give net.py:build_network."
    )


def test_no_model_but_one_class(write: Write) -> None:
    message = refused(write("from torch import nn\nclass Net(nn.Module):\n    pass\ninputs = ()\n"))
    assert message.endswith("`Net` is an nn.Module: add\n    def model():\n        return Net()")
    assert "It defines Net (class)." in message


def test_no_model_at_all(write: Write) -> None:
    assert refused(write("from math import pi, sin")) == (
        "net.py defines no `model`. It defines no function and no class.\n"
        "Write `def model():` and return the nn.Module."
    )


def test_no_inputs(write: Write) -> None:
    message = refused(write("from torch import nn\nmodel = nn.Linear(3, 2)\n"))
    assert message.startswith("net.py defines no `inputs`. It defines model (nn.Module).\n")


@pytest.mark.parametrize(
    ("returned", "ending"),
    [
        ("None", "it returned None (is a `return` missing?)"),
        ("nn.Linear", "it returned the class Linear"),
        ("{}", "it returned a dict"),
    ],
)
def test_model_returns_something_else(write: Write, returned: str, ending: str) -> None:
    message = refused(write(GOOD.replace("nn.Linear(3, 2)", returned)))
    assert message == f"net.py: model() must return an nn.Module; {ending}"


def test_model_is_something_else(write: Write) -> None:
    message = refused(write("model = {}\ninputs = ()"))
    assert message == "net.py: `model` must be an nn.Module, or a function returning one; it is a dict"


def test_a_factory_that_needs_arguments(write: Write) -> None:
    message = refused(write(GOOD.replace("def model()", "def model(width, depth=2)")))
    assert message.startswith("net.py: `model` is called without arguments, but it is model(width, depth=2)\n")


def test_a_loss_that_needs_more_than_the_outputs(write: Write) -> None:
    message = refused(write(f"{GOOD}\ndef loss(outputs, labels):\n    return outputs.sum()\n"))
    assert message.startswith("net.py: `loss` is called as loss(outputs), but it is loss(outputs, labels)\n")


@pytest.mark.parametrize(
    ("returned", "ending"),
    [("None", "None (is a `return` missing?)"), ("3", "an int"), ("{1: 2}", "a dict"), ("{1, 2}", "a set")],
)
def test_inputs_are_something_else(write: Write, returned: str, ending: str) -> None:
    message = refused(write(GOOD.replace("(torch.randn(4, 3),)", returned)))
    assert message == f"net.py: inputs() must return a tuple of arguments or a dict of keyword arguments, not {ending}"
    message = refused(write(f"from torch import nn\nmodel = nn.Identity()\ninputs = {returned}"))
    assert message.startswith("net.py: `inputs` must be a tuple")


def test_inputs_raise(write: Write) -> None:
    message = refused(write(GOOD.replace("(torch.randn(4, 3),)", "undefined")))
    assert "net.py raised NameError when inputs() was called:\n  net.py:9: return undefined" in message


def test_loss_is_no_function(write: Write) -> None:
    assert (
        refused(write(GOOD + "\nloss = 3")) == "net.py: `loss` must be a function of the model's outputs; it is an int"
    )


def test_loss_raises(write: Write) -> None:
    loss = load(write(GOOD + "\ndef loss(outputs):\n    return {}['logits']\n")).loss
    assert loss is not None
    with pytest.raises(
        UsageError, match=r"net.py raised KeyError when loss\(outputs\) was called:\n  net.py:12: return"
    ):
        loss(torch.ones(3))
