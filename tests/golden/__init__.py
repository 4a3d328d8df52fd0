"""Literal digests, receipts, rankings and decisions.

What stands here in full is what installations have stored and clients have seen. A literal
changes only together with the version of the recipe that it belongs to: ``schema`` of a digest or
manifest, ``RANKING_RECIPE``, ``SEMANTICS``. A test that fails without that is a broken promise,
not a literal to be updated. The digests of parts are in tests/retrieval/test_digests.py.
"""
