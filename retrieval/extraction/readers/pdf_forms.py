"""What is filled in on a page of a PDF form, and what was typed onto it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator

import pypdfium2  # type: ignore[import-untyped]
from pypdfium2 import raw

_MOST_ANNOTATIONS = 2000
_MOST_OPTIONS = 2000
_LONGEST = 2 * 1024 * 1024
_CHOICES = (raw.FPDF_FORMFIELD_COMBOBOX, raw.FPDF_FORMFIELD_LISTBOX)
_SWITCHES = (raw.FPDF_FORMFIELD_CHECKBOX, raw.FPDF_FORMFIELD_RADIOBUTTON)


def filled_in(page: pypdfium2.PdfPage) -> list[str]:
    """Return "label: value" of the fields that are filled in, chosen or ticked, each once."""
    lines: dict[str, None] = {}
    for index in range(min(raw.FPDFPage_GetAnnotCount(page), _MOST_ANNOTATIONS)):
        annotation = raw.FPDFPage_GetAnnot(page, index)
        if not annotation:
            continue
        try:
            kind = raw.FPDFAnnot_GetSubtype(annotation)
            if kind == raw.FPDF_ANNOT_WIDGET:
                lines.update(dict.fromkeys(_field(page, annotation)))
            elif kind == raw.FPDF_ANNOT_FREETEXT:
                lines.update(dict.fromkeys(filter(None, [_string(annotation, b"Contents")])))
        finally:
            raw.FPDFPage_CloseAnnot(annotation)
    return list(lines)


def _field(page: pypdfium2.PdfPage, annotation: object) -> Iterator[str]:
    form = page.formenv
    if form is None:
        # No form in the catalogue: what the field itself says, without what it may inherit
        label = _string(annotation, b"TU") or _string(annotation, b"T")
        values = [_string(annotation, b"V")] if _string(annotation, b"FT") in ("", "Tx") else []
    else:
        label = _text(raw.FPDFAnnot_GetFormFieldAlternateName, form, annotation) or _last(
            _text(raw.FPDFAnnot_GetFormFieldName, form, annotation)
        )
        values = list(_values(form, annotation))
    for value in values:
        if value and value != "Off":
            yield f"{label}: {value}" if label else value


def _values(form: object, annotation: object) -> Iterator[str]:
    kind = raw.FPDFAnnot_GetFormFieldType(form, annotation)
    if kind in _SWITCHES:
        if raw.FPDFAnnot_IsChecked(form, annotation):
            yield _text(raw.FPDFAnnot_GetFormFieldExportValue, form, annotation)
    elif kind == raw.FPDF_FORMFIELD_TEXTFIELD:
        yield _text(raw.FPDFAnnot_GetFormFieldValue, form, annotation)
    elif kind in _CHOICES:
        chosen = [
            _text(raw.FPDFAnnot_GetOptionLabel, form, annotation, number)
            for number in range(min(raw.FPDFAnnot_GetOptionCount(form, annotation), _MOST_OPTIONS))
            if raw.FPDFAnnot_IsOptionSelected(form, annotation, number)
        ]
        yield from chosen or [_text(raw.FPDFAnnot_GetFormFieldValue, form, annotation)]


def _last(name: str) -> str:
    # Of "form[0].page[0].town[0]" people know the town
    return name.rpartition(".")[2].partition("[")[0]


def _string(annotation: object, key: bytes) -> str:
    return _text(raw.FPDFAnnot_GetStringValue, annotation, key)


def _text(function: Callable[..., int], *arguments: object) -> str:
    """Return what one of the functions gives that write UTF-16 to a buffer."""
    length = function(*arguments, None, 0)
    if not 2 < length <= _LONGEST:
        return ""
    buffer = ctypes.create_string_buffer(length)
    function(*arguments, ctypes.cast(buffer, ctypes.POINTER(raw.FPDF_WCHAR)), length)
    return buffer.raw[: length - 2].decode("utf-16-le", "replace").strip()
