"""The construct of a Cell, generated from one call of the module."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...runtime.errors import ConversionError
from ...runtime.ir.flow import Flow
from ...runtime.ir.types import Node, Value
from ...runtime.ops.registry import get
from ..structure.interfaces import Interface
from .forms import FORMS, WITHOUT_FORM, MultiOutput, Operation, UnsupportedForm
from .layers.network import CellNetwork
from .results import pack_result, pattern_of, subscript
from .scope import CallScope
from .signature import Signature
from .steps import CallStep, hints_of, steps_of, uses_of
from .text.dimensions import size_expression
from .text.expressions import ATOM, Expression, fill_holes, identifier
from .text.statements import Statement, assign_names, merge_into_loops

INLINE = 72
"""The maximum length of an expression with inlined operands, if every name has this length:"""
NAME = 5


@dataclass
class Pending:
    """An expression that isn't a statement yet: it may be inlined where it is used.

    Attributes:
        effects: numbers of the calls and random draws in it, whose order must be kept.
        hints: names for it; see `Statement`.
        fallback: see `Statement`.
    """

    expression: Expression
    effects: tuple[int, ...]
    hints: Sequence[str]
    fallback: str


@dataclass
class ConstructText:
    """The text of a construct: its parameters and its lines."""

    parameters: list[str]
    lines: list[str] = field(default_factory=list)


@dataclass
class StepResult:
    """The result of a step, before it is inlined or becomes a statement.

    Attributes:
        text: creates the expression; it may be called twice.
        pattern: how several outputs are unpacked.
        effect: whether it must keep its place in the order of calls and random draws.
        apart: whether it is always a separate statement, regardless of its length.
        fallback: see `Statement`.
    """

    text: Callable[[], Expression]
    pattern: str
    effect: bool = False
    apart: bool = False
    fallback: str = ""


class Construct:
    """Generates the code of one call; ops without a form are appended to `missing`."""

    def __init__(
        self,
        network: CellNetwork,
        flow: Flow,
        interfaces: Sequence[Interface],
        missing: list[tuple[str, str, str]],
    ) -> None:
        self.network = network
        self.flow = flow
        self.interfaces = interfaces
        self.interface = interfaces[flow.number]
        self.missing = missing
        self.scope = CallScope(network, flow, interfaces)
        self.steps = steps_of(network, flow, interfaces, self.scope)
        results = self.interface.results if flow.number else network.program.outputs
        self.results = [self.scope.resolve(value) for value in results]
        self.updates = [(buffer, self.scope.resolve(value)) for buffer, value in self.interface.updates]
        self.uses = uses_of(self.steps, [*self.results, *(value for _, value in self.updates)])
        self.hints, self.assigned = hints_of(self.steps, self.uses)
        self.statements: list[Statement] = []
        self.pending: dict[Value, Pending] = {}
        self.effects = 0

    def compute(self) -> None:
        """Generate the statements; the code of the modules that they call must exist."""
        for step in self.steps:
            if isinstance(step.part, Flow):
                self._place(step, self._call(step, step.part))
            else:
                self._compute(step, step.part)
        self._assign_updates()
        self._return()

    def to_text(self, signature: Signature) -> ConstructText:
        """The text of the construct, after `compute`."""
        names = dict(zip(self.interface.parameters, signature.names, strict=True))
        sizes = []
        size_names = self.network.size_names
        for name in sorted(self.scope.sizes):
            source = self.interface.size(name)
            if source is None:
                raise ConversionError(
                    f"the data-dependent size {name} is needed in a Cell that doesn't receive it: it can't be "
                    "written as source"
                )
            sizes.append(f"{size_names[name]} = {size_expression(signature.names[source[0]], *source[1:])}")
        protected = {size_names[name] for name in (*self.interface.symbols, *self.scope.sizes)} | self.scope.helpers
        lines = assign_names(self.statements, self.scope.marks, names, protected)
        return ConstructText(
            signature.parameters, [*signature.unpacking, *sizes, *merge_into_loops(lines, self._lists())]
        )

    # ---- steps ----

    def _call(self, step: CallStep, flow: Flow) -> StepResult:
        module, interface = self.network.module_of(flow), self.interfaces[flow.number]
        layer, listed = module.layer, module.parent is not None and module.parent.is_numbered
        self.scope.sizes |= set(interface.symbols) - set(self.interface.symbols)
        position = next(i for i, other in enumerate(module.calls) if other is flow)

        def text() -> Expression:
            texts = [self.scope.tensor(value).text for value in step.operands]
            arguments = (
                [layer.argument_pattern.format(*texts)]
                if layer is not None
                else [*texts, *self.network.size_arguments(interface)]
            )
            variant = [f"variant={position}"] if module.varies else []
            return Expression(f"{self.scope.path(module)}({', '.join(arguments + variant)})")

        pattern = layer.output_pattern if layer is not None else pattern_of(len(step.outputs))
        fallback = identifier(module.name) if module.name.isidentifier() else ""
        return StepResult(text, pattern, effect=True, apart=listed, fallback=fallback)

    def _compute(self, step: CallStep, node: Node) -> None:
        effect = node.op == "dropout" or get(node.op).traits.draws or bool(node.attributes.get("dropout"))
        if not effect and not any(self.uses[value] for value in node.outputs):
            return
        operation = Operation(self.scope, node)
        try:
            if node.op not in FORMS:
                raise UnsupportedForm(WITHOUT_FORM.get(node.op, ""))
            form = FORMS[node.op]
            result_form = form(operation)
        except UnsupportedForm as reason:
            label = f"{node.op}{f' ({reason})' if str(reason) else ''}"
            self.missing.append((label, str(self.flow.call), str(node.source) if node.source else ""))
            self.statements.append(Statement("...", list(node.outputs), pattern_of(len(node.outputs))))
            return

        def text() -> Expression:
            expression = form(operation)
            return expression.call if isinstance(expression, MultiOutput) else expression

        owner = self.network.owner(step.operands[0], self.scope.module) if step.operands else None
        fallback = identifier(owner[1]) if owner is not None else "" if step.operands else node.op
        result = StepResult(text, pattern_of(len(node.outputs)), effect=effect, fallback=fallback)
        self._place(step, result, result_form.after if isinstance(result_form, MultiOutput) else ())

    def _place(self, step: CallStep, result: StepResult, afters: Sequence[Any] = ()) -> None:
        """Turn a result into a statement, or keep it to be inlined where it is used."""
        expression, effects = self._with_operands(result.text, step.operands, inline=not result.apart)
        if result.effect:
            self.effects += 1
            effects = (*effects, self.effects)
        positions = [i for i, value in enumerate(step.outputs) if self.uses[value]]
        hints = [self.hints.get(value, []) for value in step.outputs]
        if len(positions) == 1:
            (i,) = positions
            if len(step.outputs) > 1:
                expression = Expression(expression.within(ATOM) + subscript(result.pattern, i))
            if afters and afters[i] is not None:
                expression = afters[i](expression)
            value = step.outputs[i]
            self.pending[value] = Pending(expression, effects, hints[i], result.fallback)
            if self.uses[value] > 1 or result.apart or value in self.assigned:
                self._emit(value)
        elif positions or result.effect:
            self._emit_before(effects)
            targets = [value if self.uses[value] else None for value in step.outputs] if positions else []
            self.statements.append(Statement(expression.text, targets, result.pattern, hints, result.fallback))
            for value, after in zip(step.outputs, afters, strict=False):
                if after is not None and self.uses[value]:
                    changed = after(Expression(self.scope.marks.mark(value)))
                    self.statements.append(Statement(changed.text, [value], hints=[self.hints.get(value, [])]))

    # ---- inlining ----

    def _with_operands(
        self, text: Callable[[], Expression], operands: Sequence[Value], *, inline: bool = True
    ) -> tuple[Expression, tuple[int, ...]]:
        """An expression with operands inlined that have no other use, if it stays short enough."""
        inlined = self.scope.inlined
        plain = text()
        order = self.scope.marks.within(plain.text)
        chosen: list[Value] = []
        length = self._length(plain.text)
        fitting = [v for v in order if v in self.pending and order.count(v) == 1 and self.uses[v] == 1 and inline]
        for value in sorted(fitting, key=lambda v: self._length(self.pending[v].expression.text)):
            more = self._length(self.pending[value].expression.text) - NAME
            if length + more <= INLINE or plain.text == self.scope.marks.mark(value):
                chosen.append(value)
                length += more
        chosen = [value for value in order if value in chosen]
        while not self._in_order(chosen):
            chosen.remove(min((v for v in chosen if self.pending[v].effects), key=lambda v: self.pending[v].effects))
        inlined.update({value: self.pending[value].expression for value in chosen})
        for value in [v for v in self.pending if v in operands and v not in inlined]:
            if value in self.pending:
                self._emit(value)
        expression = text() if inlined else plain
        effects = tuple(e for v in order if v in inlined for e in self.pending[v].effects)
        for value in inlined:
            del self.pending[value]
        inlined.clear()
        return expression, effects

    def _in_order(self, values: Sequence[Value]) -> bool:
        """Whether calls and random draws keep their order if these values are evaluated here, one after the other."""
        effects = [e for value in values for e in self.pending[value].effects]
        others = [e for v, item in self.pending.items() if v not in values for e in item.effects]
        return not effects or (effects == sorted(effects) and all(e < min(effects) for e in others))

    def _emit(self, value: Value) -> None:
        """Turn a pending value into a statement, after those with earlier calls and random draws."""
        item = self.pending.pop(value)
        self._emit_before(item.effects)
        self.statements.append(Statement(item.expression.text, [value], "{0}", [item.hints], item.fallback))

    def _emit_before(self, effects: tuple[int, ...]) -> None:
        for value in [v for v, item in self.pending.items() if item.effects and effects and item.effects < effects]:
            if value in self.pending and value not in self.scope.inlined:
                self._emit(value)

    def _length(self, text: str) -> int:
        return len(self.scope.marks.fill(fill_holes(text, self.network.literals.text), lambda _: "x" * NAME))

    # ---- the end of the call ----

    def _assign_updates(self) -> None:
        lines: list[str] = []
        for buffer, value in self.updates:

            def text(value: Value = value) -> Expression:
                return self.scope.tensor(value)

            expression, _ = self._with_operands(text, [value])
            lines.append(f"ops.assign({self.scope.access(buffer)}, {expression.text})")
        if lines and self.network.program.train:
            body = "\n".join("    " + line for line in lines)
            self.statements.append(Statement(f"if self.training:\n{body}"))
        else:
            self.statements += [Statement(line) for line in lines]

    def _return(self) -> None:
        def text() -> Expression:
            texts = [self.scope.tensor(value).text for value in self.results]
            if not self.flow.number:
                return Expression(pack_result(self.network.program.result, texts))
            return Expression(", ".join(texts) if texts else "None")

        expression, effects = self._with_operands(text, self.results)
        self._emit_before((*effects, self.effects + 1))
        self.statements.append(Statement(f"return {expression.text}"))

    def _lists(self) -> dict[str, int]:
        root = self.scope.module
        lists = [module for module in root.all() if module.is_numbered and not module.calls and module is not root]
        return {module.path_from(root): len(module.children) for module in lists}
