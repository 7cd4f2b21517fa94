"""Models of libraries by their names, which need no model file: `timm:resnet18`, `hf:BertModel?hidden_size=128`.

    timm:NAME          a model of timm
    hf:CLASS           a class of transformers, with its default configuration
    hf:FOLDER          a folder with a config.json, and weights in safetensors files if there are any
    ...?KEY=VALUE&...  with other settings: a setting of a configuration may be nested (text_config.hidden_size=64)

Weights are random, as the library draws them, unless the folder has some. Nothing is downloaded, and no code of the
folder is run. The inputs follow from the library's own description of the model.
"""

from __future__ import annotations

import difflib
import importlib
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ...runtime.errors import UsageError
from ...runtime.visible import visible_name
from ..sides.kinds import LIBRARY_MODEL
from ..support.user_code import report_user_errors
from .library_inputs import image_arguments, transformer_arguments

if TYPE_CHECKING:
    from torch import nn

PACKAGES = {"timm": "timm", "hf": "transformers"}
NESTED = "."


def source_of_library(target: str, seed: int = 0) -> ModuleType:
    """Return a module that defines `model` and `inputs`, as a model file does, for a model of a library.

    Args:
        target: as in the head of this file.
        seed: seed of torch's random number generator.

    Raises:
        UsageError: the library isn't installed, has no such model, or refuses the settings; or nothing is known about
            the model's inputs.
    """
    parts = LIBRARY_MODEL.fullmatch(target)
    assert parts is not None, "the caller has matched it"
    library, name, query = parts.groups()
    settings = _settings(target, query or "")
    package = _package(library, target)

    import torch

    torch.manual_seed(seed)
    source = ModuleType(target)
    make = _of_timm if library == "timm" else _of_transformers
    vars(source)["model"], vars(source)["inputs"] = make(package, target, name, settings)
    return source


def _settings(target: str, query: str) -> dict[str, Any]:
    """Return the settings behind the question mark; values are JSON, or text."""
    settings: dict[str, Any] = {}
    for item in filter(None, query.split("&")):
        key, equals, value = item.partition("=")
        if not equals or not all(part.isidentifier() for part in key.split(NESTED)):
            raise UsageError(
                f"{visible_name(target)}: {visible_name(item)!r} isn't a setting; write KEY=VALUE&KEY=VALUE"
            )
        try:
            settings[key] = json.loads(value)
        except json.JSONDecodeError:
            settings[key] = value
    return settings


def _package(library: str, target: str) -> ModuleType:
    name = PACKAGES[library]
    if importlib.util.find_spec(name) is None:
        raise UsageError(f"{visible_name(target)} needs the package {name}, which isn't installed: pip install {name}")
    with report_user_errors(name, "while it was imported"):
        return importlib.import_module(name)


def _of_timm(timm: ModuleType, target: str, name: str, settings: dict[str, Any]) -> tuple[nn.Module, Any]:
    if not timm.is_model(name):
        raise UsageError(f"timm has no model {visible_name(name)!r}{_did_you_mean(name, timm.list_models())}")
    with report_user_errors(target, "when timm made it"):
        module = timm.create_model(name, pretrained=False, **settings)
    return module, image_arguments(module.default_cfg["input_size"], settings)


def _of_transformers(
    transformers: ModuleType, target: str, name: str, settings: dict[str, Any]
) -> tuple[nn.Module, Any]:
    folder = Path(name)
    if (folder / "config.json").is_file():
        with report_user_errors(target, "when its configuration was read"):
            config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        architectures = config.architectures or ()
        kind = next((found for each in architectures if (found := _class(transformers, each)) is not None), None)
        if kind is None:
            raise UsageError(f"{folder / 'config.json'} names no class of transformers in `architectures`")
        weights = sorted(folder.glob("*.safetensors"))
    else:
        kind, weights = _class(transformers, name), []
        if kind is None:
            raise UsageError(_no_such_class(transformers, name))
        config = kind.config_class()
    _change(config, settings, target)
    with report_user_errors(target, "when transformers made it"):
        if weights:
            module = kind.from_pretrained(folder, config=config, local_files_only=True, use_safetensors=True)
        else:
            module = kind._from_config(config)
    return module, transformer_arguments(module, target)


def _class(transformers: ModuleType, name: str) -> Any:
    """Return a class of models by its name; None if there is none."""
    if not name.isidentifier() or name not in dir(transformers):
        return None
    kind = getattr(transformers, name)
    is_model = isinstance(kind, type) and issubclass(kind, transformers.PreTrainedModel)
    return kind if is_model and getattr(kind, "config_class", None) is not None else None


def _no_such_class(transformers: ModuleType, name: str) -> str:
    hint = _did_you_mean(name, (other for other in dir(transformers) if _may_be_a_model(other)))
    return (
        f"transformers has no model class {visible_name(name)!r}, and there is no folder of that name with a "
        f"config.json{hint}"
    )


def _may_be_a_model(name: str) -> bool:
    return re.search(r"(?<!PreTrained)Model$|For[A-Z]\w*(?<!Config)$|LMHeadModel$", name) is not None


def _did_you_mean(name: str, others: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(others), n=2, cutoff=0.75)
    return f"; did you mean {' or '.join(close)}?" if close else ""


def _change(config: Any, settings: Mapping[str, Any], target: str) -> None:
    """Change settings of a configuration that it has."""
    for key, value in settings.items():
        *path, last = key.split(NESTED)
        holder = config
        for part in path:
            holder = getattr(holder, part) if part in _settings_of(holder) else None
        if last not in _settings_of(holder):
            hint = _did_you_mean(last, _settings_of(holder))
            name = type(config).__name__
            raise UsageError(f"{visible_name(target)}: {name} has no setting {visible_name(key)!r}{hint}")
        with report_user_errors(target, f"when {key} was set"):
            if last == "hidden_size" and NESTED.join([*path, "num_attention_heads"]) not in settings:
                _keep_the_size_of_heads(holder, value)
            setattr(holder, last, value)


def _settings_of(config: Any) -> set[str]:
    """Return the names of a configuration's settings, those of another name too; empty if it is none."""
    return {*config.to_dict(), *config.attribute_map} if hasattr(config, "attribute_map") else set()


def _keep_the_size_of_heads(config: Any, width: Any) -> None:
    """Change the number of attention heads with the width; where that leaves a rest, the library has the last word."""
    heads, old_width = getattr(config, "num_attention_heads", None), config.hidden_size
    if not all(isinstance(number, int) and number > 0 for number in (heads, old_width, width)):
        return
    if width % (old_width // heads):
        return
    config.num_attention_heads = width * heads // old_width
    groups = getattr(config, "num_key_value_heads", None)
    if isinstance(groups, int):
        config.num_key_value_heads = max(1, groups * config.num_attention_heads // heads)
