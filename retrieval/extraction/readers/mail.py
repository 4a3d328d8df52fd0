"""E-mails: who wrote to whom about what, the body, and attachments that are text."""

from __future__ import annotations

import codecs
import email
import re
from collections.abc import Iterator
from email.message import MIMEPart
from email.policy import default

from retrieval.extraction.encodings import decode, wide_encoding
from retrieval.extraction.reader import Reading
from retrieval.extraction.readers import html
from retrieval.extraction.results import Damaged

_SHOWN = ("From", "To", "Cc", "Date")
_END_OF_HEAD = re.compile(rb"\r?\n\r?\n|\r\r")
# Invitations and cards, which stand beside a text that says the same
_FOR_PROGRAMS = frozenset(("calendar", "vcard", "x-vcard", "directory"))
_DEEPEST = 10
# Above the headings of a body that is HTML, down to those of the messages in a message
_SUBJECT_LEVEL = -_DEEPEST - 1
# Byte-order marks: a mail that was opened and saved as a text
_MARKS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def read_mail(content: bytes, reading: Reading) -> None:
    """Read a message; forwarded messages in it are read too, other attachments are named."""
    if content.startswith(_MARKS) or wide_encoding(content):
        content = decode(content).text.encode("utf-8")
    message = email.message_from_bytes(_with_readable_head(content), policy=default)
    if not message.keys():
        raise Damaged("The file is not an e-mail: it has no header.")
    _write_message(message, reading, _SUBJECT_LEVEL)


def _with_readable_head(content: bytes) -> bytes:
    """Return the message with letters that stand in its head as they are in UTF-8.

    What no rule allows, many programs write: the parser reads no other encoding there.
    """
    end = _END_OF_HEAD.search(content)
    head = content[: end.start()] if end else content
    if head.isascii():
        return content
    return decode(head).text.encode("utf-8", "replace") + content[len(head) :]


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
        outline.leave(level + 1)
        if part.get_content_type() == "message/rfc822" and level < -1:
            for inner in part.iter_parts():
                _write_message(inner, reading, level + 1)
        elif part.get_content_maintype() == "text" and part.get_filename():
            outline.heading(level + 1, str(part.get_filename()))
            _write_text(part, reading)
        elif part.get_content_maintype() == "text":
            # Shown one under the other by programs for mail: footers of lists, what was added
            if part.get_content_subtype() not in _FOR_PROGRAMS:
                _write_text(part, reading)
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
    """Yield the parts besides the body, without those that say the same in another format."""
    if not message.is_multipart():
        return
    is_choice = message.get_content_subtype() == "alternative"
    if is_choice and not any(part is body for part in message.walk()):
        body = _body(message)
        if body is not None:
            yield body
    for part in message.iter_parts():
        if part is body:
            continue
        if part.get_content_maintype() == "multipart":
            inner = _others(part, body)
            yield from filter(_is_named, inner) if is_choice else inner
        elif not is_choice or _is_named(part):
            yield part


def _is_named(part: MIMEPart) -> bool:
    return part.get_filename() is not None or part.get_content_maintype() != "text"


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
