"""Many files in one request, over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.core.exceptions import TooManyFilesSent
from django.core.files.uploadedfile import UploadedFile
from django.http import QueryDict
from django.http.multipartparser import MultiPartParser as DjangoMultiPartParser
from django.http.multipartparser import MultiPartParserError
from rest_framework.parsers import DataAndFiles
from rest_framework.request import Request
from rest_framework.response import Response

from registry import requests
from registry.errors import Invalid, Malformed, problem
from registry.openapi import operation, ref
from registry.strict_json import loads
from retrieval.ingestion import Incoming, Outcome, counted, delete_missing, in_folder, ingest
from retrieval.models import Document
from retrieval.rendering import render_documents
from retrieval.views.knowledge_bases import KnowledgeBaseView
from retrieval.views.uploads import UploadParser

_PARTS = ("file", "name", "folder", "metadata", "replace", "deleteMissing")
_TRUTH = {"true": True, "false": False}


class _NamedParts(DjangoMultiPartParser):
    """Keeps the whole names of files: Django leaves out the folders in them."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.paths: list[str] = []

    def sanitize_file_name(self, file_name: str) -> str | None:
        plain: str | None = super().sanitize_file_name(file_name)
        if plain:
            self.paths.append(_relative(file_name) or plain)
        return plain


class ManyFilesParser(UploadParser):
    """Multipart with many files; ``paths`` of the data are their names with folders."""

    @property
    def limit(self) -> int:
        return settings.MAX_INGEST_BYTES

    def parse(
        self,
        stream: Any,
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        request = (parser_context or {})["request"]
        self.check_length(request)
        meta = {**request.META, "CONTENT_TYPE": media_type}
        most = settings.DATA_UPLOAD_MAX_NUMBER_FILES
        try:
            parser = _NamedParts(meta, stream, request.upload_handlers)
            data, files = parser.parse()
        except TooManyFilesSent as error:
            raise Invalid.field(
                "file",
                None,
                f"there are more than {most:,} files; send them in several requests",
                allowed={"maximum": most},
                code="ingest.too_many_files",
            ) from error
        except MultiPartParserError as error:
            raise Malformed(f"The parts of the request could not be read: {error}.") from error
        request.file_paths = parser.paths
        return DataAndFiles(data, files)


class Ingestion(KnowledgeBaseView):
    scopes = {"POST": "editor"}
    parser_classes = (ManyFilesParser,)

    @operation(
        "ingestDocuments",
        "Add or replace many documents in one request",
        about="Each `file` part is a document for itself: created, replaced (other bytes), "
        "updated (the same bytes, other metadata), unchanged, or failed with its problem; one "
        "that fails stops no other. Repeat the request with the same files and nothing changes.",
        tag="documents",
        form=ref("IngestFiles"),
        answers={200: ref("Ingested")},
        errors=(400, 404, 409, 413, 415, 422),
        writes=True,
    )
    def post(self, request: Request, **_: Any) -> Response:
        base = self.knowledge_base()
        parts = _Parts(request)

        def work() -> tuple[int, Any]:
            outcomes = list(
                ingest(
                    actor=self.access.actor,
                    base=base,
                    files=parts.files,
                    metadata=parts.metadata,
                    replace=parts.replace,
                )
            )
            deleted: list[Document] = []
            if parts.delete_missing:
                deleted = delete_missing(
                    actor=self.access.actor,
                    base=base,
                    names=[file.name for file in parts.files],
                    folder=parts.folder,
                )
            return 200, _answer(outcomes, deleted)

        return self.write(work)


class _Parts:
    """What a request has besides its files. Raises Invalid and Malformed."""

    def __init__(self, request: Request) -> None:
        data = request.data
        if not isinstance(data, QueryDict):
            raise Malformed("The body must be multipart/form-data.")
        parts = dict(data.lists())
        requests.refuse_unknown(parts, _PARTS)
        self.folder = requests.text(_single(parts, "folder"), "folder", default="", blank=True)
        metadata = _single(parts, "metadata").get("metadata")
        self.metadata: Mapping[str, Any] | None = None
        if metadata is not None:
            self.metadata = requests.json_object(
                {"metadata": loads(metadata, field="metadata")}, "metadata"
            )
        self.replace = _truth(parts, "replace", default=True)
        self.delete_missing = _truth(parts, "deleteMissing", default=False)
        self.files = self._files(parts, getattr(request, "file_paths", []))

    def _files(self, parts: dict[str, list[Any]], paths: list[str]) -> list[Incoming]:
        files = parts.get("file", [])
        if not files or not all(isinstance(file, UploadedFile) for file in files):
            raise Invalid.field(
                "file",
                None,
                "must be files",
                allowed="one part or more with a file name",
                code="file.required",
            )
        for name in parts.get("name", []):
            if not isinstance(name, str):
                raise Invalid.field("name", name.name, "must be a text", allowed="string")
        names = parts.get("name") or paths
        if len(names) != len(files):
            raise Invalid.field(
                "name",
                len(names),
                f"there are {len(files)} files",
                allowed="one name for each file, in their order, or none",
            )
        return [
            Incoming(name=in_folder(self.folder, name), size=file.size, read=file.read)
            for name, file in zip(names, files, strict=True)
        ]


def _single(parts: dict[str, list[Any]], name: str) -> dict[str, Any]:
    values = parts.get(name, [])
    if len(values) > 1:
        raise Invalid.field(name, len(values), "came more than once", allowed="one part")
    if values and not isinstance(values[0], str):
        raise Invalid.field(name, values[0].name, "must be a text", allowed="string")
    return {name: values[0]} if values else {}


def _truth(parts: dict[str, list[Any]], name: str, *, default: bool) -> bool:
    value = _single(parts, name).get(name)
    if value is None:
        return default
    if value not in _TRUTH:
        raise Invalid.field(name, value, "must be true or false", allowed=list(_TRUTH))
    return _TRUTH[value]


def _relative(path: str) -> str | None:
    """Return the path of a file in the folder that was sent; None for one that leads elsewhere."""
    steps = path.replace("\\", "/").split("/")
    if path.startswith(("/", "\\")) or ":" in steps[0] or ".." in steps:
        return None
    return "/".join(step for step in steps if step not in ("", "."))


def _answer(outcomes: list[Outcome], deleted: list[Document]) -> dict[str, Any]:
    documents = [one.document for one in outcomes if one.document is not None]
    shown = {one["id"]: one for one in render_documents(documents)}
    return {
        "counts": {**counted(outcomes), "deleted": len(deleted)},
        "results": [
            {
                "name": one.name,
                "outcome": one.kind,
                "document": shown.get(str(one.document.pk)) if one.document else None,
                "problem": problem(one.error) if one.error else None,
            }
            for one in outcomes
        ],
        "deleted": [{"id": str(document.pk), "name": document.name} for document in deleted],
    }
