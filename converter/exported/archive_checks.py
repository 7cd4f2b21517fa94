"""What a `.pt2` file may say: torch resolves, evaluates or writes into source code much of the text in it.

`torch.export.load` looks operators up by attribute, from `torch` and `operator` on (`torch.os.system`), passes
expressions of sizes to `sympy.sympify`, which evaluates them as Python, writes names into the source of `forward`, runs
the text of guards, and imports the modules that structures of inputs name. Here each of these texts must be what
`torch.export.save` writes.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from typing import Any

import torch

from ...runtime.errors import UsageError
from ...runtime.visible import visible_name

NAMESPACES = ("aten", "prims", "quantized_decomposed", "torchvision")
HIGHER_ORDER = (
    "associative_scan",
    "cond",
    "map_impl",
    "scan",
    "while_loop",
    "wrap_with_autocast",
    "wrap_with_set_grad_enabled",
)
NUMBERS = re.compile(
    r"""
    abs | add | and_ | eq | floordiv | ge | getitem | gt | invert | le | lshift | lt | mod | mul | ne |
    neg | not_ | or_ | pos | pow | rshift | sub | truediv | trunc | ceil | floor | sqrt
    """,
    re.VERBOSE,
)
"""Functions of `operator` and `math` on sizes."""
SYMBOLIC = re.compile(r"torch\._?sym_\w+")
STRUCTURES = (
    None,
    "builtins.dict",
    "builtins.list",
    "builtins.tuple",
    "collections.OrderedDict",
    "torch.fx.immutable_collections.immutable_dict",
    "torch.fx.immutable_collections.immutable_list",
)
FUNCTIONS = re.compile(
    r"""
    Abs | Add | CeilDiv | CeilToInt | CleanDiv | Eq | Equality | FloatPow | FloatTrueDiv | FloorDiv |
    FloorToInt | Float | Ge | GreaterThan | Gt | Identity | IntTrueDiv | Integer | Le | LessThan | Lt |
    Max | Min | Mod | ModularIndexing | Mul | Ne | Not | And | Or | Pow | PowByNatural | PythonMod |
    Rational | RoundDecimal | RoundToInt | StrictGreaterThan | StrictLessThan | Symbol | ToFloat |
    TruncToFloat | TruncToInt | Unequality | Where
    """,
    re.VERBOSE,
)
"""Functions in expressions of sizes: sympy's, and those of `torch.utils._sympy.functions`."""
CONSTANTS = frozenset(("oo", "int_oo", "true", "false"))
MAX_EXPRESSION = 2000  # characters
MAX_POWERS = 2  # of numbers of 64 bits at most, so that none takes long
MAX_EXPONENT = 64
_POWERS = ("Pow", "PowByNatural", "FloatPow")
_FORMS = (ast.Expression, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.operator, ast.unaryop, ast.boolop,
          ast.cmpop, ast.expr_context)  # fmt: skip
_NAME = re.compile(r"[\w.@]*")  # also a qualified name, and the second call of a module (`layer@1`)
_SYMBOL = re.compile(r"[a-z]+\d+")
_DIGITS = re.compile(r"-?\d{1,25}(\.\d{0,25})?(e[+-]?\d{1,3})?")
_NAMES = re.compile(r"(\w+_)?name|fqn|as_names")
_FILE_NAMES = ("file", "filename", "fname", "path")


def check_model(model: Any) -> None:
    """Check the description of a program, as `json.loads` returns it.

    Raises:
        UsageError: a text in it isn't one that `torch.export.save` writes.
    """
    for key, value in _texts(model, ""):
        if key in ("target", "as_operator"):
            _check_operator(value)
        elif key == "expr_str":
            _check_expression(value)
        elif key in ("in_spec", "out_spec"):
            _check_structure(value)
        elif _NAMES.fullmatch(key) and not _NAME.fullmatch(value):
            raise _refusal(f"the name {visible_name(value)}")
        elif key == "class_fqn":
            raise _refusal(f"an object of the class {visible_name(value)}")


def _texts(value: Any, key: str) -> Iterator[tuple[str, str]]:
    """Each text in a value of JSON with the key that it belongs to; keys of `name` that are names themselves, too."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item, key)
    elif isinstance(value, dict):
        for inner, item in value.items():
            if key.endswith("_values") or key == "range_constraints":
                yield "name", inner
            yield from _texts(item, inner)


def _check_operator(target: str) -> None:
    module, _, name = target.rpartition(".")
    if (module in ("_operator", "math") and NUMBERS.fullmatch(name)) or SYMBOLIC.fullmatch(target):
        return
    parts = target.split(".")
    if parts[:2] != ["torch", "ops"] or not 4 <= len(parts) <= 5 or not _NAME.fullmatch(target):
        raise _refusal(f"the function {visible_name(target)}")
    _, _, namespace, operator, *overload = parts
    if namespace == "higher_order" and operator in HIGHER_ORDER:
        return
    if namespace not in NAMESPACES or operator.startswith("__"):
        raise _refusal(f"the operator {visible_name(target)}", "it isn't one of torch itself")
    function = getattr(getattr(getattr(torch.ops, namespace), operator, None), "".join(overload) or "default", None)
    if not isinstance(function, torch._ops.OpOverload):
        raise _refusal(f"the operator {visible_name(target)}", f"torch {torch.__version__} has none of that name")
    if any(argument.name in _FILE_NAMES for argument in function._schema.arguments):
        raise _refusal(f"the operator {visible_name(target)}", "it opens files")


def _check_expression(text: str) -> None:
    """Refuse what isn't arithmetic on sizes, which sympy writes as `Mul(Integer(2), Symbol('s0'))`, or as `2*s0`."""
    try:
        tree = ast.parse(text, mode="eval") if len(text) <= MAX_EXPRESSION else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        tree = None
    nodes = [] if tree is None else list(ast.walk(tree))
    exponents = [exponent for node in nodes if (exponent := _exponent(node)) is not None]
    numbers = [n.value for exponent in exponents for n in ast.walk(exponent) if isinstance(n, ast.Constant)]
    small = all(isinstance(number, int) and abs(number) <= MAX_EXPONENT for number in numbers)
    if not nodes or not all(map(_is_arithmetic, nodes)) or len(exponents) > MAX_POWERS or not small:
        raise _refusal(f"the size {visible_name(text)}")


def _exponent(node: ast.AST) -> ast.AST | None:
    match node:
        case ast.BinOp(op=ast.Pow(), right=exponent):
            return exponent
        case ast.Call(func=ast.Name(id=name), args=[_, exponent, *_]) if name in _POWERS:
            return exponent
    return None


def _is_arithmetic(node: ast.AST) -> bool:
    match node:
        case ast.Constant(value=str() as text):  # the name of a symbol, or the digits of a Float
            return _SYMBOL.fullmatch(text) is not None or _DIGITS.fullmatch(text) is not None
        case ast.Constant(value=number):
            return isinstance(number, (int, float)) and abs(number) < 2**64
        case ast.Name(id=name):
            return FUNCTIONS.fullmatch(name) is not None or name in CONSTANTS or _SYMBOL.fullmatch(name) is not None
        case ast.Call(func=ast.Name(id=name)):
            return FUNCTIONS.fullmatch(name) is not None
        case ast.keyword(arg=str(), value=ast.Constant(value=bool() | int())):
            return True
    return isinstance(node, _FORMS)


def _check_structure(text: str) -> None:
    """Refuse structures of inputs and results that name a module to import."""
    try:
        stack: list[Any] = [json.loads(text)[1]]
        while stack:
            structure = stack.pop()
            if structure["type"] not in STRUCTURES or "__enum__" in str(structure["context"]):
                raise _refusal(f"a structure of the type {visible_name(str(structure['type']))}")
            stack += structure["children_spec"]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise _refusal("a structure of inputs that can't be read") from error


def _refusal(what: str, why: str = "torch.export.save doesn't write it") -> UsageError:
    return UsageError(
        f"the file has {what}: {why}\n"
        "  what to do: if you trust the file, which may then run any code, write a model file: "
        "def model(): return torch.export.load(path)"
    )
