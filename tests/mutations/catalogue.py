"""The rules, each broken in one place, and the tests that are asked."""

from __future__ import annotations

from dataclasses import dataclass

Edit = tuple[str, str, str]


@dataclass(frozen=True, kw_only=True)
class Mutation:
    """``edits`` are (file, text that stands there once, text instead); ``sql`` is run by the
    tables' owner after all migrations."""

    name: str
    invariant: int
    what: str
    tests: tuple[str, ...]
    edits: tuple[Edit, ...] = ()
    sql: str = ""


def without_trigger(table: str, name: str) -> str:
    """SQL that drops the trigger of a model by the name it has there."""
    return f"""
    DO $do$ DECLARE found text; BEGIN
        SELECT tgname INTO STRICT found FROM pg_trigger
        WHERE tgrelid = '{table}'::regclass AND tgname LIKE 'pgtrigger_{name}_%';
        EXECUTE format('DROP TRIGGER %I ON {table}', found);
    END $do$;
    """


def trigger_without(table: str, name: str, text: str) -> str:
    """SQL that takes ``text`` out of a trigger's function."""
    return f"""
    DO $do$ DECLARE body text; BEGIN
        SELECT pg_get_functiondef(tgfoid) INTO STRICT body FROM pg_trigger
        WHERE tgrelid = '{table}'::regclass AND tgname LIKE 'pgtrigger_{name}_%';
        IF position('{text}' IN body) = 0 THEN RAISE EXCEPTION 'no {text}'; END IF;
        EXECUTE replace(body, '{text}', '');
    END $do$;
    """


MUTATIONS = (
    Mutation(
        name="published_row_without_trigger",
        invariant=1,
        what="no trigger on a published version's row",
        sql=without_trigger("agents_agentversion", "immutable_once_published"),
        tests=("tests/database/test_published_versions.py",),
    ),
    Mutation(
        name="binding_without_trigger",
        invariant=1,
        what="no trigger on the bindings of a published version",
        sql=without_trigger("agents_knowledgebinding", "immutable_once_published"),
        tests=("tests/database/test_published_versions.py",),
    ),
    Mutation(
        name="binding_does_not_lock_its_version",
        invariant=1,
        what="a binding's trigger looks at its version without locking it",
        sql=trigger_without("agents_knowledgebinding", "immutable_once_published", "FOR SHARE"),
        tests=("tests/database/test_races_of_publishing.py",),
    ),
    Mutation(
        name="publish_without_lock",
        invariant=1,
        what="publish and edits do not lock the agent",
        edits=(
            (
                "agents/drafting.py",
                "return Agent.objects.select_for_update().get(pk=agent.pk)",
                "return Agent.objects.get(pk=agent.pk)",
            ),
        ),
        tests=("tests/database/test_races_of_publishing.py",),
    ),
    Mutation(
        name="version_without_pin",
        invariant=2,
        what="a version is published without pinning its snapshots",
        edits=(
            (
                "agents/publishing.py",
                "snapshots=[target.snapshot for target in targets.values()],",
                "snapshots=[],",
            ),
        ),
        tests=("tests/agents/test_publishing.py",),
    ),
    Mutation(
        name="settings_not_pinned",
        invariant=2,
        what="a published version searches by its knowledge base's settings of now",
        edits=(
            (
                "agents/versions.py",
                'settings=SearchSettings.from_json(said["settings"]),',
                "settings=search.settings_of(KnowledgeBase.objects.get(pk=base_id)),",
            ),
        ),
        tests=(
            "tests/agents/test_publishing.py",
            "tests/transfer/test_transfer.py::"
            "test_import__into_another_agent_of_the_same_installation__shares_everything",
        ),
    ),
    Mutation(
        name="bases_not_locked_at_publish",
        invariant=2,
        what="publish does not lock the knowledge bases it pins",
        edits=(
            (
                "retrieval/pins.py",
                "WHERE id = ANY(%s) ORDER BY id FOR SHARE",
                "WHERE id = ANY(%s) ORDER BY id",
            ),
        ),
        tests=("tests/database/test_races_of_publishing.py",),
    ),
    Mutation(
        name="receipt_without_applied",
        invariant=3,
        what="the receipt leaves out what was applied",
        edits=(
            (
                "retrieval/search.py",
                '        "applied": applied,\n        "results": [\n',
                '        "results": [\n',
            ),
        ),
        tests=("tests/golden", "tests/retrieval/test_digests.py"),
    ),
    Mutation(
        name="receipt_without_purged",
        invariant=3,
        what="the receipt does not say how many documents were purged",
        edits=(
            (
                "retrieval/search.py",
                '        document["purged"] = {"documents": purged_documents}',
                "        pass",
            ),
        ),
        tests=("tests/database/test_histories.py", "tests/database/test_purge_afterwards.py"),
    ),
    Mutation(
        name="score_not_rounded",
        invariant=4,
        what="scores are not rounded",
        edits=(("retrieval/scoring.py", "round(value, DECIMALS) + 0.0", "value + 0.0"),),
        tests=("tests/retrieval/test_scoring.py",),
    ),
    Mutation(
        name="rank_without_tie_break",
        invariant=4,
        what="equal scores are not ordered by the chunk's digest",
        edits=(
            (
                "retrieval/candidates.py",
                "    def rank_key(self) -> tuple[float, str, str, int]:\n"
                '        """The order of every answer: no two candidates share it."""\n'
                "        return (-self.score, self.chunk, str(self.document_id), self.ordinal)",
                "    def rank_key(self) -> tuple[float, str, str, int]:\n"
                '        return (-self.score, "", str(self.document_id), self.ordinal)',
            ),
        ),
        tests=("tests/retrieval/test_candidates.py", "tests/retrieval/test_search.py"),
    ),
    Mutation(
        name="floor_on_another_number",
        invariant=4,
        what="the floor filters on another number than the one returned",
        edits=(
            (
                "retrieval/search.py",
                "sum(candidate.confidence >= floor for candidate in ranked)",
                "sum(candidate.confidence + 5e-7 > floor + 1e-6 for candidate in ranked)",
            ),
        ),
        tests=("tests/retrieval/test_search.py",),
    ),
    Mutation(
        name="candidates_without_margin",
        invariant=4,
        what="candidates are cut off without the error bound",
        edits=(
            (
                "retrieval/candidates.py",
                "    margin = 2 * error_bound(len(query))",
                "    margin = -1e-4",
            ),
        ),
        tests=("tests/retrieval/test_candidates.py",),
    ),
    Mutation(
        name="question_vector_not_read_back",
        invariant=5,
        what="the question's vector is computed each time",
        edits=(
            (
                "retrieval/questions.py",
                "    found = _read(row)\n",
                "    found = QuestionVector(\n"
                "        vector=_encoder_of(model).encode_query(question.query)[::-1].copy(),\n"
                "        truncated=row.truncated,\n"
                "    )\n",
            ),
        ),
        tests=("tests/retrieval/test_search.py", "tests/database/test_histories.py"),
    ),
    Mutation(
        name="kept_questions_without_trigger",
        invariant=5,
        what="no trigger keeps the vectors of questions",
        sql=without_trigger("retrieval_queryembedding", "kept_while_pinned"),
        tests=("tests/database/test_every_column.py",),
    ),
    Mutation(
        name="fingerprint_without_weights",
        invariant=6,
        what="a model's fingerprint leaves out its weights",
        edits=(
            (
                "retrieval/encoders/bundled.py",
                '            "weights": self._graph.weights_digest,\n',
                "",
            ),
        ),
        tests=("tests/retrieval/test_encoders.py", "tests/retrieval/test_digests.py"),
    ),
    Mutation(
        name="sealed_with_pieces_waiting",
        invariant=7,
        what="a build is sealed while pieces wait",
        edits=(
            (
                "retrieval/indexing.py",
                'base.build_paused or snapshot.pieces.filter(state="waiting").exists()',
                "base.build_paused",
            ),
        ),
        tests=("tests/database/test_races_of_building.py",),
    ),
    Mutation(
        name="current_without_trigger",
        invariant=7,
        what="no trigger on which snapshot is current",
        sql=without_trigger("retrieval_knowledgebase", "current_moves_forward"),
        tests=("tests/database/test_sealed_snapshots.py",),
    ),
    Mutation(
        name="members_without_trigger",
        invariant=7,
        what="no trigger on the members of a sealed snapshot",
        sql=without_trigger("retrieval_snapshotmember", "only_while_building"),
        tests=("tests/database/test_sealed_snapshots.py",),
    ),
    Mutation(
        name="unchanged_not_noticed",
        invariant=7,
        what="a build equal to the current snapshot becomes another one",
        edits=(
            (
                "retrieval/indexing.py",
                "if current is not None and current.digest == digest and",
                "if current is not None and current.digest == 1 and",
            ),
        ),
        tests=("tests/retrieval/test_indexing.py",),
    ),
    Mutation(
        name="claim_not_proven",
        invariant=8,
        what="a worker that lost its claim writes all the same",
        edits=(
            (
                "retrieval/claims.py",
                "        if not held.update(leased_until=_lease_end(), chunks_done=chunks_done):\n"
                "            raise ClaimLost",
                "        held.update(leased_until=_lease_end(), chunks_done=chunks_done)",
            ),
        ),
        tests=("tests/database/test_races_of_building.py",),
    ),
    Mutation(
        name="not_of_unknown_is_true",
        invariant=10,
        what="not over an unknown is true",
        edits=(
            (
                "agents/expressions/evaluation.py",
                "return outcome if isinstance(outcome, Unknown) else not outcome",
                "return isinstance(outcome, Unknown) or not outcome",
            ),
        ),
        tests=("tests/agents/test_expressions_semantics.py",),
    ),
    Mutation(
        name="holders_not_asked",
        invariant=11,
        what="deleting a knowledge base does not ask who holds it",
        edits=(
            (
                "retrieval/knowledge_bases.py",
                "        holders = holders_of(base)\n",
                "        holders: list[str] = []\n",
            ),
        ),
        tests=("tests/database/test_races_of_publishing.py",),
    ),
)
