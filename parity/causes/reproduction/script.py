"""The text of `repro.py`, which needs torch alone, or torch and ONNX Runtime.

No text from the network stands in it: functions, tensors and results have made-up names, and all else is numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....converter.torch_out.script import FunctionText, function_text
from ....runtime.errors import ConversionError
from ....runtime.ir.program import Program
from ....runtime.ir.types import FLOAT32
from ...dtypes import cast_floating
from ...sides.records import Array
from .case import BUFFER, CONSTANT, INPUT, Case, with_stored

SCRIPT = "repro.py"
INPUTS, WEIGHTS, MODEL = "inputs.safetensors", "weights.safetensors", "model.onnx"
COTANGENT = "g0"
DIFFERENT, ALIKE = "they differ", "they agree"
"""The end of the last line that the script prints."""

HEAD = '''"""Runs two functions that should compute the same; README.md has the details.

Exit code 1: they differ. Exit code 0: they agree.
"""

{imports}

BAR = {bar!r}  # up to this difference they agree
torch.set_printoptions(precision=10)


def load(name):
    """Return the tensors of a .safetensors file by name, read with torch alone."""
    data = bytearray(Path(__file__).with_name(name).read_bytes())
    start = 8 + int.from_bytes(data[:8], "little")
    dtypes = {{"F64": torch.float64, "F32": torch.float32, "I64": torch.int64, "I32": torch.int32, "BOOL": torch.bool}}
    tensors = {{}}
    for name, item in json.loads(data[8:start]).items():
        first, last = item["data_offsets"]
        flat = torch.frombuffer(data[start + first : start + last] or bytearray(8), dtype=dtypes[item["dtype"]])
        tensors[name] = flat[: (last - first) // flat.itemsize].reshape(item["shape"]).clone()
    return tensors

'''

DTYPES = ("float64", "float32", "int64", "int32", "bool")
"""The dtypes that the script can load."""

OF_OUTPUTS = """
t = load("inputs.safetensors") | load("weights.safetensors")
expected = reference({reference})
found = candidate({candidate})
results = {{"output": (expected, found)}}
"""

OF_GRADIENTS = '''

def gradients(output, leaves):
    """Return the gradients of leaves where g0 arrives at the output; zeros where none arrives."""
    if not output.requires_grad:
        return [torch.zeros_like(leaf) for leaf in leaves]
    return torch.autograd.grad(output, leaves, t["g0"], allow_unused=True, materialize_grads=True)


t = load("inputs.safetensors") | load("weights.safetensors")
names = [{leaves}]
leaves = [t[name].requires_grad_() for name in names]
expected = gradients(reference({reference}), leaves)
found = gradients(candidate({candidate}), leaves)
results = {{f"gradient of {{name}}": pair for name, *pair in zip(names, expected, found)}}
'''

OF_ONNX = """
t = load("inputs.safetensors") | load("weights.safetensors")
session = onnxruntime.InferenceSession(Path(__file__).with_name("model.onnx"), providers=["CPUExecutionProvider"])
feed = {{name: t[name].numpy() for name in [{feed}]}}
found = torch.from_numpy(session.run(None, feed)[0]).double()
t = {{name: x.double() if x.is_floating_point() else x for name, x in t.items()}}  # rounding explains nothing here
expected = reference({reference})
results = {{"output": (expected, found)}}
"""

TAIL = """
differ = False
for name, (expected, found) in results.items():
    print(f"{name} of the reference: {expected.detach()}")
    print(f"{name} of the candidate: {found.detach()}")
    if expected.shape != found.shape:
        print(f"the shapes differ: {tuple(expected.shape)} and {tuple(found.shape)}")
        differ = True
    elif expected.numel():
        difference = (expected.double() - found.double()).abs().max().item()
        print(f"largest difference: {difference:.3g}, up to {BAR:.3g} they agree")
        differ |= not difference <= BAR
print("they differ" if differ else "they agree")
sys.exit(int(differ))
"""


@dataclass(frozen=True)
class Script:
    """A script and the tensors beside it.

    Attributes:
        text: the script.
        inputs: the arrays of `inputs.safetensors`.
        weights: the arrays of `weights.safetensors`.
    """

    text: str
    inputs: dict[str, Array]
    weights: dict[str, Array]


def of_programs(case: Case, bar: float) -> Script:
    """Return the script that runs both programs of a case in torch, in float64.

    Raises:
        ConversionError: a program has no form as a function in torch.
    """
    texts = [_function(case, program, name) for program, name in _named(case)]
    calls = {name: _arguments(program, text) for (program, name), text in zip(_named(case), texts, strict=True)}
    array_names = list(case.tensors)
    if case.gradients:
        array_names.append(COTANGENT)
        body = OF_GRADIENTS.format(leaves=", ".join(f'"{name}"' for name in case.leaves()), **calls)
    else:
        body = OF_OUTPUTS.format(**calls)
    return _script(case, texts, body, bar, array_names, ())


def of_onnx(case: Case, bar: float, feed: list[str]) -> Script:
    """Return the script that runs the reference in torch, and `model.onnx` in ONNX Runtime.

    Args:
        case: a case whose tensors float32 holds.
        bar: the largest difference that rounding explains.
        feed: the inputs of the model.

    Raises:
        ConversionError: the reference has no form as a function in torch.
    """
    text = _function(case, case.reference, "reference")
    calls = _arguments(case.reference, text)
    body = OF_ONNX.format(feed=", ".join(f'"{name}"' for name in feed), reference=calls)
    array_names = list(dict.fromkeys([*(value.name for value in case.reference.inputs), *feed]))
    script = _script(case, [text], body, bar, array_names, ("onnxruntime",))
    return Script(script.text, *({n: _narrow(a) for n, a in part.items()} for part in (script.inputs, script.weights)))


def _named(case: Case) -> list[tuple[Program, str]]:
    return [(case.reference, "reference"), (case.candidate, "candidate")]


def _function(case: Case, program: Program, name: str) -> FunctionText:
    # buffers and constants as such, so that torch's own functions take them
    return function_text(with_stored(program, case, BUFFER + CONSTANT), name)


def _arguments(program: Program, text: FunctionText) -> str:
    inputs = [value.name for value in program.inputs if value.name[0] not in (BUFFER, CONSTANT)]
    return ", ".join(f't["{name}"]' for name in [*inputs, *text.tensors])


def _script(
    case: Case, texts: list[FunctionText], body: str, bar: float, array_names: list[str], libraries: tuple[str, ...]
) -> Script:
    """Return the script of these functions and this body, and the arrays that it uses."""
    helpers = list(dict.fromkeys(helper for text in texts for helper in text.helpers))
    standard_imports = {"import json", "import sys", "from pathlib import Path"}
    others = {f"import {name}" for name in (*libraries, "torch")}
    of_helpers = {line for text in texts for line in text.imports} - standard_imports - others
    standard = standard_imports | {line for line in of_helpers if "torch" not in line}
    third = others | {line for line in of_helpers if "torch" in line}
    imports = "\n\n".join("\n".join(sorted(group, key=_import_order)) for group in (standard, third))
    text = HEAD.format(imports=imports, bar=bar)
    text += "".join(f"\n{part}\n\n" for part in [*helpers, *(text.text for text in texts)]) + body + TAIL
    all_arrays = {name: tensor.data for name, tensor in case.tensors.items()}
    if unknown := [name for text in texts for name in text.tensors if name not in all_arrays]:
        raise ConversionError(f"it makes a constant of its own, {unknown[0]}")
    if COTANGENT in array_names:
        all_arrays[COTANGENT] = case.cotangent(case.reference.outputs[0].type.sizes or ())
    arrays = {name: all_arrays[name] for name in array_names}
    if other := [array.dtype.name for array in arrays.values() if array.dtype.name not in DTYPES]:
        raise ConversionError(f"it takes tensors of {other[0]}")
    inputs = {name: array for name, array in arrays.items() if name[0] in (INPUT, COTANGENT[0])}
    return Script(text, inputs, {name: array for name, array in arrays.items() if name not in inputs})


def _narrow(array: Array) -> Array:
    return cast_floating(array, FLOAT32)


def _import_order(line: str) -> tuple[bool, str]:
    return line.startswith("from"), line
