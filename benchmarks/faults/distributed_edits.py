"""The faults of parallel networks as data: what is written differently in a file of `distributed`."""

from __future__ import annotations

from .source_edits import edit

INSIDE = "blocks.0.norm blocks.0.up blocks.0.down blocks.1.norm blocks.1.up blocks.1.down"
ALL = f"stem {INSIDE} head"
COLUMNS, ROWS = "attention.query attention.key attention.value up", "attention.out down"
REDUCE, DIVIDE = "        dist.all_reduce(parameter.grad)\n", "        parameter.grad.div_(mesh.size())\n"
PARAMETERS = "    for parameter in module.parameters():\n"
PRODUCT = "Sum.apply(nn.functional.linear(x, self.weight)) + self.bias"
IN_DROPOUT = ("self.head(x)", "self.head(self.drop(x))")
WRAPPED = "return DDP(module)"
OF_LIBRARY = "0 1 3"

SUM, TO_ALL = "        dist.all_reduce(x)\n", "        dist.all_reduce(gradient)\n"
BACKWARD_OF_SUM = "    def backward(ctx: Any, gradient: Tensor) -> Tensor:\n        return gradient\n"


def only(*parts: str) -> tuple[str, str]:
    """Return a change: the gradients of some parts alone are reduced."""
    some = ", ".join(f"*module.{part}.parameters()" for part in parts)
    return PARAMETERS, f"    for parameter in [{some}]:\n"


EDITS = [
    edit("data", "not reduced", ALL, (REDUCE, ""), (DIVIDE, "        pass\n"), words="reduced"),
    edit("data", "divided, not reduced", ALL, (REDUCE, ""), words="reduced"),
    edit("data", "a sum for a mean", ALL, (DIVIDE, ""), words="2|times"),
    edit("data", "reduced twice", ALL, (REDUCE, 2 * REDUCE), words="2|times"),
    edit("data", "divided twice", ALL, (DIVIDE, 2 * DIVIDE), words="1/2"),
    edit("data", "head forgotten", "head", only("stem", "blocks"), words="reduced"),
    edit("data", "blocks forgotten", INSIDE, only("stem", "head"), words="reduced"),
    edit(
        "data", "reduced in half precision", ALL,
        (REDUCE, f"        parameter.grad.copy_(parameter.grad.bfloat16())\n{REDUCE}"),
    ),
    edit(
        "data", "other weights in each process", "stem",
        (PARAMETERS, f"    torch.manual_seed(dist.get_rank())\n    module.stem.reset_parameters()\n{PARAMETERS}"),
    ),
    edit("data", "statistics of a part", "bn", ("self.stem(x)\n", "self.bn(self.stem(x))\n"), train=True),
    edit("data", "the same dropout", "drop", IN_DROPOUT, train=True),
    edit("tensor", "products not summed", ROWS, (PRODUCT, PRODUCT.replace("Sum.apply", ""))),
    edit(
        "tensor", "bias of each process", ROWS,
        (PRODUCT, PRODUCT.replace("weight)) + self.bias", "weight, self.bias))")),
    ),
    edit("tensor", "mean of the products", ROWS, (SUM, f"{SUM}        x /= dist.get_world_size()\n")),
    edit(
        "tensor", "bias of the other process", COLUMNS,
        ("bias.detach().chunk(ranks, 0)[rank]", "bias.detach().chunk(ranks, 0)[ranks - 1 - rank]"),
    ),
    edit(
        "tensor", "every other row", COLUMNS,
        ("layer.weight.detach().chunk(ranks, 0)[rank]", "layer.weight.detach()[rank::ranks]"),
    ),
    edit(
        "tensor", "columns of the other process", ROWS,
        ("chunk(ranks, 1)[rank]", "chunk(ranks, 1)[ranks - 1 - rank]"),
    ),
    edit("tensor", "gradient not summed", COLUMNS, (TO_ALL, "")),
    edit(
        "tensor", "gradient summed again", ROWS,
        (BACKWARD_OF_SUM, BACKWARD_OF_SUM.replace("return gradient", "return ToAll.backward(ctx, gradient)")),
    ),
    edit(
        "library", "DDP without synchronization", OF_LIBRARY,
        (WRAPPED, "module = DDP(module)\n    module.require_backward_grad_sync = False\n    return module"),
        words="reduced",
    ),
    edit(
        "library", "hook that sums", OF_LIBRARY,
        (WRAPPED, "module = DDP(module)\n    module.register_comm_hook(None, summed)\n    return module"),
        words="2|times",
    ),
    edit(
        "library", "bias sharded wrongly", "0",
        (WRAPPED, "module = split(module, mesh)\n    with torch.no_grad():\n"
         "        bias = module[0].bias.to_local()\n        bias.copy_(bias.flip(0))\n    return module"),
    ),
    edit("data", "as it is", ""),
    edit("data", "divided first", "", (REDUCE + DIVIDE, DIVIDE + REDUCE)),
    edit(
        "data", "dropout by rank", "",
        IN_DROPOUT, (PARAMETERS, f"    torch.manual_seed(dist.get_rank())\n{PARAMETERS}"), train=True,
    ),
    edit("tensor", "as it is", ""),
    edit(
        "tensor", "products and bias in one sum", "",
        (PRODUCT, PRODUCT.replace("weight)) + self.bias", "weight) + ToAll.apply(self.bias) / 2)")),
    ),
    edit("library", "DDP", ""),
    edit("library", "FSDP", "", (WRAPPED, "return shard(module, mesh)")),
    edit("library", "tensor parallel", "", (WRAPPED, "return split(module, mesh)")),
]  # fmt: skip
