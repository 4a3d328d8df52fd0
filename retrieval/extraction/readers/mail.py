"""E-mails: who wrote to whom about what, the body, and attachments that are text."""

from __future__ import annotations

import codecs
import email
from collections.abc import Iterator
from email.message import MIMEPart
from email.policy import default

from retrieval.extraction.encodings import decode, wide_encoding
from retrieval.extraction.reader import Reading
from retrieval.extraction.readers import html
from retrieval.extraction.results import Damaged

_SHOWN = ("From", "To", "Cc", "Date")
_DEEPEST = 10
# Byte-order marks: a mail that was opened and saved as a text
_MARKS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def read_mail(content: bytes, reading: Reading) -> None:
    """Read a message; forwarded messages in it are read too, other attachments are named."""
    if content.startswith(_MARKS) or wide_encoding(content):
        content = decode(content).text.encode("utf-8")
    message = email.message_from_bytes(content, policy=default)
    if not message.keys():
        raise Damaged("The file is not an e-mail: it has no header.")
    _write_message(message, reading, 1)


def write_body(content: bytes, reading: Reading) -> None:
    """Write the text of a message without its head: a web page saved with its pictures is one."""
    body = _body(email.message_from_bytes(content, policy=default))
    if body is not None:
        _write_text(body, reading)


def _write_message(message: MIMEPart, reading: Reading, level: int) -> None:
    outline = reading.outline
    outline.leave(level)
    outline.heading(level, _header(message, "Subject"))
    shown = [f"{name}: {value}" for name in _SHOWN if (value := _header(message, name))]
    outline.block("\n".join(shown))
    body = _body(message)
    if body is not None:
        _write_text(body, reading)
    for part in _others(message, body):
        if part.get_content_type() == "message/rfc822" and level < _DEEPEST:
            for inner in part.iter_parts():
                _write_message(inner, reading, level + 1)
        elif part.get_content_maintype() == "text" and part.get_filename():
            outline.heading(level + 1, str(part.get_filename()))
            _write_text(part, reading)
            outline.leave(level + 1)
        elif part.get_filename():
            reading.notices.append(
                f"The attachment {str(part.get_filename())!r} was not read: upload it by itself."
            )


def _body(message: MIMEPart) -> MIMEPart | None:
    """Return the plain text, else the HTML; a message in one part may be of another kind."""
    body = message.get_body(("plain", "html"))
    if body is None or body.get_content_type() == "text/html" or _text(body).strip():
        return body
    return message.get_body(("html",)) or body


def _others(message: MIMEPart, body: MIMEPart | None) -> Iterator[MIMEPart]:
    if not message.is_multipart():
        return
    for part in message.iter_parts():
        if part is body or part.get_content_subtype() == "alternative":
            continue
        if part.get_content_maintype() == "multipart":
            yield from _others(part, body)
        else:
            yield part


def _write_text(part: MIMEPart, reading: Reading) -> None:
    text = _text(part)
    if part.get_content_type() == "text/html":
        root = html.parse(text)
        if root is not None:
            html.write_page(root, reading.outline)
    else:
        reading.outline.block(text)


def _text(part: MIMEPart) -> str:
    payload = part.get_payload(decode=True)
    content = payload if isinstance(payload, bytes) else b""
    return decode(content, part.get_content_charset()).text


def _header(message: MIMEPart, name: str) -> str:
    try:
        return " ".join(str(message.get(name, "")).split())
    except (ValueError, IndexError, AttributeError):
        # The parser of structured headers gives up on some that break the rules
        return ""
