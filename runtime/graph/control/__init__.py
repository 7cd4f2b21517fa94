"""Python's control flow on tensors: `if`, `while`, `for` over a range, `and`, `or`, `not`, `return`, `break`, `print`.

Python is traced by running it, and `if x.sum() > 0` runs one branch only. What such a condition needs is read from the
source of the function, once the condition has been met:

    x.sum() > 0, as a bool          `bool()` of a symbolic tensor raises `Unfollowed` (`source.following`)
        |
    the source of that function     is read again, and found to be what runs (`source`)
        |
    def construct(self, x):         each `if` becomes a call that is given its branches as functions (`rewriting`)
        def if_true(): ...
        def if_false(): ...
        _cellbridge.branch(x.sum() > 0, if_true, if_false)
        |
    the trace begins anew,          while `__code__` of the function is the rewritten code; afterwards it is what it was
        |
    `statements.branch`             runs one of the functions, as Python would, if the condition is a Python value;
        |                           otherwise both, each recorded apart (`regions`), on what was there before (`state`)
    `joining`                       what differs afterwards (variables, what was returned, Parameters, tensors that were
        |                           written to, lists, dicts) is an output of one `cond`

A loop is recorded the same way: its body runs once on symbolic variables, and again as long as it turns out that there
are more that it changes (`loops`). `break`, `continue` and `return` become values that branches return.

Functions that meet no condition on a tensor run as they are. The rewritten code does what the original does where
conditions are Python values, so that nothing depends on who else calls the function meanwhile.
"""
