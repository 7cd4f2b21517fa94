"""Nothing that stands in a file is run: the three rooms hold no way to, but for those that are listed with a reason.

What is looked for: text that becomes code, modules loaded by name, formats that run what they hold, attributes, regular
expressions and templates that aren't written where they are used.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("runtime", "converter", "parity")

RUN_TEXT = {"exec", "eval", "compile", "__import__", "breakpoint"}  # of Python
LOADING = {
    "builtins", "cloudpickle", "code", "codeop", "ctypes", "dill", "imp", "importlib", "jinja2", "joblib", "marshal",
    "pickle", "pty", "runpy", "shelve", "subprocess", "yaml", "logging.config",
}  # fmt: skip
CALLS = {
    "CodeType", "CompilationUnit", "FunctionType", "GraphModule", "_make_nn_module", "format_map", "lambdify",
    "load_library", "make_dataclass", "named_tuple", "namedtuple", "parse_expr", "parse_latex", "popen", "python_code",
    "recompile", "register_custom_ops_library", "spawnl", "spawnv", "symbolic_trace", "sympify", "system",
}  # fmt: skip
"""What makes code of text, or classes or processes, whatever it is called on."""
ATTRIBUTES = {"getattr", "setattr", "delattr"}
GETTERS = {"attrgetter", "methodcaller"}
PATTERNS = {"compile", "match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer"}

Found = tuple[str, str]  # place (file::function), what

TABLE = "patterns of a table, and texts that name their groups"
DTYPE = "a dtype: Options and Run take those of a list"
OWN = "names that stand in our own source"
USER = "the user's own Python, which the user asks for"
EXPORTED = "names that torch.export has given in a graph of its own"
SCRIPTED = "names in the graph of a module that the user's own code has scripted or loaded"
EXCEPTIONS: dict[Found, str] = {
    ("converter/capture/tables/table.py::schema_of", "getattr"): OWN,
    ("converter/exported/archive.py::", "import pickle"): "for the errors that torch.load raises, nothing else",
    (
        "converter/exported/archive_checks.py::_check_operator",
        "getattr",
    ): "operators of torch alone, which it looks for",
    ("converter/exported/modules.py::_name_arguments", "type(name, bases, ...)"): OWN,
    ("converter/exported/modules.py::without_guards", "GraphModule"): "of a graph that torch made, without its guards",
    ("converter/torchscript/functions.py::", "CompilationUnit"): OWN,
    ("converter/torchscript/functions.py::", "torch.jit.CompilationUnit"): OWN,
    ("converter/torchscript/functions.py::", "attrgetter"): OWN,
    ("converter/torchscript/interpreter.py::_node", "setattr"): SCRIPTED,
    ("converter/torchscript/interpreter.py::_operator", "getattr"): SCRIPTED,
    ("converter/torchscript/modules.py::Part.attribute", "getattr"): SCRIPTED,
    ("converter/torchscript/modules.py::_named", "type(name, bases, ...)"): SCRIPTED,
    ("parity/jobs/sweeping/watchdog.py::", "import subprocess"): "runs our own watchdog with this Python",
    ("converter/capture/shapes_spec.py::", "import importlib"): "for modules that torch has since 2.14",
    ("runtime/ir/program.py::", "setattr"): OWN,
    ("runtime/ops/symbolic_methods.py::_attach", "setattr"): OWN,
    ("converter/cell_source/classes.py::", "import builtins"): "lists the names of builtins, which no class gets",
    ("parity/inputs/first_model_file.py::first_model_file", "getattr"): USER,
    ("parity/inputs/library_models.py::", "import importlib"): "timm and transformers, which stand in a table",
    ("parity/inputs/library_models.py::_class", "getattr"): "names that transformers lists, of which models are taken",
    ("parity/inputs/library_models.py::_change", "getattr"): "names of settings that a configuration lists",
    ("parity/inputs/library_models.py::_change", "setattr"): "names of settings that a configuration lists",
    ("parity/inputs/user_source.py::_run_file", "exec"): USER,
    ("parity/inputs/user_source.py::_run_file", "compile"): USER,
    ("parity/inputs/user_source.py::", "import importlib"): USER,
    ("converter/capture/holders.py::_Snapshot.restore", "delattr"): USER,
    ("converter/capture/holders.py::_Snapshot.restore", "setattr"): USER,
    ("parity/sides/kept_state.py::_Place.write", "delattr"): USER,
    ("parity/sides/kept_state.py::_Place.write", "setattr"): USER,
    ("parity/inputs/definitions.py::Definitions.optional", "getattr"): USER,
    (
        "parity/causes/api_differences/calls.py::_resolve",
        "getattr",
    ): "reads attributes of the user's Cell that its source names",
    ("parity/causes/api_differences/calls.py::code_of", "getattr"): OWN,
    ("parity/causes/api_differences/general.py::_compute_dtype", "getattr"): OWN,
    ("parity/causes/api_differences/page.py::first_cell_class", "getattr"): OWN,
    ("parity/causes/api_differences/reading.py::read_argument", "getattr"): OWN,
    ("parity/jobs/training/training_config.py::TrainingConfig.__post_init__", "getattr"): OWN,
    ("parity/jobs/training/training_config.py::TrainingConfig.make_optimizer", "getattr"): OWN,
    ("parity/results/comparison.py::Comparison.to_dict", "getattr"): OWN,
    ("parity/jobs/training/compare.py::_problems", "format"): OWN,
    ("parity/jobs/training/script_proofs.py::ScriptProofs._differences_of_cells", "getattr"): DTYPE,
    ("parity/jobs/training/statistics.py::causes_of_statistics", "getattr"): OWN,
    ("parity/jobs/training/updates/findings.py::is_same", "getattr"): OWN,
    ("parity/jobs/training/updates/respects.py::_negated", "getattr"): OWN,
    ("parity/jobs/training/updates/search.py::Search._by_more", "getattr"): OWN,
    ("parity/jobs/training/updates/words.py::_of_change", "getattr"): OWN,
    ("parity/weights/readers/torch_files.py::", "import pickle"): "for the errors that torch.load raises, nothing else",
    ("parity/weights/pair_matcher.py::PairMatcher.match_by_layer", "getattr"): OWN,
    (
        "parity/causes/reproduction/readme.py::",
        "import importlib",
    ): "importlib.metadata, for the versions of our packages",
    ("parity/causes/reproduction/script.py::of_programs", "format"): OWN,
    ("parity/causes/reproduction/script.py::of_onnx", "format"): OWN,
    ("parity/causes/reproduction/script.py::_script", "format"): OWN,
    ("parity/commands/upgrade.py::", "import subprocess"): "runs this command with the Python that the user names",
    ("parity/commands/sweep.py::_versions", "import importlib"): "importlib.metadata, for the versions of our packages",
    ("parity/jobs/deployment/bundle.py::", "import importlib"): "importlib.resources, for files of ours",
    ("parity/jobs/deployment/kernels.py::", "import importlib"): "importlib.resources, for a file of ours",
    (
        "parity/jobs/sweeping/limits.py::",
        "import subprocess",
    ): "runs parity run on models, and lists the cases of a file",
    ("parity/jobs/sweeping/changed.py::", "import subprocess"): "runs git; a revision stands behind --end-of-options",
    (
        "parity/causes/reproduction/running.py::",
        "import subprocess",
    ): "runs the script of a reproduction, in which no name from the network stands",
    ("parity/jobs/out_of_core/repeated.py::RepeatedPrograms._moved", "getattr"): DTYPE,
    ("parity/sides/torch_program.py::capture_program", "getattr"): DTYPE,
    ("parity/sides/torch_program.py::_cast", "getattr"): DTYPE,
    ("parity/checking/engine.py::_dtype_notes", "getattr"): DTYPE,
    ("parity/sides/given_dtypes.py::keep_dtypes_if_needed", "getattr"): DTYPE,
    ("parity/sides/given_dtypes.py::_runs", "getattr"): DTYPE,
    ("parity/sides/given_dtypes.py::_runs.fresh", "getattr"): DTYPE,
    ("parity/causes/catalogue/resizing.py::_different", "getattr"): OWN,
    ("parity/sides/hand_written.py::Audit._check_gradients", "getattr"): OWN,
    ("parity/jobs/training/loss_network.py::autocast_dtype", "getattr"): DTYPE,
    ("parity/jobs/training/loss_network.py::with_signature", "type(name, bases, ...)"): OWN,
    ("parity/commands/command.py::_open_standard_streams", "getattr"): OWN,
    ("parity/causes/descriptions.py::from_candidate", "re.subn"): TABLE,
    ("parity/commands/command.py::_wrong_use", "re.sub"): TABLE,
    ("parity/commands/command.py::_open_standard_streams", "setattr"): OWN,
    ("parity/inputs/contract.py::", "re.compile"): OWN,
    ("parity/options.py::Options.__post_init__", "getattr"): OWN,
    ("parity/checking/cell_pairs.py::compare_cell", "getattr"): DTYPE,
    ("parity/jobs/training/compare.py::compare_training", "getattr"): DTYPE,
    ("parity/sides/mindspore_cells.py::MindSpore.prepare", "getattr"): DTYPE,
    ("parity/report/html/writer.py::render", "import jinja2"): "its template is a file of ours; names are values",
    ("parity/jobs/training/torch_steps.py::_jitter_parameters", "getattr"): DTYPE,
    ("parity/jobs/training/scripts.py::TorchTraining.run", "getattr"): DTYPE,
    ("converter/capture/functional.py::_Rewriter._in_place", "getattr"): "operators that torch.export has found",
    ("converter/capture/custom_backward.py::CustomFunctions.warn", "format"): OWN,
    (
        "converter/capture/known_numbers.py::settings_as_numbers",
        "type(name, bases, ...)",
    ): "names of the module's classes",
    ("converter/capture/libraries.py::replace_attribute", "getattr"): OWN,
    ("converter/capture/libraries.py::replace_attribute", "setattr"): OWN,
    ("converter/capture/prepare.py::prepare", "recompile"): "torch.export's own graph; `to_torch` makes names harmless",
    ("converter/capture/prepare.py::_inline_regions", "getattr"): EXPORTED,
    ("converter/capture/prepare.py::_inline_regions", "setattr"): EXPORTED,
    ("converter/capture/translate.py::Translator.run", "getattr"): EXPORTED,
    ("converter/cell_source/construct.py::Construct._call.text", "format"): OWN,
    ("converter/cell_source/text/statements.py::assign_names", "format"): OWN,
    (
        "converter/cell_source/text/statements.py::_singular",
        "re.search",
    ): "an identifier, which has no special characters",
    ("converter/cell_source/text/layout.py::_joins_several", "re.findall"): OWN,
    ("converter/cell_source/source.py::_settings_hidden_in_eval_mode", "re.search"): OWN,
    ("converter/cell_source/source.py::_imports", "re.search"): OWN,
    ("converter/onnx_in/model/inference.py::_strip_large_tensors", "getattr"): OWN,
    ("converter/capture/wrappers.py::_innermost", "getattr"): OWN,
    ("converter/onnx_in/model/protos.py::", "getattr"): OWN,
    ("converter/onnx_in/tables/__init__.py::", "import importlib"): "the modules in its own folder",
    (
        "converter/torch_out/code.py::GraphText._call",
        "getattr",
    ): "the name of a function of torch; it is compared, not run",
    (
        "converter/torch_out/assembly.py::Assembly._build",
        "setattr",
    ): "attributes made harmless by TorchModule.assign_names",
    (
        "converter/onnx_in/inputs.py::_item_pattern",
        "re.compile",
    ): "the name is escaped: it matches itself, in linear time",
    ("converter/torch_out/calls/functions.py::field", "getattr"): "identifiers: Structure.from_json refuses others",
    (
        "converter/torch_out/calls/functions.py::named_tuple",
        "named_tuple",
    ): "runtime.tree.named_tuple takes identifiers alone",
    (
        "converter/torch_out/modules.py::_empty_module",
        "type(name, bases, ...)",
    ): "an identifier made by naming.identifier",
    ("converter/torch_out/recording.py::_Steps._node", "getattr"): "methods of Tensor that the forms of ops call",
    ("converter/torch_out/tables/matrices.py::", "getattr"): OWN,
    ("converter/torch_out/walk.py::get_state", "getattr"): "attributes made harmless by TorchModule.assign_names",
    ("runtime/compiled/session.py::", "import ctypes"): "copies an array that ONNX Runtime holds",
    ("runtime/compiled/session.py::Session._create_session", "setattr"): OWN,
    ("runtime/compiled/session.py::explain", "re.search"): OWN,
    (
        "runtime/compiled/child.py::",
        "import ctypes",
    ): "ends the child with its parent, and copies arrays",
    ("runtime/compiled/child.py::_load", "setattr"): "options that the parent, our own process, sends",
    (
        "runtime/compiled/child_process.py::",
        "import subprocess",
    ): "starts our own child, without a shell",
    ("runtime/compiled/isolated.py::IsolatedSession._answer", "getattr"): "compared with a list of exceptions",
    ("runtime/errors.py::require_supported", "format"): OWN,
    ("runtime/functional/random.py::_sample", "getattr"): OWN,
    ("runtime/functional/public_op.py::attach_methods", "setattr"): OWN,
    ("runtime/functional/public_op.py::operator_class", "type(name, bases, ...)"): OWN,
    ("runtime/functional/subscripts.py::", "import builtins"): "for slice, which an operator of that name hides",
    ("runtime/ops/slicing.py::", "import builtins"): "for slice, which an operator of that name hides",
    (
        "runtime/onnx_functions/creating.py::builtin_range",
        "import builtins",
    ): "for range, which an operator of that name hides",
    ("runtime/graph/control/source.py::_File.follow", "compile"): USER,
    ("runtime/graph/control/source.py::_file_of", "compile"): USER,
    ("runtime/graph/control/source.py::", "getattr"): OWN,
    ("runtime/graph/control/rewriting.py::_Function.keep", "setattr"): "fields of Python's syntax trees",
    ("runtime/graph/control/statements.py::", "import builtins"): "for what rewritten code of the user's calls",
    ("runtime/graph/printing.py::", "import builtins"): "for print, which is replaced while Python is traced",
    ("runtime/onnxruntime_package.py::", "import importlib"): "loads onnxruntime itself, by its own name",
    ("runtime/lowering/external_data.py::data_file", "re.compile"): "the name of the file is escaped",
    ("runtime/graph/compiling.py::Jitted.__getattr__", "getattr"): USER,
    ("runtime/graph/objects.py::_attributes", "getattr"): USER,
    ("runtime/lazy.py::", "import importlib"): OWN,
    ("runtime/lazy.py::lazy_getattr.getattr_", "import importlib"): "importlib.metadata, for the version",
    ("parity/support/process.py::", "import ctypes"): "calls mallopt of the C library",
    ("runtime/lazy.py::lazy_getattr.getattr_", "getattr"): OWN,
    ("runtime/lowering/model.py::", "import importlib"): "importlib.metadata, for the version",
    ("runtime/nn/cell.py::Cell.add_flags", "setattr"): USER,
    ("runtime/nn/cell_state.py::Stateful.register_buffer", "setattr"): USER,
    ("runtime/nn/cell_state.py::Stateful.named_buffers", "getattr"): "names of buffers that the user's Cell registered",
    ("runtime/nn/cell_state.py::Stateful.state_dict", "getattr"): "names of buffers that the user's Cell registered",
    ("runtime/nn/layer/multihead_attention.py::MultiheadAttention.__init__", "setattr"): OWN,
    ("runtime/nn/layer/rnns.py::_Recurrent.extend_repr", "getattr"): OWN,
    ("runtime/nn/layer/structural_similarity.py::_Similarity.extend_repr", "getattr"): OWN,
    ("runtime/nn/layer/transformer.py::_TransformerLayer.__init__", "setattr"): OWN,
    ("runtime/ops/elementwise.py::_extremum_vjp.vjp", "getattr"): OWN,
    ("runtime/ops/registry.py::Op._set", "getattr"): OWN,
    ("runtime/ops/registry.py::Op._set", "setattr"): OWN,
    ("runtime/ops/scanning.py::_bound", "getattr"): OWN,
    ("runtime/tree.py::named_tuple", "namedtuple"): "each name is an identifier: it is checked in the line before",
    ("runtime/tree.py::_unflatten", "named_tuple"): "the function above, which checks the names",
}


class _Finder(ast.NodeVisitor):
    """Finds them in one file."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.within: list[str] = []
        self.own: set[str] = set()
        self.found: list[tuple[Found, int]] = []

    def add(self, node: ast.AST, what: str) -> None:
        self.found.append(((f"{self.file}::{'.'.join(self.within)}", what), getattr(node, "lineno", 0)))

    def visit_Module(self, node: ast.Module) -> None:
        """What the file defines or imports from this project under one of the names is something else."""
        for inner in ast.walk(node):
            if isinstance(inner, (ast.FunctionDef, ast.ClassDef)):
                self.own.add(inner.name)
            elif isinstance(inner, ast.ImportFrom) and inner.level:
                self.own |= {alias.asname or alias.name for alias in inner.names}
        self.generic_visit(node)

    def _scope(self, node: ast.FunctionDef | ast.ClassDef) -> None:
        self.within.append(node.name)
        self.generic_visit(node)
        self.within.pop()

    visit_FunctionDef = _scope  # noqa: N815
    visit_ClassDef = _scope  # noqa: N815

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._imported(node, alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.level == 0:
            self._imported(node, node.module or "")

    def _imported(self, node: ast.AST, name: str) -> None:
        for module in LOADING:
            if name == module or name.startswith(f"{module}."):
                self.add(node, f"import {module}")

    def visit_Name(self, node: ast.Name) -> None:
        if node.id in RUN_TEXT and node.id not in self.own:
            self.add(node, node.id)

    def visit_Call(self, node: ast.Call) -> None:
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        owner = ast.unparse(function.value) if isinstance(function, ast.Attribute) else ""
        keywords = {keyword.arg: keyword.value for keyword in node.keywords}
        is_own = not owner and name in self.own and name != "named_tuple"
        if name in CALLS and not is_own:
            self.add(node, name)
        if name in ATTRIBUTES and not _is_written(*node.args[1:2]):
            self.add(node, name)
        if name in GETTERS and not _is_written(*node.args):
            self.add(node, name)
        if name == "type" and len(node.args) == 3:
            self.add(node, "type(name, bases, ...)")
        if owner == "re" and name in PATTERNS and not _is_written(*node.args[:1]):
            self.add(node, f"re.{name}")
        if name == "format" and isinstance(function, ast.Attribute) and not _is_written(function.value):
            self.add(node, "format")
        if owner == "torch" and name in ("load", "compile") and not _is(keywords.get("weights_only"), True):
            self.add(node, f"torch.{name}")
        if owner.startswith(("torch.jit", "torch.hub", "torch.package")):
            self.add(node, f"{owner}.{name}")
        if owner in ("np", "numpy") and name == "load" and not _is(keywords.get("allow_pickle"), False):
            self.add(node, "np.load")
        if "allow_pickle" in keywords and not _is(keywords["allow_pickle"], False):
            self.add(node, "allow_pickle")
        if "shell" in keywords and not _is(keywords["shell"], False):
            self.add(node, "shell")
        self.generic_visit(node)


def _is_written(*nodes: ast.expr) -> bool:
    """Whether each text stands there as it is used."""
    return bool(nodes) and all(isinstance(node, ast.Constant) for node in nodes)


def _is(node: ast.expr | None, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


def executions(root: Path) -> Iterator[tuple[Found, int]]:
    """Each place in the three rooms, and its line."""
    for room in ROOMS:
        for path in sorted((root / room).rglob("*.py")):
            finder = _Finder(path.relative_to(root).as_posix())
            finder.visit(ast.parse(path.read_text(encoding="utf-8"), str(path)))
            yield from finder.found


@cache
def own_executions() -> tuple[tuple[Found, int], ...]:
    return tuple(executions(ROOT))


def test_nothing_is_run_but_what_is_listed() -> None:
    unlisted = [(place, what, line) for (place, what), line in own_executions() if (place, what) not in EXCEPTIONS]
    assert [f"{place}:{line}: {what}" for place, what, line in unlisted] == []


def test_each_exception_is_there() -> None:
    assert set(EXCEPTIONS) - {place for place, _ in own_executions()} == set()
    assert all(len(reason) > 10 for reason in EXCEPTIONS.values())


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("exec(text)", "exec"),
        ("x = [eval]", "eval"),
        ("def f(text):\n    return compile(text, '', 'eval')", "compile"),
        ("__import__(name)", "__import__"),
        ("from builtins import eval as run", "import builtins"),
        ("import importlib.util", "import importlib"),
        ("from importlib import import_module", "import importlib"),
        ("import pickle", "import pickle"),
        ("import subprocess as s", "import subprocess"),
        ("os.system(f'ls {path}')", "system"),
        ("fx.GraphModule(module, graph)", "GraphModule"),
        ("graph_module.recompile()", "recompile"),
        ("graph.python_code('self').src", "python_code"),
        ("fx.symbolic_trace(module)", "symbolic_trace"),
        ("sympy.sympify(text)", "sympify"),
        ("namedtuple(name, fields)", "namedtuple"),
        ("torch.load(path)", "torch.load"),
        ("torch.load(path, weights_only=False)", "torch.load"),
        ("np.load(path)", "np.load"),
        ("read_array(file, allow_pickle=True)", "allow_pickle"),
        ("run(command, shell=True)", "shell"),
        ("getattr(module, name)", "getattr"),
        ("getattr(module, f'_{name}')", "getattr"),
        ("operator.methodcaller(name)", "methodcaller"),
        ("type(name, (Module,), {})", "type(name, bases, ...)"),
        ("re.search(text, line)", "re.search"),
        ("template.format(name)", "format"),
    ],
)
def test_a_planted_execution_is_found(tmp_path: Path, source: str, what: str) -> None:
    file = tmp_path / "converter" / "planted.py"
    file.parent.mkdir()
    file.write_text(source)
    assert what in {execution for (_, execution), _ in executions(tmp_path)}


@pytest.mark.parametrize(
    "source",
    [
        "from .compiled import compile\ncompile(program)",
        "re.compile('a+')",
        "metric.eval()",
        "getattr(module, 'name', None)",
        "torch.load(path, weights_only=True)",
        "np.load(path, allow_pickle=False)",
        "'{}: {}'.format(a, b)",
        "type(module)",
        "def f(graph: fx.GraphModule) -> None: ...",
        "ast.literal_eval(text)",
    ],
)
def test_what_runs_nothing_is_let_through(tmp_path: Path, source: str) -> None:
    file = tmp_path / "converter" / "planted.py"
    file.parent.mkdir()
    file.write_text(source)
    assert list(executions(tmp_path)) == []
