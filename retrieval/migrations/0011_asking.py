"""Functions for what every question asks of the database.

A function's statements are planned once per session, and several of them are one round trip: for
statements as small as these both cost more than running them.
"""

from __future__ import annotations

from django.db import migrations

# Tables are looked up in the schema ``public`` alone, as triggers do: a temporary table of the
# same name is not taken for the real one.
_FORM = "LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp"

_NEW_QUESTIONS = """
CREATE FUNCTION retrieval_new_questions(asker uuid, this_hour timestamptz, this_day timestamptz)
RETURNS TABLE (of_hour bigint, of_day bigint) {form} STABLE AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT COALESCE(sum(n.count) FILTER (WHERE n.hour >= this_hour), 0)::bigint,
           COALESCE(sum(n.count), 0)::bigint
    FROM retrieval_newquestions AS n WHERE n.api_key_id = asker AND n.hour >= this_day;
END $$
"""

# One row: the question's, or nulls and how many new questions the asker has asked.
_FIND = """
CREATE FUNCTION retrieval_find_question(
    model bigint, digest text, asker uuid, this_hour timestamptz, this_day timestamptz
) RETURNS TABLE (
    id bigint, vector bytea, kept boolean, truncated boolean, provenance text,
    of_hour bigint, of_day bigint
) {form} STABLE AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT q.id, vector_send(q.vector), q.kept, q.truncated, q.provenance::text, 0::bigint, 0::bigint
    FROM retrieval_queryembedding AS q WHERE q.model_id = model AND q.query_digest = digest;
    IF NOT FOUND THEN
        RETURN QUERY
        SELECT NULL::bigint, NULL::bytea, NULL::boolean, NULL::boolean, NULL::text, n.of_hour, n.of_day
        FROM retrieval_new_questions(asker, this_hour, this_day) AS n;
    END IF;
END $$
"""

# One row: the new question's; nulls where there was one already, or where the asker has no room
# for another, and then how many of them there are.
_STORE = """
CREATE FUNCTION retrieval_store_question(
    model bigint, digest text, embedding vector, keep boolean, cut boolean, computed_by text,
    asker uuid, this_hour timestamptz, this_day timestamptz, most_of_hour bigint, most_of_day bigint
) RETURNS TABLE (
    id bigint, vector bytea, kept boolean, truncated boolean, provenance text,
    of_hour bigint, of_day bigint
) {form} AS $$
#variable_conflict use_column
DECLARE
    made retrieval_queryembedding;
    asked record;
BEGIN
    -- This transaction's commit is durable, whatever the session or the server says.
    PERFORM set_config('synchronous_commit', 'on', true);
    IF asker IS NOT NULL THEN
        -- The row locks out the same key's other new questions until this one is committed.
        PERFORM 1 FROM retrieval_newquestions AS n
        WHERE n.api_key_id = asker AND n.hour = this_hour FOR UPDATE;
        IF NOT FOUND THEN
            INSERT INTO retrieval_newquestions AS n (api_key_id, hour, count)
            VALUES (asker, this_hour, 0)
            ON CONFLICT (api_key_id, hour) DO UPDATE SET count = n.count;
        END IF;
        SELECT * INTO asked FROM retrieval_new_questions(asker, this_hour, this_day);
        IF asked.of_hour >= most_of_hour OR asked.of_day >= most_of_day THEN
            RETURN QUERY SELECT NULL::bigint, NULL::bytea, NULL::boolean, NULL::boolean, NULL::text,
                                asked.of_hour, asked.of_day;
            RETURN;
        END IF;
    END IF;
    INSERT INTO retrieval_queryembedding
        (model_id, query_digest, vector, kept, truncated, provenance, created_at)
    VALUES (model, digest, embedding, keep, cut, computed_by, now())
    ON CONFLICT (model_id, query_digest) DO NOTHING RETURNING * INTO made;
    IF made.id IS NOT NULL AND asker IS NOT NULL THEN
        UPDATE retrieval_newquestions AS n SET count = n.count + 1
        WHERE n.api_key_id = asker AND n.hour = this_hour;
    END IF;
    RETURN QUERY SELECT made.id, vector_send(made.vector), made.kept, made.truncated,
                        made.provenance::text, 0::bigint, 0::bigint;
END $$
"""

# A row for each passage that is there, in the order asked for, each with the purge epoch of the
# knowledge base; where none is there, one with the epoch alone.
_PASSAGES = """
CREATE FUNCTION retrieval_passages(
    base uuid, snapshot bigint, documents uuid[], ordinals integer[]
) RETURNS TABLE (
    epoch uuid, place bigint, digest text, name text, revision integer, metadata text,
    passage text, page integer, section text, truncated boolean
) {form} STABLE AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT b.purge_epoch, c.*
    FROM retrieval_knowledgebase AS b
    LEFT JOIN LATERAL (
        SELECT w.place, c.digest::text, m.name::text, m.revision_number, m.metadata::text,
               c.text::text, c.page, c.section::text, c.truncated
        FROM unnest(documents, ordinals) WITH ORDINALITY AS w (document_id, ordinal, place)
        JOIN retrieval_snapshotmember AS m
          ON m.snapshot_id = snapshot AND m.document_id = w.document_id
        JOIN retrieval_chunk AS c
          ON c.indexed_document_id = m.indexed_document_id AND c.ordinal = w.ordinal
         AND c.vector IS NOT NULL
    ) AS c ON true
    WHERE b.id = base
    ORDER BY c.place;
END $$
"""


class Migration(migrations.Migration):
    dependencies = [("retrieval", "0010_vectors_inline")]

    operations = [
        migrations.RunSQL(
            _NEW_QUESTIONS.format(form=_FORM),
            "DROP FUNCTION retrieval_new_questions(uuid, timestamptz, timestamptz)",
        ),
        migrations.RunSQL(
            _FIND.format(form=_FORM),
            "DROP FUNCTION retrieval_find_question(bigint, text, uuid, timestamptz, timestamptz)",
        ),
        migrations.RunSQL(
            _STORE.format(form=_FORM),
            "DROP FUNCTION retrieval_store_question(bigint, text, vector, boolean, boolean, text, "
            "uuid, timestamptz, timestamptz, bigint, bigint)",
        ),
        migrations.RunSQL(
            _PASSAGES.format(form=_FORM),
            "DROP FUNCTION retrieval_passages(uuid, bigint, uuid[], integer[])",
        ),
    ]
