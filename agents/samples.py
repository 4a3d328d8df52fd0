"""Sample contexts of a draft: conversations that its bindings are looked at with.

They decide nothing, so they stand outside the manifest: a version with other samples answers the
same and has the same digest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agents.contexts import read_context
from registry import requests
from registry.errors import Invalid

MOST_SAMPLES = 50
LONGEST_NAME = 100
_MEMBERS = ("name", "context")


def read_samples(value: Any) -> list[dict[str, Any]]:
    """Return the ``sampleContexts`` of a request: ``[{"name", "context"}]``, names once each.

    Raises Invalid naming the field and what is allowed.
    """
    if not isinstance(value, list) or len(value) > MOST_SAMPLES:
        raise Invalid.field(
            "sampleContexts",
            value,
            f"must be a list of at most {MOST_SAMPLES} items",
            allowed="array",
        )
    samples = [_read(item, f"sampleContexts.{position}") for position, item in enumerate(value)]
    _refuse_repeated([sample["name"] for sample in samples])
    return samples


def _read(item: Any, path: str) -> dict[str, Any]:
    if not isinstance(item, Mapping):
        raise Invalid.field(path, item, "must be an object", allowed="object")
    requests.refuse_unknown(item, _MEMBERS, prefix=f"{path}.")
    body = {f"{path}.{key}": value for key, value in item.items()}
    return {
        "name": requests.text(body, f"{path}.name", longest=LONGEST_NAME).strip(),
        "context": read_context(body, f"{path}.context"),
    }


def _refuse_repeated(names: Sequence[str]) -> None:
    for position, name in enumerate(names):
        if name in names[:position]:
            raise Invalid.field(
                f"sampleContexts.{position}.name",
                name,
                "is the name of another sample",
                allowed="a name that no other sample has",
            )
