"""`.pt2` files from strangers: nothing in them is run, and each damaged one is one clear error."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from cellbridge.converter.exported.archive import read_archive
from cellbridge.runtime.errors import UsageError

MODEL, WEIGHTS = "models/model.json", "data/weights/model_weights_config.json"
TARGET = "victim"
"""The file that an attack would write."""


class Touch:
    """An object that writes a file when it is unpickled."""

    def __reduce__(self) -> Any:
        return os.system, (f"touch {TARGET}",)


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """The entries of a sound file, by name."""
    monkeypatch.chdir(tmp_path)
    module = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).eval()
    program = torch.export.export(module, (torch.randn(3, 4),), dynamic_shapes=({0: torch.export.Dim("rows")},))
    torch.export.save(program, "sound.pt2")
    with zipfile.ZipFile("sound.pt2") as file:
        return {name.partition("/")[2]: file.read(name) for name in file.namelist()}


def write(entries: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile("file.pt2", "w", compression) as file:
        for name, data in entries.items():
            file.writestr(f"file/{name}", data)
    return Path("file.pt2")


def changed(entry: str, change: Callable[[Any], None]) -> Callable[[dict[str, bytes]], None]:
    """A change of an entry in JSON."""

    def apply(entries: dict[str, bytes]) -> None:
        content = json.loads(entries[entry])
        change(content)
        entries[entry] = json.dumps(content).encode()

    return apply


def node(model: Any) -> Any:
    return model["graph_module"]["graph"]["nodes"][-1]


def target(name: str) -> Callable[[dict[str, bytes]], None]:
    return changed(MODEL, lambda model: node(model).update(target=name))


def size(expression: str) -> Callable[[dict[str, bytes]], None]:
    def change(model: Any) -> None:
        for tensor in model["graph_module"]["graph"]["tensor_values"].values():
            for size in tensor["sizes"]:
                if "as_expr" in size:
                    size["as_expr"]["expr_str"] = expression

    return changed(MODEL, change)


def structure(text: str) -> Callable[[dict[str, bytes]], None]:
    return changed(MODEL, lambda m: m["graph_module"]["module_call_graph"][0]["signature"].update(in_spec=text))


def payload(**fields: Any) -> Callable[[dict[str, bytes]], None]:
    return changed(WEIGHTS, lambda weights: next(iter(weights["config"].values())).update(fields))


def pickled_weight(entries: dict[str, bytes]) -> None:
    payload(use_pickle=True, path_name="weight_0")(entries)
    buffer = io.BytesIO()
    torch.save(Touch(), buffer)
    entries["data/weights/weight_0"] = buffer.getvalue()


def pickled_samples(entries: dict[str, bytes]) -> None:
    buffer = io.BytesIO()
    torch.save(((Touch(),), {}), buffer)
    entries["data/sample_inputs/model.pt"] = buffer.getvalue()


def opaque_constant(entries: dict[str, bytes]) -> None:
    config = "data/constants/model_constants_config.json"
    entries["data/constants/opaque_obj_0"] = pickle.dumps(Touch())
    meta = {"path_name": "opaque_obj_0", "is_param": False, "use_pickle": True, "tensor_meta": None}
    entries[config] = json.dumps({"config": {"c": meta}}).encode()


def placeholder_default(entries: dict[str, bytes]) -> None:
    name = f"input=__import__('os').system('touch {TARGET}')"
    entries[MODEL] = entries[MODEL].replace(b'"name": "input"', f'"name": "{name}"'.encode())


def compiled(entries: dict[str, bytes]) -> None:
    entries["data/aotinductor/model/model.so"] = b"\x7fELF"


def huge_tensor(entries: dict[str, bytes]) -> None:
    changed(WEIGHTS, lambda w: next(iter(w["config"].values()))["tensor_meta"].update(sizes=[{"as_int": 2**45}]))(
        entries
    )
    entries["data/weights/weight_0"] = b""


SPEC = '[1, {"type": "%s", "context": %s, "children_spec": []}]'
ATTACKS: dict[str, tuple[Callable[[dict[str, bytes]], None], str]] = {
    "an attribute of torch": (target("torch.os.system"), "the function torch.os.system"),
    "a loader of libraries": (target("torch.ops.load_library"), "the function torch.ops.load_library"),
    "a call of anything": (target("_operator.call"), "the function _operator.call"),
    "attributes of anything": (target("_operator.attrgetter"), "the function _operator.attrgetter"),
    "a dunder of an operator": (target("torch.ops.aten.__class__.mro"), "the operator torch.ops.aten.__class__"),
    "an operator that opens files": (target("torch.ops.aten.from_file.default"), "it opens files"),
    "an operator of another library": (target("torch.ops.debugprims.load_tensor.default"), "of torch itself"),
    "an extension": (target("#aoti:model"), "the function #aoti:model"),
    "an expression": (size(f"__import__('os').system('touch {TARGET}')"), "the size __import__"),
    "an attribute in an expression": (size("s0.__class__"), "the size s0.__class__"),
    "a text in an expression": (size("Symbol('x.y')"), "the size Symbol"),
    "a power that never ends": (size("9**9**9**9"), "the size 9"),
    "a power of powers": (size("Pow(Pow(Pow(9, 64), 64), 64)"), "the size Pow"),
    "a module to import": (
        structure(SPEC % ("builtins.tuple", json.dumps('{"__enum__": 1, "fqn": "antigravity:x", "name": "x"}'))),
        "a structure of the type",
    ),
    "a factory to import": (structure(SPEC % ("collections.defaultdict", '"{}"')), "a structure of the type"),
    "source code for a name": (placeholder_default, "the name input=__import__"),
    "a pickled weight": (pickled_weight, "reading that may run any code"),
    "pickled inputs": (pickled_samples, "reading that may run any code"),
    "an object of another class": (opaque_constant, "other classes than tensors"),
    "a compiled library": (compiled, "compiled libraries"),
    "a tensor that isn't there": (huge_tensor, "more elements than bytes"),
}  # fmt: skip


@pytest.mark.every(2)
@pytest.mark.parametrize(("attack", "message"), ATTACKS.values(), ids=ATTACKS)
def test_what_strangers_write_into_a_program_is_refused(archive: dict[str, bytes], attack: Any, message: str) -> None:
    attack(archive)
    with pytest.raises(UsageError) as error:
        read_archive(write(archive))
    assert message in str(error.value)
    assert not Path(TARGET).exists()


def test_guards_are_left_out(archive: dict[str, bytes]) -> None:
    changed(MODEL, lambda m: m.update(guards_code=[f"__import__('os').system('touch {TARGET}')"]))(archive)
    read_archive(write(archive)).module()(torch.randn(3, 4))
    assert not Path(TARGET).exists()


def test_a_sound_file_is_read(archive: dict[str, bytes]) -> None:
    x = torch.randn(5, 4)
    expected = torch.export.load("sound.pt2").module()(x)
    torch.testing.assert_close(read_archive("sound.pt2").module()(x), expected)
    torch.testing.assert_close(read_archive(write(archive)).module()(x), expected)


def test_damaged_files_are_one_clear_error(archive: dict[str, bytes]) -> None:
    with pytest.raises(UsageError, match="larger than the file"):
        read_archive(write(archive | {"data/extra": bytes(10**6)}, zipfile.ZIP_DEFLATED))
    sound = Path("sound.pt2").read_bytes()
    damaged = {"nothing": b"", "text": b"no archive", "half": sound[: len(sound) // 2]}
    for data in damaged.values():
        Path("damaged.pt2").write_bytes(data)
        with pytest.raises(UsageError, match=r"damaged\.pt2 can't be read as a program of torch\.export"):
            read_archive("damaged.pt2")
    for entry in archive:
        if not entry.startswith((".data", "byteorder", "data/extra")):
            for data in (None, b"", b"[]", b"{}"):
                entries = {n: d for n, d in archive.items() if n != entry} | ({} if data is None else {entry: data})
                with contextlib.suppress(UsageError):  # torch doesn't need every entry
                    read_archive(write(entries))
