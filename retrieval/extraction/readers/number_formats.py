"""Numbers in the cells of a workbook as a reader sees them, where that is another thing.

Dates, times, percentages and numbers with leading zeros. What else formats do (separators of
thousands, currencies, colours) is left out: there the number itself is what people look for.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal, localcontext

# Quoted and escaped letters, padding, colours, conditions and languages
_DECORATION = re.compile(r'"[^"]*"|\\.|_.|\*.|\[[^\]]*\]')
_ELAPSED = re.compile(r"\[(h+|m+|s+)\]", re.I)
_DATE = re.compile(r"[ydm]", re.I)
_CLOCK = re.compile(r"[hs]", re.I)
_MINUTES = re.compile(r"(?<=h)(\W*)m+|m+(?=\W*s)", re.I)
_HALF_DAY = re.compile(r"am/pm|a/p", re.I)
_PERCENT = re.compile(r"(?:\.([0#?]+))?\s*%")
_ONLY_ZEROS = re.compile(r"0{2,}")
_WHOLE = re.compile(r"-?\d+")
# Those that have a number instead of a code
BUILT_IN = {
    9: "0%",
    10: "0.00%",
    **dict.fromkeys((*range(14, 18), *range(27, 32), 36, *range(50, 59)), "yyyy-mm-dd"),
    **dict.fromkeys((*range(18, 22), *range(32, 36)), "h:mm:ss"),
    22: "yyyy-mm-dd h:mm",
    45: "mm:ss",
    46: "[h]:mm:ss",
    47: "mm:ss.0",
}
_EPOCHS = {
    False: datetime.fromisoformat("1899-12-30"),
    True: datetime.fromisoformat("1904-01-01"),
}
# Excel knows a 29 February 1900
_MARCH_1900 = 60
_LAST_DAY = 2_950_000
_DAY_SECONDS = 86_400
# 14:30:00 is stored as 14:29:59.99999 as often as not
_JUST_BELOW = 0.0005
_MOST_DIGITS = 15
_MOST_PLACES = 15

Format = Callable[[str], str]


@functools.lru_cache(maxsize=1024)
def number_format(code: str, *, from_1904: bool = False) -> Format:
    """Return what turns a number, as it is stored, into what a format shows of it.

    What is no number stays as it is.
    """
    section = code.split(";")[0]
    plain = _DECORATION.sub("", section)
    if _ELAPSED.search(section):
        return _of_days(_elapsed)
    has_clock = bool(_CLOCK.search(plain))
    if _DATE.search(_MINUTES.sub("", _HALF_DAY.sub("h", plain))):
        return _of_days(functools.partial(_date, from_1904=from_1904, has_clock=has_clock))
    if has_clock:
        return _of_days(_time)
    if percent := _PERCENT.search(plain):
        return functools.partial(_percentage, places=percent[1] or "")
    if _ONLY_ZEROS.fullmatch(plain):
        return functools.partial(_zero_padded, width=len(plain))
    return _general


def _of_days(shown: Callable[[int], str]) -> Format:
    """Return the format of a number that counts days."""

    def of_days(value: str) -> str:
        days = _number(value)
        if days is None or not 0 <= days <= _LAST_DAY:
            return value
        return shown(int(days * _DAY_SECONDS + _JUST_BELOW))

    return of_days


def _date(seconds: int, *, from_1904: bool, has_clock: bool) -> str:
    days, rest = divmod(seconds, _DAY_SECONDS)
    early = not from_1904 and days < _MARCH_1900
    moment = _EPOCHS[from_1904] + timedelta(days=days + early, seconds=rest)
    shown = moment.isoformat(" ")
    return shown if has_clock and rest else shown[:10]


def _time(seconds: int) -> str:
    return _clock(seconds % _DAY_SECONDS, width=2)


def _elapsed(seconds: int) -> str:
    return _clock(seconds, width=1)


def _clock(seconds: int, *, width: int) -> str:
    hours, rest = divmod(seconds, 3600)
    return f"{hours:0{width}}:{rest // 60:02}:{rest % 60:02}"


def _percentage(value: str, *, places: str) -> str:
    number = _number(value)
    if number is None or abs(number) >= 10**_MOST_DIGITS:
        return value
    most = min(len(places), _MOST_PLACES)
    least = min(places.count("0"), most)
    with localcontext(prec=_MOST_DIGITS + _MOST_PLACES + 10):
        rounded = (Decimal(value) * 100).quantize(Decimal(1).scaleb(-most), ROUND_HALF_UP)
    whole, _, fraction = f"{rounded:f}".partition(".")
    fraction = fraction[:least] + fraction[least:].rstrip("0")
    return f"{whole}.{fraction}%" if fraction else f"{whole}%"


def _zero_padded(value: str, *, width: int) -> str:
    if not _WHOLE.fullmatch(value):
        return _general(value)
    return value.zfill(width + value.startswith("-"))


def _general(value: str) -> str:
    """Return a number without what only computers see: 0.1 + 0.2 is 0.3."""
    if len(value) <= _MOST_DIGITS and "e" not in value and "E" not in value:
        # Some programs write 13.0
        return value.rstrip("0").rstrip(".") if "." in value else value
    number = _number(value)
    if number is None or _WHOLE.fullmatch(value):
        return value
    shown = f"{number:.{_MOST_DIGITS}g}"
    return f"{Decimal(shown):f}" if "e" in shown and 1e-10 < abs(number) < 1e25 else shown


def _number(value: str) -> float | None:
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
