"""Every rule, broken, is noticed by a test: the list is docs/mutations.md."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.folders import CHECKOUT
from tests.mutations.catalogue import MUTATIONS, Mutation
from tests.mutations.running import caught_by, copied_project

DOCUMENT = CHECKOUT / "docs" / "mutations.md"


@pytest.fixture(scope="module")
def project() -> Iterator[Path]:
    with copied_project() as folder:
        yield folder


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_rule__broken__turns_a_test_red(project: Path, mutation: Mutation) -> None:
    assert caught_by(project, mutation) is not None


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_mutation__listed__breaks_a_line_that_is_there(mutation: Mutation) -> None:
    for name, old, _ in mutation.edits:
        assert (CHECKOUT / name).read_text(encoding="utf-8").count(old) == 1, (name, old)
    for test in mutation.tests:
        assert (CHECKOUT / test.split("::")[0]).exists(), test
    assert f"| {mutation.invariant} | {mutation.what} |" in DOCUMENT.read_text(encoding="utf-8")
