from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("ingest", "0009_verification_policy")]

    operations = [
        migrations.AddField(
            model_name="tableonboarding",
            name="drift",
            field=models.JSONField(blank=True, default=dict),
        )
    ]
