"""Hostile names, and models that have them in every place for a name."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from cellbridge.runtime.storage.safetensors_bytes import from_bytes, to_bytes

OWNED = "OWNED"
"""A file that the payloads would write."""

FORGED = "FORGED: parity holds"
"""What the payloads would have a line begin with."""

RUN = f'__import__("os").system("touch {OWNED}")'
PAYLOADS = [
    RUN,
    f'w", open("{OWNED}", "w")) if True else getattr(self, "w',
    f'"); open("{OWNED}", "w"); ("',
    f"'); {RUN}; ('",
    f'"""\n{RUN}\n"""',
    f"'''\n{RUN}\n'''",
    f"x\n    {RUN}",
    f"# x\n{RUN}",
    f"\\\n{RUN}",
    f"x\r{RUN}",
    f"x\x0c{RUN}",
    f"x\u2028{RUN}",
    f"{{{RUN}}}",
    f"${{{RUN}}}$({RUN})`touch {OWNED}`",
    f"\x01{RUN}\x02\x03{RUN}\x05\x060\x07",
    f"x\n{FORGED}",
    f"x\r\x1b[2J\x1b[1;1H{FORGED}",
    "\x1b]0;title\x07\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\",
    "\x9b31m\x84\x8d",
    "[bold red]rich[/bold red][/]",
    "\u202edrowssap\u2066\u200f\ufeff",
    "../../" + OWNED,
    "/tmp/" + OWNED,
    "..",
    ".",
    "CON",
    "a/b\\c:d",
    "]]><!--&<x/>\"'",
    "\x00",
    "a\x00b",
    "n" * 10_000,
    "",
    " ",
    "__class__",
    "__init__",
    "__dict__",
    "self",
    "construct",
    "forward",
    "training",
    "class",
    "None",
    "True",
    "print",
    "nn",
    "ops",
    "ms",
    "x",
    "0",
    "1x",
    "@1",
    "a@2",
    "%d%s%n",
    "{0}{x}",
    "ﬁ",
    "µ",
    "名",
    "-o",
    "--json=" + OWNED,
    "*",
    "[a]",
]

LONE = "x\ud800y"

names = st.one_of(
    st.sampled_from(PAYLOADS),
    st.builds("{}.{}".format, st.sampled_from(PAYLOADS), st.sampled_from(PAYLOADS)),
    st.text(max_size=8).filter(lambda text: text.isprintable() or max(text, default="a") < "\ud7ff"),
)


def onnx_model(name: Any) -> onnx.ModelProto:
    """A model of a function, a constant and two layers; `name()` returns a different name for each item."""
    x, w, b, h, y, size = (name() for _ in range(6))
    domain, function, f_in, f_out = name() or "d", name() or "f", name() or "i", name() or "o"
    relu = helper.make_node("Relu", [f_in], [f_out], name=name(), doc_string=name())
    body = helper.make_function(
        domain, function, [f_in], [f_out], [relu], [helper.make_opsetid("", 18)], doc_string=name()
    )
    nodes = [
        helper.make_node("Gemm", [x, w, b], [h], name=name(), transB=1, doc_string=name()),
        helper.make_node(function, [h], [y], name=name(), domain=domain),
    ]
    for node, key in zip(nodes, ("cellbridge.cell", "pkg.torch.onnx.name_scopes"), strict=True):
        node.metadata_props.add(key=key, value=name())
        node.metadata_props.add(key=name(), value=name())
    graph = helper.make_graph(
        nodes,
        name() or "g",
        [helper.make_tensor_value_info(x, TensorProto.FLOAT, [size, 3], doc_string=name())],
        [helper.make_tensor_value_info(y, TensorProto.FLOAT, [size, 2])],
        [numpy_helper.from_array(np.ones((2, 3), np.float32), w), numpy_helper.from_array(np.ones(2, np.float32), b)],
        doc_string=name(),
    )
    model = helper.make_model(
        graph,
        functions=[body],
        opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid(domain, 1)],
        ir_version=10,
        producer_name=name(),
        doc_string=name(),
    )
    model.metadata_props.add(key=name(), value=name())
    return model


def path(name: str) -> str:
    """The name as the path of a Cell or parameter, whose parts aren't empty."""
    return ".".join(part or "_" for part in name.split("."))


def renamed_program(source: Path, target: Path, name: Any) -> None:
    """A saved program with a different name from `name()` in every place."""
    with zipfile.ZipFile(source) as archive:
        graph = json.loads(archive.read("program.json"))
        tensors, _ = from_bytes(archive.read("tensors.safetensors"))
    values: dict[str, str] = {}

    def value(old: str | None) -> str | None:
        return None if old is None else values.setdefault(old, name())

    def row(item: list[Any]) -> list[Any]:
        return [value(item[0]), item[1], [size if isinstance(size, int) else "n" for size in item[2]]]

    stored = {f"constant:{old}": old for old, *_ in graph["constants"]}
    arrays = {f"constant:{value(old)}": tensors[key] for key, old in stored.items()}
    graph["inputs"] = [row(item) for item in graph["inputs"]]
    graph["constants"] = [row(item) for item in graph["constants"]]
    for kind in ("parameter", "buffer"):
        renamed = {}
        for old, item in graph[f"{kind}s"].items():
            new = path(name())
            arrays[f"{kind}:{new}"] = tensors[f"{kind}:{old}"]
            item["value"] = row(item["value"])
            if kind == "parameter":
                item["aliases"] = [path(name())]
            else:
                item["update"] = value(item["update"])
            renamed[new] = item
        graph[f"{kind}s"] = renamed
    for node in graph["nodes"]:
        node["inputs"] = [value(item) for item in node["inputs"]]
        node["outputs"] = [row(item) for item in node["outputs"]]
        if node["op"] == "boundary":
            node["attributes"]["slot"] = name()
    graph["outputs"] = [value(item) for item in graph["outputs"]]
    graph["calls"] = [[old and path(name()), name(), index, parent] for old, _, index, parent in graph["calls"]]
    graph["sources"] = [[name(), line, name(), name()] for _, line, _, _ in graph["sources"]]
    results = len(graph["outputs"])
    graph["result"] = {"dict": ["tensor"] * results, "keys": [name() for _ in range(results)]}
    keywords = {"dict": ["tensor"] * len(graph["inputs"]), "keys": [name() for _ in graph["inputs"]]}
    graph["arguments"] = {"tuple": [{"tuple": []}, keywords]}
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("program.json", json.dumps(graph))
        archive.writestr("tensors.safetensors", to_bytes(arrays))
