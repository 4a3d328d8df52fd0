"""What people do about a build: pause, resume, cancel, ask for one, try failed documents again."""

from __future__ import annotations

from django.db import transaction

from registry import audit
from registry.actors import Actor
from registry.errors import Conflict
from retrieval.document_states import document_states
from retrieval.documents import find_document
from retrieval.extractor import ask_to_read_anew
from retrieval.indexing import end_build, find_snapshot, hint_build, request_build
from retrieval.knowledge_bases import lock
from retrieval.models import Document, Extraction, IndexSnapshot, KnowledgeBase


def pause_build(*, actor: Actor, base: KnowledgeBase) -> None:
    """Pause the build that is due or running: no further document is begun, nothing is sealed.

    What workers hold is finished and kept. Changes are still accepted and wait. Pausing twice is
    pausing once. Raises NotFound, and Conflict (``build.none``) where there is nothing to pause.
    """
    with transaction.atomic():
        locked = lock(base.pk)
        if locked.content_revision == locked.settled_revision:
            raise Conflict(f"{locked.name} has no build that is due or running.", code="build.none")
        _set_paused(actor, locked, paused=True)


def resume_build(*, actor: Actor, base: KnowledgeBase) -> None:
    """Let a paused build go on where it stopped; of one that is not paused, nothing changes.

    Raises NotFound.
    """
    with transaction.atomic():
        locked = lock(base.pk)
        _set_paused(actor, locked, paused=False)
        hint_build(locked.pk)


def _set_paused(actor: Actor, base: KnowledgeBase, *, paused: bool) -> None:
    if base.build_paused == paused:
        return
    base.build_paused = paused
    base.save(update_fields=["build_paused"])
    audit.record(
        actor=actor,
        action="build.paused" if paused else "build.resumed",
        object_type="knowledge_base",
        object_id=base.pk,
        before={"paused": not paused},
        after={"paused": paused},
    )


def cancel_build(*, actor: Actor, base: KnowledgeBase, number: int) -> IndexSnapshot:
    """Cancel a running build; what is served stays as it is.

    Changes that came after it began are built next, unless it was paused: then they wait.
    Raises NotFound for an unknown number and Conflict (``snapshot.not_building``) for one that
    has ended.
    """
    with transaction.atomic():
        lock(base.pk)
        snapshot = find_snapshot(base, number)
        if snapshot.state != "building":
            raise Conflict(
                f"Snapshot {number} is {snapshot.state}; only a building one can be cancelled.",
                code="snapshot.not_building",
                state=snapshot.state,
            )
        end_build(snapshot, state="cancelled", detail=f"Cancelled by {actor.label}.")
        audit.record(
            actor=actor,
            action="snapshot.cancelled",
            object_type="knowledge_base",
            object_id=base.pk,
            after={"snapshot": number},
        )
        hint_build(base.pk)
    return snapshot


def reindex(*, actor: Actor, base: KnowledgeBase, reextract: bool = False) -> None:
    """Ask for a build now, trying again every document that failed.

    With ``reextract`` the installed extractor also reads what another one has read; where it
    cannot, the earlier reading stays. Raises NotFound.
    """
    with transaction.atomic():
        locked = lock(base.pk)
        retried = _to_be_read_again(revision__document__knowledge_base=locked)
        reextracted = ask_to_read_anew(locked) if reextract else 0
        audit.record(
            actor=actor,
            action="knowledge_base.reindexed",
            object_type="knowledge_base",
            object_id=base.pk,
            after={"retried": retried, "reextracted": reextracted},
        )
        request_build(locked)


def retry_document(*, actor: Actor, base: KnowledgeBase, document: Document) -> None:
    """Try one failed document again, in a build that follows.

    Raises NotFound, and Conflict (``document.not_failed``) where its newest revision did not
    fail.
    """
    with transaction.atomic():
        locked = lock(base.pk)
        document = find_document(locked, document.pk)
        status = document_states([document])[document.pk].status
        if status != "failed":
            raise Conflict(
                f"{document.name} is {status}; only what failed is tried again.",
                code="document.not_failed",
                state=status,
            )
        newest = document.revisions.order_by("-number")[:1].get()
        _to_be_read_again(revision=newest)
        audit.record(
            actor=actor,
            action="document.retried",
            object_type="document",
            object_id=document.pk,
            after={"knowledgeBase": str(locked.pk), "name": document.name},
        )
        request_build(locked)


def _to_be_read_again(**which: object) -> int:
    failed = Extraction.objects.filter(**which, status="failed")
    return failed.update(status="pending", error="", error_code="")
