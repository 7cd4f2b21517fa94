"""Checkpoints: Parameters by name in one safetensors file, without pickle."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .. import checks
from ..common.dtype import dtype_name
from ..common.parameter import Parameter
from ..common.tensor import Tensor
from ..ir.types import is_floating
from ..nn.cell import Cell
from ..storage.files import atomic_file
from .checkpoint_format import decode, encode

Choice = Callable[[str], bool]


def save_checkpoint(
    save_obj: Any,
    ckpt_file_name: str | os.PathLike[str],
    integrated_save: bool = True,
    async_save: bool = False,
    append_dict: dict[str, Any] | None = None,
    enc_key: None = None,
    enc_mode: str = "AES-GCM",
    choice_func: Choice | None = None,
    crc_check: bool = False,
    format: str = "ckpt",
) -> None:
    """Write Parameters to a file, atomically.

    Args:
        save_obj: a Cell (all its Parameters, moving statistics included), a list of Parameters, a list of dicts
            `{"name": ..., "data": tensor}`, or a dict of Parameters, tensors and strings by name, such as
            `load_checkpoint` returns.
        ckpt_file_name: the file; the suffix of `format`, `.ckpt`, is added if it is missing.
        integrated_save: accepted without effect, since there is one device.
        async_save: accepted without effect; the file is complete when the function returns.
        append_dict: additional numbers, strings and tensors to save, by name.
        enc_key: only None; encryption is not supported.
        enc_mode: accepted without effect; see `enc_key`.
        choice_func: takes the name of a Parameter and returns whether to save it.
        crc_check: accepted without effect; the file is written atomically.
        format: "ckpt" or "safetensors"; the content is the same.

    Raises:
        TypeError: `save_obj`, `append_dict` or an item in them has a wrong type.
        ValueError: two different Parameters have one name, or `enc_key` isn't None.
        OSError: the file can't be written.
    """
    path = _path(ckpt_file_name, "save_checkpoint")
    checks.one_of(format, "format", ("ckpt", "safetensors"), of="save_checkpoint")
    _check_key(enc_key, "enc_key", "save_checkpoint")
    if path.suffix != f".{format}":
        path = path.with_name(f"{path.name}.{format}")
    saved: dict[str, Any] = {}
    for name, value in _items(save_obj):
        if choice_func is not None and not choice_func(name):
            continue
        if saved.setdefault(name, value) is not value:
            raise ValueError(f"For 'save_checkpoint', two Parameters are named '{name}': give each its own name")
    for name, value in _append_items(append_dict):
        if name in saved:
            raise ValueError(f"For 'save_checkpoint', 'append_dict' holds the name of a Parameter, '{name}'")
        saved[name] = value
    data = encode({name: value.asnumpy() if isinstance(value, Tensor) else value for name, value in saved.items()})
    if not path.parent.is_dir():
        raise FileNotFoundError(f"For 'save_checkpoint', there is no folder {path.parent}: create it first")
    with atomic_file(path) as file:
        file.write(data)


def load_checkpoint(
    ckpt_file_name: str | os.PathLike[str],
    net: Cell | None = None,
    strict_load: bool = False,
    filter_prefix: str | list[str] | tuple[str, ...] | None = None,
    dec_key: None = None,
    dec_mode: str = "AES-GCM",
    specify_prefix: str | list[str] | tuple[str, ...] | None = None,
    choice_func: Choice | None = None,
    crc_check: bool = False,
    remove_redundancy: bool = False,
    format: str = "ckpt",
) -> dict[str, Any]:
    """Read a file that `save_checkpoint` wrote, here or in MindSpore.

    Args:
        ckpt_file_name: the file, with the suffix of `format`, `.ckpt`.
        net: a Cell to load the Parameters into; a warning names its Parameters that the file lacks.
        strict_load: see `load_param_into_net`.
        filter_prefix: a prefix, or several, of names to skip.
        dec_key: only None; encryption is not supported.
        dec_mode: accepted without effect; see `dec_key`.
        specify_prefix: a prefix, or several, of the names to load.
        choice_func: takes a name and returns whether to load it; used if neither prefix is given.
        crc_check: accepted without effect; a checksum in the file is always checked.
        remove_redundancy: accepted without effect, since there is one device.
        format: "ckpt" or "safetensors".

    Returns:
        Parameters by name, all with `requires_grad=True`, in the order in which they were saved, and the strings of
        `append_dict`; its numbers are 0-d Parameters.

    Raises:
        TypeError: an argument has a wrong type.
        ValueError: the file doesn't exist, has another suffix, is empty or corrupted, or no name is left to load.
    """
    of = "load_checkpoint"
    path = _path(ckpt_file_name, of)
    checks.one_of(format, "format", ("ckpt", "safetensors"), of=of)
    _check_key(dec_key, "dec_key", of)
    if path.suffix != f".{format}":
        raise ValueError(f"For '{of}', the file name must end in '.{format}', but got '{path}'")
    if not path.is_file():
        raise ValueError(f"For '{of}', the checkpoint file '{path}' does not exist")
    data = path.read_bytes()
    if not data:
        raise ValueError(f"For '{of}', the checkpoint file '{path}' is empty")
    included, excluded = _prefixes(specify_prefix, "specify_prefix"), _prefixes(filter_prefix, "filter_prefix")
    loaded: dict[str, Any] = {}
    for name, value in _content(path, data):
        if included is None and excluded is None and choice_func is not None:
            is_selected = choice_func(name)
        else:
            is_selected = name.startswith(included or "") and not (excluded and name.startswith(excluded))
        if is_selected:
            loaded[name] = value if isinstance(value, str) else Parameter(value, name=name)
    if not loaded:
        raise ValueError(
            f"For '{of}', nothing is left to load from '{path}': 'filter_prefix', 'specify_prefix' or 'choice_func' "
            "leaves out every name, or the file holds none"
        )
    if net is not None:
        missing, _ = load_param_into_net(net, loaded, strict_load)
        if missing:
            warnings.warn(f"'{path}' lacks these parameters of the net, which stay unchanged: {missing}", stacklevel=2)
    return loaded


def load_param_into_net(
    net: Cell, parameter_dict: dict[str, Any], strict_load: bool = False
) -> tuple[list[str], list[str]]:
    """Set the Parameters of a Cell to those of the same name in a dict; all are checked before any is changed.

    Unless `strict_load`, a Parameter that the dict lacks is looked up under names with a prefix, with a warning:
    `fc.weight` as `backbone.fc.weight`.

    Args:
        net: the Cell; the `requires_grad` of its Parameters stays.
        parameter_dict: Parameters by name; strings among them are ignored.
        strict_load: whether a value must have the dtype of its Parameter. Otherwise a value of another width is cast:
            floating-point numbers to floating-point numbers, integers to integers.

    Returns:
        Names of the Parameters of `net` that the dict lacks, and names of the dict that `net` lacks (those with a
        prefix among them, as in MindSpore).

    Raises:
        TypeError: `net` isn't a Cell, or `parameter_dict` not a dict of Parameters by name.
        RuntimeError: a value has another shape or dtype than its Parameter.
    """
    of = "load_param_into_net"
    if not isinstance(net, Cell):
        raise TypeError(f"For '{of}', 'net' must be a Cell, but got {type(net).__name__}")
    if not isinstance(parameter_dict, dict):
        raise TypeError(f"For '{of}', 'parameter_dict' must be a dict, but got {type(parameter_dict).__name__}")
    for name, value in parameter_dict.items():
        if not isinstance(name, str) or not isinstance(value, (Parameter, str)):
            raise TypeError(
                f"For '{of}', 'parameter_dict' must hold a Parameter for each name, but got {type(value).__name__} for "
                f"{name!r}"
            )
    checks.of_type(strict_load, "strict_load", bool, of=of)
    parameters = list(net.get_parameters())
    values = {name: value for name, value in parameter_dict.items() if isinstance(value, Parameter)}
    sources = {parameter.name: parameter.name for parameter in parameters if parameter.name in values}
    missing = [parameter.name for parameter in parameters if parameter.name not in sources]
    while not strict_load and (prefix := _prefix(missing, values)) is not None:
        warnings.warn(f"load_param_into_net: values are taken from names with the prefix {prefix!r}", stacklevel=2)
        sources |= {name: prefix + name for name in missing if prefix + name in values}
        missing = [name for name in missing if name not in sources]
    pairs = [(parameter, values[sources[parameter.name]]) for parameter in parameters if parameter.name in sources]
    for parameter, value in pairs:
        _check_fits(parameter, value, strict_load)
    for parameter, value in pairs:
        parameter.set_data(Tensor(value.asnumpy()))
    return missing, [name for name in parameter_dict if sources.get(name) != name]


def _prefix(missing: Iterable[str], names: Iterable[str]) -> str | None:
    """The prefix that a given name has before the first missing name that it ends with; None if there is none."""
    endings = ((name, source) for name in missing for source in names if source.endswith(name))
    return next((source.removesuffix(name) for name, source in endings), None)


def _check_fits(parameter: Parameter, value: Parameter, strict: bool) -> None:
    def refuse(what: str, needed: Any, actual: Any) -> None:
        raise RuntimeError(
            f"For 'load_param_into_net', the value for '{parameter.name}' must have the {what} that it has in the net, "
            f"{needed}, but got {what} {actual} in 'parameter_dict'"
        )

    if value.shape != parameter.shape:
        refuse("shape", parameter.shape, value.shape)
    if value.dtype != parameter.dtype and (strict or _kind(value.dtype) != _kind(parameter.dtype)):
        refuse("type", dtype_name(parameter.dtype), dtype_name(value.dtype))


def _kind(dtype: np.dtype[Any]) -> str:
    return "f" if is_floating(dtype) else dtype.kind


def _items(save_obj: Any) -> Iterator[tuple[str, Any]]:
    """Yield names and values (tensors and strings) of the object to save."""
    if isinstance(save_obj, Cell):
        yield from ((parameter.name, parameter) for parameter in save_obj.get_parameters())
    elif isinstance(save_obj, dict):
        yield from (
            _check_item(name, value, (Tensor, np.ndarray, str), "'save_obj'") for name, value in save_obj.items()
        )
    elif isinstance(save_obj, list):
        for item in save_obj:
            if isinstance(item, Parameter):
                yield item.name, item
            elif isinstance(item, dict) and "name" in item and "data" in item:
                yield _check_item(item["name"], item["data"], (Tensor,), "an element of 'save_obj'")
            else:
                raise TypeError(
                    "For 'save_checkpoint', an element of the list 'save_obj' must be a Parameter or a dict "
                    f"{{'name': ..., 'data': ...}}, but got {type(item).__name__}: {item!r}"
                )
    else:
        raise TypeError(
            f"For 'save_checkpoint', 'save_obj' must be a Cell, a list or a dict, but got {type(save_obj).__name__}"
        )


def _append_items(append_dict: Any) -> Iterable[tuple[str, Any]]:
    if append_dict is None:
        return []
    if not isinstance(append_dict, dict):
        raise TypeError(f"For 'save_checkpoint', 'append_dict' must be a dict, but got {type(append_dict).__name__}")
    return [_check_item(n, value, (bool, int, float, str, Tensor), "'append_dict'") for n, value in append_dict.items()]


def _check_item(name: Any, value: Any, kinds: tuple[type, ...], where: str) -> tuple[str, Any]:
    if not isinstance(name, str) or not isinstance(value, kinds):
        raise TypeError(
            f"For 'save_checkpoint', {where} must hold {' or '.join(kind.__name__ for kind in kinds)} by name, but got "
            f"{type(value).__name__} for {name!r}"
        )
    return name, value if isinstance(value, (Tensor, str)) else Tensor(value)


def _content(path: Path, data: bytes) -> Iterator[tuple[str, Any]]:
    """Yield names and values (arrays and strings) of a file, in the order in which they were saved."""
    try:
        items, _ = decode(data)
    except ValueError as error:
        raise ValueError(f"For 'load_checkpoint', the checkpoint file '{path}' is corrupted: {error}") from error
    yield from items.items()


def _prefixes(prefix: Any, name: str) -> tuple[str, ...] | None:
    if prefix is None:
        return None
    prefixes = tuple(prefix) if isinstance(prefix, (list, tuple)) else (prefix,)
    if not all(isinstance(item, str) for item in prefixes):
        raise TypeError(
            f"For 'load_checkpoint', '{name}' must be a string or a list or tuple of them, but got {prefix!r}"
        )
    return prefixes


def _path(name: Any, of: str) -> Path:
    if not isinstance(name, (str, os.PathLike)):
        raise TypeError(f"For '{of}', 'ckpt_file_name' must be a string, but got {type(name).__name__}: {name!r}")
    if not Path(name).name:
        raise ValueError(f"For '{of}', 'ckpt_file_name' must name a file, but got {os.fspath(name)!r}")
    return Path(name)


def _check_key(key: Any, name: str, of: str) -> None:
    if key is not None:
        raise ValueError(f"For '{of}', '{name}' must be None: encrypted checkpoints are not supported")
