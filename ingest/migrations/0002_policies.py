import django.db.models.deletion
from django.db import migrations, models


def into_policy(apps, schema_editor):
    rows = apps.get_model("ingest", "TableOnboarding").objects
    for seconds in rows.exclude(every_seconds=None).values_list("every_seconds", flat=True).distinct():
        rows.filter(every_seconds=seconds).update(policy={"schedule": {"every_seconds": seconds}})


def out_of_policy(apps, schema_editor):
    rows = apps.get_model("ingest", "TableOnboarding").objects
    for row in rows.exclude(policy={}).only("pk", "policy").iterator():
        schedule = row.policy.get("schedule")
        if isinstance(schedule, dict) and "every_seconds" in schedule:
            rows.filter(pk=row.pk).update(every_seconds=schedule["every_seconds"])


class Migration(migrations.Migration):

    dependencies = [
        ('catalog', '0002_access'),
        ('ingest', '0001_initial'),
    ]

    operations = [
        migrations.AddField(
            model_name='tableonboarding',
            name='policy',
            field=models.JSONField(blank=True, default=dict),
        ),
        migrations.RunPython(into_policy, out_of_policy),
        migrations.RemoveField(
            model_name='tableonboarding',
            name='every_seconds',
        ),
        migrations.CreateModel(
            name='Policy',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('given', models.JSONField(blank=True, default=dict)),
                ('updated_at', models.DateTimeField(auto_now=True)),
                ('database', models.OneToOneField(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='policy', to='catalog.database')),
                ('datasource', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='policies', to='catalog.datasource')),
            ],
            options={
                'verbose_name_plural': 'policies',
                'constraints': [models.UniqueConstraint(condition=models.Q(('database', None)), fields=('datasource',), name='one_policy_per_datasource')],
            },
        ),
    ]
