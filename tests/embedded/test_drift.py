"""The database that the migrations make is the one that the models describe."""

import pgtrigger
import pytest
from django.core.management import call_command
from pgtrigger import installation

pytestmark = pytest.mark.django_db


def test_migrations__models_as_they_are__lack_none(capsys):
    call_command("makemigrations", check=True, dry_run=True)

    assert capsys.readouterr().out == "No changes detected\n"


def test_triggers__after_migrating__are_installed_enabled_and_no_others():
    drifted = {
        trigger.get_pgid(model): trigger.get_installation_status(model)
        for model, trigger in pgtrigger.registered()
        if trigger.get_installation_status(model) != ("INSTALLED", True)
    }

    assert pgtrigger.registered()
    assert drifted == {}
    assert installation.prunable() == []
