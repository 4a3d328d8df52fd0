"""Model fields that every app uses."""

from __future__ import annotations

import json
from typing import Any

from django.db import models

from registry.errors import Damaged


class ReceivedJSONField(models.TextField[Any, Any]):
    """JSON that users own, kept as text: key order and every number stay as they came.

    ``jsonb`` reorders keys, and the order of a schema's properties matters to models. Reading
    raises Damaged where a row that was changed past this software holds something else.
    """

    description = "JSON as received"

    # Read by the type checker's Django plugin: any JSON value, not text.
    _pyi_private_set_type: Any
    _pyi_private_get_type: Any

    def from_db_value(self, value: str | None, expression: object, connection: object) -> Any:
        return None if value is None else load_received(value, self)

    def to_python(self, value: Any) -> Any:
        return value

    def get_prep_value(self, value: Any) -> str | None:
        return None if value is None else dump_received(value)

    def value_to_string(self, obj: models.Model) -> str:
        return dump_received(self.value_from_object(obj))


def load_received(text: str, where: object) -> Any:
    """Return what ``dump_received`` wrote. Raises Damaged, which says ``where`` it stands."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise Damaged(f"{where}: {error}") from error


def dump_received(value: Any) -> str:
    """Return ``value`` as JSON text without reordering anything."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
