"""Keep in the trace of a resolution what it said of the context. Earlier traces have none."""

from __future__ import annotations

from django.db import migrations

import registry.fields


class Migration(migrations.Migration):
    dependencies = [("retrieval", "0011_asking")]

    operations = [
        migrations.AddField(
            model_name="trace",
            name="context_problems",
            field=registry.fields.ReceivedJSONField(
                help_text="What resolve said of the context; null where nothing was kept of it.",
                null=True,
            ),
        )
    ]
