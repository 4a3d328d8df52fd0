"""The OpenAPI 3.1 document: each operation says beside its view what it takes and gives.

Bodies and answers are JSON Schemas by name; apps add theirs with ``components``. drf-spectacular
finds the operations and puts the document together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeVar

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema

from registry.api import PROBLEM
from registry.pages import DEFAULT_LIMIT, MAX_LIMIT

Schema = dict[str, Any]
F = TypeVar("F", bound=Callable[..., Any])

STRING: Schema = {"type": "string"}
BOOLEAN: Schema = {"type": "boolean"}
INTEGER: Schema = {"type": "integer"}
COUNT: Schema = {"type": "integer", "minimum": 0}
NUMBER: Schema = {"type": "number"}
UUID: Schema = {"type": "string", "format": "uuid"}
TIME: Schema = {"type": "string", "format": "date-time"}
DIGEST: Schema = {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"}
CONFIDENCE: Schema = {"type": "number", "minimum": 0, "maximum": 1}
ANY_OBJECT: Schema = {"type": "object", "additionalProperties": True}
ANY: Schema = {}

_COMPONENTS: dict[str, Schema] = {}

_ERRORS = {
    400: "The request could not be read.",
    401: "No valid API key came with the request.",
    403: "The key's scope does not allow this.",
    404: "There is no such thing, or it is outside this key.",
    409: "The present state does not allow this.",
    412: "The draft has a newer revision than the edit started from.",
    413: "The content is over the limit.",
    415: "This type is not supported.",
    422: "The request was understood and is wrong.",
    428: "If-Match is missing.",
    429: "The key has used up what it may do for now; `Retry-After` says for how long.",
    503: "Something this needs is missing at the moment.",
}


def components(**schemas: Schema) -> None:
    """Add schemas by name to the document."""
    _COMPONENTS.update(schemas)


def ref(name: str) -> Schema:
    """Return the reference to a schema given to ``components``."""
    return {"$ref": f"#/components/schemas/{name}"}


def record(
    properties: Mapping[str, Schema], *, optional: Sequence[str] = (), about: str = ""
) -> Schema:
    """Return the schema of an object whose members are all there but the ``optional`` ones."""
    schema: Schema = {"type": "object", "properties": dict(properties)}
    required = [name for name in properties if name not in optional]
    if required:
        schema["required"] = required
    if about:
        schema["description"] = about
    return schema


def changes(properties: Mapping[str, Schema], *, about: str = "") -> Schema:
    """Return the schema of an object whose members are all optional, and no others allowed."""
    schema = record(properties, optional=list(properties), about=about)
    return {**schema, "additionalProperties": False}


def request(
    properties: Mapping[str, Schema], *, optional: Sequence[str] = (), about: str = ""
) -> Schema:
    """Return the schema of a body in which no other member is allowed."""
    return {**record(properties, optional=optional, about=about), "additionalProperties": False}


def array(items: Schema) -> Schema:
    """Return the schema of an array of any length."""
    return {"type": "array", "items": items}


def one_of(*values: object) -> Schema:
    """Return the schema of a value that is one of these."""
    return {"enum": list(values)}


def nullable(schema: Schema) -> Schema:
    """Return ``schema`` or null."""
    kind = schema.get("type")
    if isinstance(kind, str):
        return {**schema, "type": [kind, "null"]}
    return {"oneOf": [schema, {"type": "null"}]}


def listed(name: str) -> Schema:
    """Return the schema of one page of a list."""
    cursor = {**nullable(STRING), "description": "The cursor of the next page, or null."}
    return record({"results": array(ref(name)), "next": cursor})


def in_query(name: str, schema: Schema, about: str, *, required: bool = False) -> OpenApiParameter:
    """Return a parameter of the query string."""
    return OpenApiParameter(
        name=name, type=schema, location="query", description=about, required=required
    )


PAGING = (
    in_query(
        "limit",
        {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT},
        "How many at most.",
    ),
    in_query("cursor", STRING, "`next` of the page before."),
)
_IDEMPOTENCY = OpenApiParameter(
    name="Idempotency-Key",
    type={"type": "string", "minLength": 1, "maxLength": 255},
    location="header",
    description="A repeat within 24 hours gets the first answer and changes nothing.",
)
_ETAG = OpenApiParameter(
    name="ETag",
    type=STRING,
    location="header",
    response=[200],
    description="The draft's revision, quoted: what `If-Match` of the next edit says.",
)


def _if_match(*, required: bool) -> OpenApiParameter:
    return OpenApiParameter(
        name="If-Match",
        type=STRING,
        location="header",
        required=required,
        description='The draft\'s revision that this started from, quoted (`"7"`), or `*`.',
    )


def operation(
    operation_id: str,
    summary: str,
    *,
    tag: str,
    answers: Mapping[int, Schema | None],
    body: Schema | None = None,
    form: Schema | None = None,
    query: Sequence[OpenApiParameter] = (),
    errors: Sequence[int] = (),
    writes: bool = False,
    if_match: str = "",
    etag: bool = False,
    about: str = "",
) -> Callable[[F], F]:
    """Describe a view's method: JSON ``body`` and multipart ``form``, answers by status.

    ``writes`` adds ``Idempotency-Key``; ``if_match`` is ``required`` or ``optional``.
    """
    content: dict[str, Any] = {}
    if body is not None:
        content["application/json"] = body
    if form is not None:
        content["multipart/form-data"] = form
    parameters = list(query)
    if writes:
        parameters.append(_IDEMPOTENCY)
    if if_match:
        parameters.append(_if_match(required=if_match == "required"))
    if etag:
        parameters.append(_ETAG)
    responses: dict[Any, Any] = {
        status: OpenApiResponse(response=schema, description=_described(status))
        for status, schema in answers.items()
    }
    everywhere = {401, 403, 503} | ({409, 422} if writes else set())
    for status in sorted({*everywhere, *errors}):
        responses[(status, PROBLEM)] = ref("Problem")
    decorate: Callable[[F], F] = extend_schema(
        operation_id=operation_id,
        summary=summary,
        description=about or summary,
        tags=[tag],
        parameters=parameters,
        request=content or None,
        responses=responses,
    )
    return decorate


def _described(status: int) -> str:
    return {201: "Made.", 202: "Accepted; workers do the rest.", 204: "Gone."}.get(status, "Done.")


class ApiKeyScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """``Authorization: Bearer <API key>``."""

    target_class = "registry.wire.ApiKeyAuthentication"
    name = "apiKey"

    def get_security_definition(self, auto_schema: Any) -> Schema:
        return {"type": "http", "scheme": "bearer", "description": "An API key."}


def finish(result: Schema, **_: Any) -> Schema:
    """Put the schemas into the document that drf-spectacular has generated."""
    shared = result["components"]
    shared["schemas"] = dict(sorted(_COMPONENTS.items()))
    shared["responses"] = {
        str(status): {"description": sentence, "content": {PROBLEM: {"schema": ref("Problem")}}}
        for status, sentence in _ERRORS.items()
    }
    for methods in result["paths"].values():
        for described in methods.values():
            if "requestBody" in described:
                described["requestBody"]["required"] = _is_needed(described["requestBody"])
            if described.get("description") == described.get("summary"):
                described.pop("description", None)
            for status, answer in described["responses"].items():
                if PROBLEM in answer.get("content", {}):
                    described["responses"][status] = {"$ref": f"#/components/responses/{status}"}
    return result


def _is_needed(body: Schema) -> bool:
    """Say whether a body has members that must be there; without any it may be left out."""
    names = [media["schema"]["$ref"].rpartition("/")[2] for media in body["content"].values()]
    return any(_COMPONENTS[name].get("required") for name in names)


@lru_cache(maxsize=1)
def document() -> Schema:
    """Return the whole document."""
    made: Schema = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    return made


components(
    Problem=record(
        {
            "type": STRING,
            "title": STRING,
            "status": INTEGER,
            "code": {"type": "string", "description": "Stable, for programs: `version.not_found`."},
            "detail": {"type": "string", "description": "A sentence for a person."},
            "errors": array(ref("FieldError")),
        },
        optional=["errors"],
        about="RFC 9457; some codes have further members (figures, holders).",
    )
    | {"additionalProperties": True},
    FieldError=record(
        {
            "field": {"type": "string", "description": "Its dotted path: `bindings.0.expression`."},
            "value": {"description": "What came, shortened."},
            "message": STRING,
            "allowed": {"description": "What would be right, where it can be said; else null."},
        }
    ),
)
