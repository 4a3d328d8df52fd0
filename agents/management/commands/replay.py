"""Ask again what traces say was asked, and count what differs."""

from __future__ import annotations

import re
import sys
from collections import Counter
from datetime import datetime, timedelta
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db.models import F, Func, QuerySet, TextField
from django.db.models.functions import Cast
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from tqdm import tqdm

from agents.management.versions import VersionCommand
from agents.replaying import Replay, Replayer
from retrieval.models import Trace

_AGO = re.compile(r"(\d+)([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_MOST_SHOWN = 50


class Command(VersionCommand):
    help = (
        "Ask again what traces say was asked, past every cache, and compare rank by rank. "
        "Exit code 1 where anything differs that a published version answered."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--since", metavar="WHEN", help="2026-11-30, 2026-11-30T12:00Z, or ago: 30m, 24h, 7d."
        )
        parser.add_argument("--until", metavar="WHEN", help="As --since.")
        parser.add_argument("--agent", metavar="SLUG", help="Only this agent's traces.")
        parser.add_argument(
            "--version", "--version-number", type=int, metavar="N", help="Only this version's."
        )
        parser.add_argument("--published", action="store_true", help="Leave drafts' traces out.")
        parser.add_argument(
            "--sample",
            type=int,
            metavar="N",
            help="At most N of them, spread evenly and the same ones each time.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        traces = _chosen(**options)
        total = traces.count()
        if not total:
            raise CommandError("There is no such trace.")
        sample = options["sample"]
        if sample is not None:
            if sample < 1:
                raise CommandError("--sample takes a number from 1.")
            total = min(total, sample)
        replayer = Replayer()
        counts: Counter[str] = Counter()
        with tqdm(total=total, unit=" traces", file=sys.stderr, disable=None) as bar:
            for trace in traces[:total].iterator(chunk_size=500):
                replay = replayer.replay(trace)
                counts[_outcome(replay)] += 1
                if replay.partial is not None:
                    counts[f"partial: {replay.partial}"] += 1
                if not replay.identical:
                    self._tell(replay, counts)
                bar.update()
        parts = [f"{total} traces replayed: {counts['identical']} identical"]
        partial = [f"{name} {count}" for name, count in sorted(counts.items()) if ":" in name]
        if partial:
            parts[0] += f" ({', '.join(partial)})"
        parts.append(f"{counts['differ']} differ")
        others = ("less what was purged", "of drafts differ")
        parts += [f"{counts[name]} {name}" for name in others if counts[name]]
        self.stdout.write(", ".join(parts))
        if counts["differ"]:
            sys.exit(1)

    def _tell(self, replay: Replay, counts: Counter[str]) -> None:
        told = sum(counts[name] for name in ("differ", "less what was purged", "of drafts differ"))
        if told > _MOST_SHOWN:
            if told == _MOST_SHOWN + 1:
                self.stdout.write("… and more, which are only counted")
            return
        trace, found = replay.trace, replay.difference
        assert found is not None  # noqa: S101 - it is what is told
        version = "draft" if trace.version_number is None else f"v{trace.version_number}"
        where = [f"{trace.pk} {trace.kind} of {trace.agent_slug} {version}:"]
        for name, value in (
            ("binding", found.binding),
            ("in", found.knowledge_base),
            ("rank", found.rank),
            ("document", found.document),
            ("chunk", found.position),
        ):
            if value is not None:
                where.append(f"{name} {value},")
        self.stdout.write(
            f"{' '.join(where)} {found.field}: expected {found.expected}, found {found.found}"
            + (f" ({found.cause}: {found.detail})" if found.cause else "")
        )


def _chosen(**options: Any) -> QuerySet[Trace]:
    traces = Trace.objects.all()
    if options["since"]:
        traces = traces.filter(at__gte=_moment(options["since"], "--since"))
    if options["until"]:
        traces = traces.filter(at__lt=_moment(options["until"], "--until"))
    if options["agent"]:
        traces = traces.filter(agent_slug=options["agent"])
    if options["version"] is not None:
        traces = traces.filter(version_number=options["version"])
    if options["published"]:
        traces = traces.filter(version_number__isnull=False)
    if options["sample"] is not None:
        # By a digest of their ids: spread like chance, and the same ones when asked again.
        digest = Func(Cast(F("pk"), TextField()), function="md5", output_field=TextField())
        return traces.order_by(digest)
    return traces.order_by("at", "id")


def _moment(text: str, option: str) -> datetime:
    try:
        if ago := _AGO.fullmatch(text):
            return timezone.now() - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        found = parse_datetime(text if "T" in text or " " in text else f"{text}T00:00")
    except (ValueError, OverflowError):
        found = None
    if found is None:
        raise CommandError(f"{option} is {text!r}; write 2026-11-30, 2026-11-30T12:00Z, or 24h.")
    return found if timezone.is_aware(found) else timezone.make_aware(found)


def _outcome(replay: Replay) -> str:
    if replay.identical:
        return "identical"
    if replay.only_purged:
        return "less what was purged"
    return "of drafts differ" if replay.trace.version_number is None else "differ"
