"""What comes in as a document: a multipart ``file``, or a JSON object with a ``text``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.core.files.uploadedfile import UploadedFile
from django.http import QueryDict
from rest_framework.parsers import MultiPartParser

from registry import requests
from registry.api import not_an_object
from registry.errors import FieldError, Invalid, TooLarge
from registry.strict_json import loads
from retrieval.documents import Upload

_PARTS = ("file", "name", "metadata")
_MEMBERS = ("name", "text", "metadata")
# What a multipart body may have besides the file itself
_MARGIN = 1024 * 1024


class UploadParser(MultiPartParser):
    """Multipart, refused by its announced length before anything is read."""

    @property
    def limit(self) -> int:
        """How many bytes all files of a request may have."""
        return settings.MAX_UPLOAD_BYTES

    def parse(
        self,
        stream: Any,
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        self.check_length((parser_context or {})["request"])
        return super().parse(stream, media_type, dict(parser_context or {}))

    def check_length(self, request: Any) -> None:
        """Raise TooLarge where the request is announced to be over the limit."""
        size = int(request.META.get("CONTENT_LENGTH") or 0)
        if size > self.limit + _MARGIN:
            raise TooLarge(
                f"The upload has {size:,} bytes; allowed are {self.limit:,} for what is in it.",
                code="document.too_large",
                limit=self.limit,
                errors=[
                    FieldError(
                        field="file",
                        value=size,
                        message="is over the limit",
                        allowed={"maximum": self.limit},
                    )
                ],
            )


def read_upload(data: Any, *, is_new: bool) -> Upload:
    """Return the upload in a request's data; without ``is_new`` the name may be left out.

    A new document without a name is called like its file. Raises Malformed and Invalid.
    """
    if isinstance(data, QueryDict):
        return _from_parts(data, is_new=is_new)
    if not isinstance(data, dict):
        raise not_an_object(data)
    requests.refuse_unknown(data, _MEMBERS)
    name = requests.text(data, "name", default=None if is_new else "", blank=not is_new)
    text = requests.text(data, "text", longest=settings.MAX_JSON_BYTES, blank=True)
    return Upload(name=name, content=text.encode(), metadata=data.get("metadata"), written=True)


def _from_parts(data: QueryDict, *, is_new: bool) -> Upload:
    parts = {name: _only(name, values) for name, values in data.lists()}
    requests.refuse_unknown(parts, _PARTS)
    file = parts.get("file")
    if not isinstance(file, UploadedFile):
        raise Invalid.field(
            "file", file, "must be a file", allowed="a part with a file name", code="file.required"
        )
    for name in ("name", "metadata"):
        if isinstance(parts.get(name), UploadedFile):
            raise Invalid.field(name, parts[name].name, "must be a text", allowed="string")
    name = requests.text(parts, "name", default=(file.name or "") if is_new else "", blank=True)
    metadata = parts.get("metadata")
    return Upload(
        name=name,
        content=file.read(),
        metadata=None if metadata is None else loads(metadata, field="metadata"),
    )


def _only(name: str, values: list[Any]) -> Any:
    if len(values) > 1:
        raise Invalid.field(name, len(values), "came more than once", allowed="one part")
    return values[0]
