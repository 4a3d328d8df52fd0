"""The table of docs/architecture.md against the models and the triggers that are really there."""

from __future__ import annotations

import re

import pytest
from django.apps import apps

from tests.database.attacks import rows
from tests.folders import CHECKOUT

TEXT = (CHECKOUT / "docs" / "architecture.md").read_text(encoding="utf-8")
OPERATIONS = ("INSERT", "UPDATE", "DELETE", "TRUNCATE")
# pg_trigger.tgtype is a set of bits.
BITS = {"INSERT": 4, "DELETE": 8, "UPDATE": 16, "TRUNCATE": 32}


def matrix() -> dict[str, list[str]]:
    """Per table, the cells of the four operations and the door."""
    found = {}
    for line in TEXT.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if re.fullmatch(r"`[a-z]+_[a-z]+`", cells[0]) and len(cells) == 6:
            found[cells[0].strip("`")] = cells[1:]
    return found


def test_matrix__compared_with_the_models__has_every_table_and_no_other() -> None:
    ours = {
        model._meta.db_table
        for app in ("registry", "retrieval", "agents")
        for model in apps.get_app_config(app).get_models(include_auto_created=True)
    }
    assert set(matrix()) == ours


@pytest.mark.django_db
def test_matrix__compared_with_the_database__says_free_where_no_trigger_looks() -> None:
    guarded = {
        (table, operation)
        for table, bits in rows(
            "SELECT relname, tgtype::int FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid "
            "WHERE NOT tgisinternal AND tgenabled = 'O'"
        )
        for operation, bit in BITS.items()
        if bits & bit
    }
    described = {
        (table, operation)
        for table, cells in matrix().items()
        for operation, cell in zip(OPERATIONS, cells, strict=False)
        if cell != "free"
    }
    assert described == guarded


@pytest.mark.django_db
def test_triggers__in_the_database__are_those_that_no_setting_switches_off() -> None:
    functions = rows(
        "SELECT proname, prosrc, proconfig FROM pg_proc WHERE proname LIKE 'pgtrigger_%%'"
    )
    assert functions
    for name, source, settings in functions:
        assert "ignore" not in source.lower(), name
        assert settings == ["search_path=pg_catalog, public, pg_temp"], name


def test_architecture__naming_files__names_files_that_exist() -> None:
    named = re.findall(r"`((?:registry|retrieval|agents|tests)/[\w/]+\.py)`", TEXT)
    assert len(set(named)) > 30
    assert [path for path in named if not (CHECKOUT / path).is_file()] == []
    doors = {cells[4] for cells in matrix().values()}
    assert all(re.fullmatch(r"`(registry|retrieval|agents)/\w+\.py`", door) for door in doors)


def test_architecture__listing_the_invariants__names_one_defender_of_each() -> None:
    listed = re.findall(r"^\| (\d+) \| [^|]+ \| (`[\w/.]+`) \| (`[\w/.]+`) \|$", TEXT, re.MULTILINE)
    assert [int(number) for number, *_ in listed] == list(range(1, 15))
