"""Python's control flow on tensors: `if`, `while`, `for` over a range, `and`, `or`, `not`, `return`, `break`, `print`.

Tracing runs Python, and `if x.sum() > 0` runs only one branch. When the trace reaches such a condition, it rewrites the
source of the function and starts again:

    x.sum() > 0, as a bool          `bool()` of a symbolic tensor raises `RetraceRequired` (`source.following`)
        |
    the source of that function     is read from its file, and must compile to the running code (`source`)
        |
    def construct(self, x):         each `if` becomes a call with its branches as functions (`rewriting`)
        def if_true(): ...
        def if_false(): ...
        _cellbridge.branch(x.sum() > 0, if_true, if_false)
        |
    the trace starts again,         with the rewritten code as `__code__` of the function, which is restored afterwards
        |
    `statements.branch`             runs one of the functions, as Python would, if the condition is a Python value;
        |                           otherwise records both separately (`regions`), from the same state (`state`)
    `joining`                       results that differ (variables, returned values, Parameters, tensors written in
        |                           place, lists, dicts) become outputs of one `cond`

Loops work in the same way: the body runs on symbolic variables, and is recorded again until no further variable
changes (`loops`). `break`, `continue` and `return` become values that the branches return.

Functions without conditions on tensors run unchanged. For conditions on Python values, the rewritten code does what the
original does, so other callers of the function aren't affected in the meantime.
"""
