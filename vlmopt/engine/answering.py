"""What every child process does: answer messages over a pipe, and put tensors and errors into words.

Imports torch, but no vLLM of its own: it is there already, or comes with the handler.
"""

from __future__ import annotations

import importlib.util
import json
import pickle
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import blake3
import torch

from vlmopt.engine.protocol import Error, Hello, Load, Message, Tensor
from vlmopt.sources.local import LOCK_NAME


def answer_messages(
    descriptor: int, load: Callable[[Load], Any], answer: Callable[[Any, Message], object]
) -> None:
    """Answers the parent until it goes away: `load` makes a model, kept by its message; `answer` asks it."""
    import vllm
    from vllm.platforms import current_platform

    torch.set_num_threads(1)
    pipe = Connection(descriptor)
    plugin = _overlaid_plugin(Path(vllm.__file__).parents[1])
    hello = Hello(vllm.__file__, vllm.__version__, current_platform.device_type, plugin)
    pipe.send_bytes(pickle.dumps(hello))
    loaded: dict[str, Any] = {}
    model: Any = None
    while True:
        try:
            message: Message = pickle.loads(pipe.recv_bytes())
        except EOFError:
            return
        reply: object = None
        if isinstance(message, Load):
            key = repr(message)
            if key not in loaded:
                loaded[key] = load(message)
                torch.set_num_threads(1)  # an engine sets it
            model = loaded[key]
        elif model is None:
            raise RuntimeError("no model is loaded")
        else:
            reply = answer(model, message)
        pipe.send_bytes(pickle.dumps(reply, protocol=5))


def _overlaid_plugin(home: Path) -> str | None:
    """Where Python finds the plug-in that the fork in `home` overlays; None for stock, and without one."""
    try:
        plugin = json.loads((home / LOCK_NAME).read_text("utf-8")).get("plugin")
    except (OSError, ValueError):
        return None
    found = importlib.util.find_spec(plugin["package"]) if plugin else None
    return None if found is None else found.origin


def tensors_in(value: Any, data: bool, name: str = "") -> Iterator[tuple[str, Tensor]]:
    """Walks the keyword arguments of a batch and describes each tensor in them."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from tensors_in(inner, data, key)
    elif isinstance(value, torch.Tensor):
        yield name, describe_tensor(value, data)
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from tensors_in(inner, data, f"{name}[{index}]")
    else:
        yield name, Tensor((), type(value).__name__, repr(value))


def describe_tensor(value: torch.Tensor, data: bool) -> Tensor:
    """Shape, type and digest of a tensor on any device, and with `data` its bytes."""
    raw = value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy()
    dtype = str(value.dtype).removeprefix("torch.")
    digest = blake3.blake3(raw.data).hexdigest()
    return Tensor(tuple(value.shape), dtype, digest, raw.tobytes() if data else None)


def describe_error(error: BaseException) -> Error:
    """An exception with those that it was raised from."""
    cause = describe_error(error.__cause__) if error.__cause__ else None
    return Error(type(error).__name__, str(error), cause)
