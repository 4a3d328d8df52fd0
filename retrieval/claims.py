"""Who works on a piece of a build, and how its work ends.

A piece is claimed in PostgreSQL for a while (a lease), so any number of workers share a build and
a killed one costs its piece and no more. Whatever ends a piece proves first that the claim is
still held; whoever lost it throws its work away.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection, transaction
from django.db import Error as DatabaseFailure
from django.db.models import F, Q
from django.utils import timezone

from retrieval.extractor import installed_recipe
from retrieval.models import BuildPiece, DocumentRevision, Extraction, IndexedDocument

logger = logging.getLogger("retrieval.claims")

CRASHED = "build.crashed"
_LONGEST_HOLDER = 100


class ClaimLost(Exception):
    """Another worker took the piece over, or the build ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A piece that this worker holds until its lease ends, and what there is to do."""

    piece_id: int
    token: uuid.UUID
    revision_id: int
    revision_sha256: str
    # Nothing has been read out of the revision yet, by whatever recipe
    is_unread: bool
    # The recipe, canonical JSON
    chunking: str
    model_id: int
    model_name: str
    model_fingerprint: str

    def extend(self) -> None:
        """Extend the lease, if it is still held."""
        held = BuildPiece.objects.filter(pk=self.piece_id, claim=self.token, state="waiting")
        held.update(leased_until=_lease_end())

    def renew(self, *, chunks_done: int) -> None:
        """Extend the lease and show progress. Raises ClaimLost."""
        held = BuildPiece.objects.filter(pk=self.piece_id, claim=self.token, state="waiting")
        if not held.update(leased_until=_lease_end(), chunks_done=chunks_done):
            raise ClaimLost

    def give_back(self, *, counted: bool) -> None:
        """Let any worker take the piece at once; not ``counted``, the attempt was none."""
        held = BuildPiece.objects.filter(pk=self.piece_id, claim=self.token, state="waiting")
        held.update(
            claim=None,
            holder="",
            leased_until=None,
            attempts=F("attempts") if counted else F("attempts") - 1,
        )


@contextmanager
def kept_alive(claim: Claim) -> Iterator[None]:
    """Extend the lease while this process works: reading one document may take minutes."""
    done = threading.Event()

    def beat() -> None:
        try:
            while not done.wait(settings.BUILD_LEASE_SECONDS / 3):
                claim.extend()
        except (DatabaseError, InterfaceError) as error:
            logger.warning("piece.lease_not_extended piece=%s reason=%s", claim.piece_id, error)
        finally:
            connection.close()

    thread = threading.Thread(target=beat, name="lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _lease_end() -> datetime:
    return timezone.now() + timedelta(seconds=settings.BUILD_LEASE_SECONDS)


@contextmanager
def redoable() -> Iterator[None]:
    """Write without waiting for the disk: what a power cut takes of a piece is done again.

    For a turn at pieces, not one within another. What starts and ends a build in between waits
    for the disk, and with it for all that was written before.
    """
    with connection.cursor() as cursor:
        cursor.execute("SET synchronous_commit TO off")
    try:
        yield
    finally:
        with suppress(DatabaseFailure), connection.cursor() as cursor:
            cursor.execute("RESET synchronous_commit")


# Of the piece alone: a locked snapshot would make every other worker find nothing.
_CLAIM = """
WITH claimed AS (
    UPDATE retrieval_buildpiece
    SET claim = %(claim)s, holder = %(holder)s, attempts = attempts + 1,
        claimed_at = %(now)s, leased_until = %(until)s
    WHERE id = (
        SELECT p.id FROM retrieval_buildpiece AS p
        JOIN retrieval_indexsnapshot AS s ON s.id = p.snapshot_id AND s.state = 'building'
        JOIN retrieval_knowledgebase AS k ON k.id = s.knowledge_base_id AND NOT k.build_paused
        WHERE p.snapshot_id = %(snapshot)s AND p.state = 'waiting' AND p.attempts < %(most)s
          AND (p.leased_until IS NULL OR p.leased_until < %(now)s)
        ORDER BY p.attempts, p.id LIMIT 1 FOR UPDATE OF p SKIP LOCKED
    )
    RETURNING id, snapshot_id, revision_id, chunking
)
SELECT c.id, c.revision_id, r.sha256,
       NOT EXISTS (SELECT 1 FROM retrieval_extraction WHERE revision_id = c.revision_id),
       c.chunking, m.id, m.name, m.fingerprint
FROM claimed AS c
JOIN retrieval_documentrevision AS r ON r.id = c.revision_id
JOIN retrieval_indexsnapshot AS s ON s.id = c.snapshot_id
JOIN retrieval_embeddingmodel AS m ON m.id = s.model_id
"""


def claim_piece(snapshot_id: int) -> Claim | None:
    """Claim the next piece that nobody holds, or return None: none is left, or paused.

    Pieces whose holder vanished come last, so that what stops workers keeps nobody else waiting;
    one whose holders vanished ``BUILD_MAX_ATTEMPTS`` times fails by name.
    """
    token = uuid.uuid4()
    while True:
        with connection.cursor() as cursor:
            cursor.execute(
                _CLAIM,
                {
                    "claim": token,
                    "holder": f"{socket.gethostname()}:{os.getpid()}"[:_LONGEST_HOLDER],
                    "now": timezone.now(),
                    "until": _lease_end(),
                    "snapshot": snapshot_id,
                    "most": settings.BUILD_MAX_ATTEMPTS,
                },
            )
            row = cursor.fetchone()
        if row is not None:
            return Claim(
                piece_id=row[0],
                token=token,
                revision_id=row[1],
                revision_sha256=row[2],
                is_unread=row[3],
                chunking=row[4],
                model_id=row[5],
                model_name=row[6],
                model_fingerprint=row[7],
            )
        if not _give_up_one_crashed(snapshot_id):
            return None


def _give_up_one_crashed(snapshot_id: int) -> bool:
    with transaction.atomic():
        piece = (
            BuildPiece.objects.select_for_update(skip_locked=True, of=("self",))
            .filter(
                Q(leased_until__isnull=True) | Q(leased_until__lt=timezone.now()),
                snapshot_id=snapshot_id,
                snapshot__state="building",
                snapshot__knowledge_base__build_paused=False,
                state="waiting",
                attempts__gte=settings.BUILD_MAX_ATTEMPTS,
            )
            .order_by("pk")
            .first()
        )
        if piece is None:
            return False
        _give_up_crashed(piece)
        return True


def finish(claim: Claim, indexed: IndexedDocument) -> None:
    """Note that a piece had been done before. Raises ClaimLost."""
    held = BuildPiece.objects.filter(pk=claim.piece_id, claim=claim.token, state="waiting")
    if not held.update(
        state="done",
        indexed_document=indexed,
        chunks_done=indexed.chunk_count,
        claim=None,
        holder="",
        leased_until=None,
        ended_at=timezone.now(),
    ):
        raise ClaimLost


def fall_back(claim: Claim, extraction: Extraction) -> None:
    """Keep a document's last readable revision in the index where its newest cannot be read."""
    with transaction.atomic():
        piece = (
            BuildPiece.objects.select_for_update(of=("self",))
            .select_related("revision")
            .filter(pk=claim.piece_id, claim=claim.token, state="waiting")
            .first()
        )
        if piece is None:
            raise ClaimLost
        _give_up(piece, extraction.error_code, extraction.error)


def _give_up_crashed(piece: BuildPiece) -> None:
    """Note that reading this revision stops workers, so that later builds need not find out."""
    sentence = (
        f"The worker stopped {piece.attempts} times while it read this document. "
        "POST …/retry on it tries once more."
    )
    if not Extraction.objects.filter(revision=piece.revision_id, status="sealed").exists():
        Extraction.objects.update_or_create(
            revision_id=piece.revision_id,
            recipe=installed_recipe(),
            defaults={"status": "failed", "error_code": CRASHED, "error": sentence},
        )
    _give_up(piece, CRASHED, sentence)


def _give_up(piece: BuildPiece, code: str, sentence: str) -> None:
    """Fall back to the document's last readable revision, or fail where there is none.

    The caller holds the piece locked.
    """
    earlier = (
        DocumentRevision.objects.filter(
            document=piece.document_id,
            number__lt=piece.revision.number,
            extractions__status="sealed",
            content__isnull=False,
        )
        .order_by("-number")
        .first()
    )
    if earlier is None:
        _fail(piece, code, sentence)
        return
    piece.error_code = piece.error_code or code
    piece.error = piece.error or sentence
    piece.revision = earlier
    piece.claim = None
    piece.holder = ""
    piece.leased_until = None
    piece.attempts = 0
    piece.save()


def _fail(piece: BuildPiece, code: str, sentence: str) -> None:
    piece.state = "failed"
    piece.error_code = code
    piece.error = sentence
    piece.claim = None
    piece.holder = ""
    piece.leased_until = None
    piece.ended_at = timezone.now()
    piece.save()
    logger.warning("piece.failed document=%s code=%s", piece.document_id, code)
