"""Which Python files are model files, by their text."""

from __future__ import annotations

import pytest

from cellbridge.parity.inputs.contract import missing_definitions


@pytest.mark.parametrize(
    "source",
    [
        "def model(): ...\ndef inputs(): ...",
        "model = Network()\ninputs = (x,)",
        "model: Module = Network()\ninputs = {'x': x}",
        "class model(Module): ...\ninputs = [x]",
        "from package import model, inputs",
        "from package import network as model\nimport package.inputs as inputs",
        "from package import *\ndef inputs(): ...",
        "try:\n    from fast import model\nexcept ImportError:\n    from slow import model\ninputs = (x,)",
        "if fast:\n    def model(): ...\nelse:\n    model = Network()\nwith seed():\n    inputs = (x,)",
        "if __name__ == '__main__':\n    pass\nelse:\n    def model(): ...\ndef inputs(): ...",
        "model, inputs = made()",
        "(model, *others), [inputs] = made()",
        "for model in [Network()]:\n    inputs = (x,)",
        "def model(): ...\ndef inputs():\n    return (",  # a syntax error in what looks like a model file
        "model = Network(\ninputs = (x,)",
    ],
)
def test_a_model_file(source: str) -> None:
    assert missing_definitions(source.encode()) == []


@pytest.mark.parametrize(
    ("source", "absent"),
    [
        ("", ["model", "inputs"]),
        ("def even(bits):\n    return sum(bits) % 2 == 0", ["model", "inputs"]),
        ("def model(): ...", ["inputs"]),
        ("inputs = (x,)", ["model"]),
        ("class Raid:\n    model = Disk()\n    def inputs(self): ...", ["model", "inputs"]),
        ("def main():\n    model = Network()\n    inputs = (x,)", ["model", "inputs"]),
        ("if __name__ == '__main__':\n    model = Network()\n    inputs = (x,)", ["model", "inputs"]),
        ("if TYPE_CHECKING:\n    from package import model, inputs", ["model", "inputs"]),
        ("model = 'RAID-5'\ninputs = 3", ["model", "inputs"]),
        ("model = {'bits': 8}\ninputs = (1, 2)", ["model"]),
        ("model: Module\ninputs: tuple", ["model", "inputs"]),
        ("print(model, inputs)", ["model", "inputs"]),
        ("async def model(): ...\nasync def inputs(): ...", ["model", "inputs"]),
        ("squares = [model for model in range(3)]", ["model", "inputs"]),
        ("from package import *", ["model", "inputs"]),
        ("config.model = Network()\nconfig['inputs'] = 1", ["model", "inputs"]),
        ("print 'python 2'", ["model", "inputs"]),
        ("x = '\0'", ["model", "inputs"]),
        ("if a:\n    pass\n" + "elif b:\n    pass\n" * 500, ["model", "inputs"]),
        ("x = " + "(" * 5000 + ")" * 5000, ["model", "inputs"]),
        ("x = " + "1 + " * 20_000 + "1", ["model", "inputs"]),
        ("if " + "1 + " * 900 + "1:\n    inputs = (x,)", ["model"]),
    ],
)
def test_another_file(source: str, absent: list[str]) -> None:
    assert missing_definitions(source.encode()) == absent


def test_another_encoding() -> None:
    assert (
        missing_definitions("# -*- coding: latin-1 -*-\nname = 'é'\nmodel = f()\ninputs = g()".encode("latin-1")) == []
    )
    assert missing_definitions(b"name = '\xe9'") == ["model", "inputs"]


def test_nothing_is_run() -> None:
    assert missing_definitions(b"raise SystemExit(3)\ndef model(): ...\ndef inputs(): ...") == []
