import core.context
import django.db.models.deletion
import django.db.models.functions.datetime
import uuid
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
    ]

    operations = [
        migrations.CreateModel(
            name='DomainEvent',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('topic', models.CharField(max_length=40)),
                ('subject', models.CharField(max_length=40)),
                ('subject_id', models.CharField(max_length=64)),
                ('data', models.JSONField()),
                ('attempts', models.PositiveSmallIntegerField(db_default=0)),
                ('not_before', models.DateTimeField(null=True)),
                ('given_up_at', models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name='Lease',
            fields=[
                ('name', models.CharField(max_length=120, primary_key=True, serialize=False)),
                ('owner', models.CharField(blank=True, max_length=120)),
                ('token', models.BigIntegerField(default=0)),
                ('expires_at', models.DateTimeField(blank=True, null=True)),
            ],
        ),
        migrations.CreateModel(
            name='Job',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('kind', models.CharField(max_length=40)),
                ('subject', models.CharField(blank=True, max_length=600)),
                ('subject_id', models.CharField(blank=True, max_length=64)),
                ('exclusive_key', models.CharField(blank=True, max_length=120)),
                ('lane', models.CharField(blank=True, max_length=20)),
                ('share_key', models.CharField(blank=True, default='', max_length=80)),
                ('weight', models.BigIntegerField(default=0)),
                ('state', models.CharField(default='PLANNED', max_length=20)),
                ('reason', models.TextField(blank=True)),
                ('payload', models.JSONField(blank=True, default=dict)),
                ('spec', models.JSONField(blank=True, null=True)),
                ('report', models.JSONField(blank=True, null=True)),
                ('handle', models.JSONField(blank=True, default=dict)),
                ('cursor', models.JSONField(blank=True, default=dict)),
                ('phase', models.CharField(blank=True, max_length=60)),
                ('done', models.BigIntegerField(default=0)),
                ('total', models.BigIntegerField(blank=True, null=True)),
                ('unit', models.CharField(blank=True, max_length=20)),
                ('error_code', models.CharField(blank=True, max_length=80)),
                ('error_message', models.TextField(blank=True)),
                ('error_hint', models.TextField(blank=True)),
                ('attempts', models.PositiveIntegerField(default=0)),
                ('max_attempts', models.PositiveIntegerField(default=3)),
                ('cancel_requested', models.CharField(blank=True, max_length=20)),
                ('requested_by', models.CharField(blank=True, max_length=150)),
                ('request_id', models.CharField(blank=True, default=core.context.current_request_id, max_length=64)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('queued_at', models.DateTimeField(blank=True, null=True)),
                ('not_before', models.DateTimeField(blank=True, null=True)),
                ('started_at', models.DateTimeField(blank=True, null=True)),
                ('progress_at', models.DateTimeField(blank=True, null=True)),
                ('moved_at', models.DateTimeField(blank=True, null=True)),
                ('finished_at', models.DateTimeField(blank=True, null=True)),
            ],
            options={
                'indexes': [models.Index(fields=['subject_id', '-created_at'], name='core_job_subject_fea4a2_idx'), models.Index(fields=['-created_at', 'id'], name='core_job_created_cd8dfe_idx'), models.Index(condition=models.Q(('state__in', ['CANCELLED', 'FAILED', 'SUCCEEDED']), _negated=True), fields=['kind', 'queued_at'], name='unfinished_jobs'), models.Index(fields=['kind', 'state', 'finished_at'], name='jobs_by_end'), models.Index(condition=models.Q(('state', 'SUCCEEDED'), models.Q(models.Q(('done', 0), ('kind', 'sync')), models.Q(('kind', 'compact'), ('requested_by__in', ('policy', 'schedule'))), _connector='OR'), _negated=True), fields=['-created_at', 'id'], name='loud_jobs')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('state__in', ['CANCELLING', 'LAUNCHING', 'RUNNING', 'UNKNOWN']), models.Q(('exclusive_key', ''), _negated=True)), fields=('exclusive_key',), name='one_active_job_per_key'), models.UniqueConstraint(condition=models.Q(('attempts', 0), ('state__in', ['PLANNED', 'QUEUED']), models.Q(('exclusive_key', ''), _negated=True)), fields=('exclusive_key', 'kind'), name='one_waiting_job_per_key_and_kind')],
            },
        ),
        migrations.CreateModel(
            name='JobEvent',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField(auto_now_add=True)),
                ('event', models.CharField(max_length=40)),
                ('before', models.CharField(max_length=20)),
                ('after', models.CharField(max_length=20)),
                ('actor', models.CharField(blank=True, max_length=150)),
                ('reason', models.TextField(blank=True)),
                ('job', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='events', to='core.job')),
            ],
            options={
                'ordering': ['id'],
                'abstract': False,
            },
        ),
        migrations.CreateModel(
            name='JobLog',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField(auto_now_add=True)),
                ('level', models.CharField(max_length=10)),
                ('message', models.TextField()),
                ('job', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='log_lines', to='core.job')),
            ],
            options={
                'ordering': ['id'],
                'indexes': [models.Index(fields=['job', 'id'], name='lines_of_a_job')],
            },
        ),
    ]
