"""Names under which packed images travel between the processor and the device."""

PLAN = "vlmopt_plan"
_PAYLOAD = "vlmopt_pixels:"
_ONES = "vlmopt_ones:"


def payload_key(field: str) -> str:
    """Key of the payloads that become the tensor `field` of the stock processor."""
    return _PAYLOAD + field


def ones_key(field: str) -> str:
    """Key of the shapes that become a tensor `field` of ones."""
    return _ONES + field


def payload_field(key: str) -> str | None:
    """The stock field that a payload key stands for; None for any other key."""
    return key.removeprefix(_PAYLOAD) if key.startswith(_PAYLOAD) else None


def ones_field(key: str) -> str | None:
    """The stock field that a key of shapes stands for; None for any other key."""
    return key.removeprefix(_ONES) if key.startswith(_ONES) else None


def is_packed(key: str) -> bool:
    """Whether a key is one of ours."""
    return key == PLAN or key.startswith((_PAYLOAD, _ONES))
