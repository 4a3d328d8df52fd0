"""The one hierarchy of errors that people and programs get to see.

Every error has a stable ``code`` (``expression.unknown_name``), a sentence for a person and,
where input is at fault, the fields with their value and what is allowed. HTTP, MCP, the admin
and commands each map these once; nothing else is caught.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

_SHOWN_LENGTH = 200
_TYPE_BASE = "urn:agent-registry:problem:"


def shown(value: object) -> Any:
    """Return ``value`` as an error may repeat it: short, and plain JSON."""
    if value is None or isinstance(value, bool | int | float):
        return value if not isinstance(value, float) or value == value else "NaN"
    text = value if isinstance(value, str) else repr(value)
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return text if len(text) <= _SHOWN_LENGTH else text[: _SHOWN_LENGTH - 1] + "…"


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldError:
    """What is wrong with one field: its dotted path, the value, and what would be right."""

    field: str
    message: str
    value: Any = None
    allowed: Any = None

    def as_json(self) -> dict[str, Any]:
        return {
            "field": self.field,
            "value": shown(self.value),
            "message": self.message,
            "allowed": self.allowed,
        }


class RegistryError(Exception):
    """The request could not be done.

    ``data`` holds further public members of the problem document (figures, holders).
    """

    status: ClassVar[int] = 500
    title: ClassVar[str] = "Internal error"
    default_code: ClassVar[str] = "internal_error"

    def __init__(
        self,
        detail: str,
        *,
        code: str | None = None,
        errors: Iterable[FieldError] = (),
        **data: Any,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.code = code or self.default_code
        self.errors: Sequence[FieldError] = tuple(errors)
        self.data = data


class Invalid(RegistryError):
    """The request was understood and is wrong: 422."""

    status = 422
    title = "Invalid input"
    default_code = "invalid"

    @classmethod
    def field(
        cls,
        field: str,
        value: object,
        message: str,
        *,
        allowed: object = None,
        code: str | None = None,
    ) -> Invalid:
        """Build the error of a single field; its message is also the sentence."""
        error = FieldError(field=field, value=value, message=message, allowed=allowed)
        return cls(f"{field}: {message}", code=code, errors=[error])


class Malformed(RegistryError):
    """The request could not be read at all: 400."""

    status = 400
    title = "Malformed request"
    default_code = "request.malformed"


class Unauthenticated(RegistryError):
    """No valid API key came with the request: 401."""

    status = 401
    title = "Not authenticated"
    default_code = "authentication.required"


class Forbidden(RegistryError):
    """The key's scope does not allow this: 403."""

    status = 403
    title = "Not allowed"
    default_code = "scope.insufficient"


class NotFound(RegistryError):
    """There is no such thing, or this key may not see it: 404."""

    status = 404
    title = "Not found"
    default_code = "not_found"


class Conflict(RegistryError):
    """The present state does not allow this: 409."""

    status = 409
    title = "Conflict"
    default_code = "conflict"


class LengthRequired(RegistryError):
    """The request does not say how long its body is: 411."""

    status = 411
    title = "Length required"
    default_code = "request.length_required"


class StaleRevision(RegistryError):
    """The revision that the edit started from is no longer the newest: 412."""

    status = 412
    title = "Precondition failed"
    default_code = "draft.stale_revision"


class TooLarge(RegistryError):
    """The content is over the configured limit: 413."""

    status = 413
    title = "Content too large"
    default_code = "request.too_large"


class UnsupportedType(RegistryError):
    """This kind of file cannot be read: 415."""

    status = 415
    title = "Unsupported type"
    default_code = "document.unsupported_type"


class TooMany(RegistryError):
    """The caller has used up what it may do for now: 429; ``retry_after`` seconds from now."""

    status = 429
    title = "Too many requests"
    default_code = "request.too_many"

    def __init__(
        self, detail: str, *, code: str | None = None, retry_after: int, **data: Any
    ) -> None:
        super().__init__(detail, code=code, retryAfter=retry_after, **data)
        self.retry_after = retry_after


class RevisionRequired(RegistryError):
    """An edit must say which revision it started from: 428."""

    status = 428
    title = "Precondition required"
    default_code = "draft.revision_required"


class Damaged(RegistryError):
    """A row holds what this software never wrote; ``verify`` says what else does: 500."""

    title = "Damaged row"
    default_code = "rows.changed"


class Unavailable(RegistryError):
    """Something this needs is missing or down at the moment: 503."""

    status = 503
    title = "Not available"
    default_code = "unavailable"


def problem(error: RegistryError) -> dict[str, Any]:
    """Return the problem document (RFC 9457) of ``error``."""
    document: dict[str, Any] = {
        "type": _TYPE_BASE + error.code,
        "title": error.title,
        "status": error.status,
        "code": error.code,
        "detail": error.detail,
        **error.data,
    }
    if error.errors:
        document["errors"] = [field.as_json() for field in error.errors]
    return document
