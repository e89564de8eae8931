import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.text
import uuid
from django.db import migrations, models


# Whoever changes what the lake's record of a table says takes `is_recorded` off, without
# having to think of it. Going to and fro between LIVE and CATCHING_UP is not recorded.
UNRECORDED = """
CREATE FUNCTION ingest_pipeline_unrecorded() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.is_recorded := false;
  RETURN NEW;
END $$;
CREATE TRIGGER unrecorded_pipeline
  BEFORE UPDATE OF capture, plan, policy, drift, load_name, bound, lake_table_id, state,
    resume_event ON ingest_pipeline
  FOR EACH ROW WHEN (
    (OLD.capture, OLD.plan, OLD.policy, OLD.drift, OLD.load_name, OLD.bound,
      OLD.lake_table_id, OLD.resume_event) IS DISTINCT FROM (NEW.capture, NEW.plan,
      NEW.policy, NEW.drift, NEW.load_name, NEW.bound, NEW.lake_table_id,
      NEW.resume_event)
    OR OLD.state <> NEW.state AND NOT (OLD.state IN ('LIVE', 'CATCHING_UP')
      AND NEW.state IN ('LIVE', 'CATCHING_UP')))
  EXECUTE FUNCTION ingest_pipeline_unrecorded();
"""
NO_UNRECORDED = """
DROP TRIGGER unrecorded_pipeline ON ingest_pipeline;
DROP FUNCTION ingest_pipeline_unrecorded();
"""


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('catalog', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='DriverIncarnation',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('pid', models.PositiveIntegerField(blank=True, null=True)),
                ('started_at', models.DateTimeField(auto_now_add=True)),
                ('ready_at', models.DateTimeField(blank=True, null=True)),
                ('heartbeat_at', models.DateTimeField(blank=True, null=True)),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
                ('facts', models.JSONField(blank=True, default=dict)),
            ],
        ),
        migrations.CreateModel(
            name='Presence',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('seen_at', models.DateTimeField()),
                ('away_since', models.DateTimeField(blank=True, null=True)),
                ('back_at', models.DateTimeField(blank=True, null=True)),
            ],
            options={
                'verbose_name_plural': 'presence',
            },
        ),
        migrations.CreateModel(
            name='Alert',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('database', models.CharField(max_length=200)),
                ('name', models.CharField(max_length=300)),
                ('kind', models.CharField(max_length=30)),
                ('cause', models.TextField(blank=True)),
                ('sources', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=40), blank=True, default=list, size=None)),
                ('code', models.CharField(blank=True, max_length=80)),
                ('message', models.TextField()),
                ('hint', models.TextField(blank=True)),
                ('repair', models.CharField(blank=True, max_length=40)),
                ('instant', models.CharField(blank=True, max_length=30)),
                ('job', models.UUIDField(blank=True, null=True)),
                ('count', models.PositiveIntegerField(default=1)),
                ('first_seen_at', models.DateTimeField()),
                ('last_seen_at', models.DateTimeField()),
                ('closed_at', models.DateTimeField(blank=True, null=True)),
                ('closed_because', models.CharField(blank=True, max_length=20)),
                ('closed_reason', models.TextField(blank=True)),
                ('acknowledged_at', models.DateTimeField(blank=True, null=True)),
                ('acknowledged_by', models.CharField(blank=True, db_default='', default='', max_length=150)),
                ('is_announced', models.BooleanField(default=False)),
                ('is_end_announced', models.BooleanField(default=False)),
                ('datasource', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='alerts', to='catalog.datasource')),
                ('table', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='alerts', to='catalog.table')),
            ],
            options={
                'ordering': ['-id'],
            },
        ),
        migrations.CreateModel(
            name='AlertMute',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('datasource', models.CharField(max_length=100)),
                ('database', models.CharField(blank=True, max_length=200)),
                ('table', models.CharField(blank=True, max_length=300)),
                ('kind', models.CharField(blank=True, max_length=30)),
                ('until', models.DateTimeField()),
                ('created_by', models.CharField(max_length=150)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
            ],
            options={
                'ordering': ['until', 'id'],
                'constraints': [models.UniqueConstraint(fields=('datasource', 'database', 'table', 'kind'), name='one_mute_per_thing_and_kind')],
            },
        ),
        migrations.CreateModel(
            name='AlertTarget',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=100)),
                ('kind', models.CharField(max_length=10)),
                ('address', models.CharField(max_length=1000)),
                ('secret', models.TextField(blank=True)),
                ('kinds', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=30), blank=True, default=list, size=None)),
                ('database', models.CharField(blank=True, max_length=200)),
                ('table', models.CharField(blank=True, max_length=300)),
                ('created_by', models.CharField(blank=True, max_length=150)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('failures', models.PositiveIntegerField(default=0)),
                ('failing_since', models.DateTimeField(blank=True, null=True)),
                ('retry_at', models.DateTimeField(blank=True, null=True)),
                ('sending_until', models.DateTimeField(blank=True, null=True)),
                ('paused_at', models.DateTimeField(blank=True, null=True)),
                ('paused_reason', models.TextField(blank=True)),
                ('language', models.CharField(blank=True, default='', max_length=20)),
            ],
            options={
                'ordering': ['name'],
                'constraints': [models.UniqueConstraint(django.db.models.functions.text.Lower('name'), name='one_alert_target_per_folded_name')],
            },
        ),
        migrations.CreateModel(
            name='AlertDelivery',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ('event', models.CharField(max_length=20)),
                ('body', models.JSONField()),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('attempts', models.PositiveIntegerField(default=0)),
                ('next_try_at', models.DateTimeField(blank=True, null=True)),
                ('last_at', models.DateTimeField(blank=True, null=True)),
                ('last_code', models.IntegerField(blank=True, null=True)),
                ('last_error', models.TextField(blank=True)),
                ('delivered_at', models.DateTimeField(blank=True, null=True)),
                ('gave_up_at', models.DateTimeField(blank=True, null=True)),
                ('alert', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='deliveries', to='ingest.alert')),
                ('target', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='deliveries', to='ingest.alerttarget')),
            ],
            options={
                'verbose_name_plural': 'alert deliveries',
                'ordering': ['-id'],
            },
        ),
        migrations.CreateModel(
            name='MaintenancePlan',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('instant', models.CharField(max_length=30)),
                ('state', models.CharField(default='SCHEDULED', max_length=20)),
                ('status_reason', models.TextField(blank=True)),
                ('failures', models.PositiveIntegerField(default=0)),
                ('due_at', models.DateTimeField(blank=True, null=True)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('table', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='maintenance_plans', to='catalog.table')),
            ],
        ),
        migrations.CreateModel(
            name='Onboarding',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('request', models.JSONField()),
                ('requested_by', models.CharField(max_length=150)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('approved_at', models.DateTimeField(blank=True, null=True)),
                ('approved_by', models.CharField(blank=True, max_length=150)),
                ('looked_at', models.DateTimeField(blank=True, null=True)),
                ('datasource', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='onboardings', to='catalog.datasource')),
            ],
            options={
                'ordering': ['-created_at'],
            },
        ),
        migrations.CreateModel(
            name='Pipeline',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('capture', models.CharField(max_length=20)),
                ('policy', models.JSONField(blank=True, default=dict)),
                ('plan', models.JSONField(default=dict)),
                ('drift', models.JSONField(blank=True, default=dict)),
                ('replaced', models.JSONField(blank=True, default=dict)),
                ('state', models.CharField(default='DRAFT', max_length=20)),
                ('status_reason', models.TextField(blank=True)),
                ('resume_event', models.CharField(blank=True, max_length=30)),
                ('load_name', models.CharField(blank=True, default='', max_length=40)),
                ('consistency', models.CharField(blank=True, max_length=20)),
                ('bound', models.TextField(blank=True)),
                ('position', models.TextField(blank=True)),
                ('waiting', models.PositiveIntegerField(default=0)),
                ('waiting_since', models.DateTimeField(blank=True, null=True)),
                ('changes_per_second', models.FloatField(default=0.0)),
                ('rows_applied', models.BigIntegerField(default=0)),
                ('lossy', models.JSONField(blank=True, default=dict)),
                ('source_fingerprint', models.JSONField(blank=True, default=dict)),
                ('due_at', models.DateTimeField(blank=True, null=True)),
                ('due_since', models.DateTimeField(blank=True, null=True)),
                ('late_at', models.DateTimeField(blank=True, null=True)),
                ('verify_at', models.DateTimeField(blank=True, null=True)),
                ('verified_at', models.DateTimeField(blank=True, null=True)),
                ('verdict', models.CharField(blank=True, max_length=20)),
                ('verified_job', models.UUIDField(blank=True, null=True)),
                ('failures', models.PositiveIntegerField(default=0)),
                ('drop_data', models.BooleanField(default=False)),
                ('alone_reason', models.TextField(blank=True, default='')),
                ('is_recorded', models.BooleanField(default=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('updated_at', models.DateTimeField(auto_now=True)),
                ('lake_table', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='pipelines', to='catalog.table')),
                ('onboarding', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='tables', to='ingest.onboarding')),
                ('source_table', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='outgoing_pipelines', to='catalog.table')),
            ],
        ),
        migrations.CreateModel(
            name='PipelineEvent',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField(auto_now_add=True)),
                ('event', models.CharField(max_length=40)),
                ('before', models.CharField(max_length=20)),
                ('after', models.CharField(max_length=20)),
                ('actor', models.CharField(blank=True, max_length=150)),
                ('reason', models.TextField(blank=True)),
                ('pipeline', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='events', to='ingest.pipeline')),
            ],
            options={
                'ordering': ['id'],
            },
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
            },
        ),
        migrations.CreateModel(
            name='Rollup',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('seconds', models.PositiveIntegerField()),
                ('at', models.DateTimeField()),
                ('rows', models.BigIntegerField(default=0)),
                ('applied', models.BigIntegerField(default=0)),
                ('succeeded', models.PositiveIntegerField(default=0)),
                ('failed', models.PositiveIntegerField(default=0)),
                ('tables', models.PositiveIntegerField(default=0)),
                ('late', models.PositiveIntegerField(default=0)),
                ('lag_max', models.FloatField(blank=True, null=True)),
                ('lag_p95', models.FloatField(blank=True, null=True)),
                ('bytes', models.BigIntegerField(default=0)),
                ('database', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='catalog.database')),
                ('datasource', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='catalog.datasource')),
            ],
        ),
        migrations.CreateModel(
            name='SourceFollower',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('desired', models.CharField(default='RUNNING', max_length=20)),
                ('desired_at', models.DateTimeField(auto_now_add=True)),
                ('begin_anew', models.BooleanField(default=False)),
                ('observed', models.CharField(default='stopped', max_length=20)),
                ('observed_at', models.DateTimeField(auto_now_add=True)),
                ('reason', models.TextField(blank=True)),
                ('code', models.CharField(blank=True, max_length=80)),
                ('hint', models.TextField(blank=True)),
                ('host', models.CharField(blank=True, max_length=200)),
                ('pid', models.PositiveIntegerField(blank=True, null=True)),
                ('heartbeat_at', models.DateTimeField(blank=True, null=True)),
                ('written_at', models.DateTimeField(auto_now_add=True)),
                ('position', models.TextField(blank=True)),
                ('number', models.BigIntegerField(default=0)),
                ('first', models.BigIntegerField(default=0)),
                ('committed_at', models.DateTimeField(blank=True, null=True)),
                ('rows', models.BigIntegerField(default=0)),
                ('rows_per_second', models.FloatField(default=0.0)),
                ('waiting_bytes', models.BigIntegerField(default=0)),
                ('log_kept', models.BigIntegerField(default=0)),
                ('log_safe', models.BigIntegerField(blank=True, null=True)),
                ('log_behind', models.BigIntegerField(default=0)),
                ('log_status', models.CharField(blank=True, max_length=40)),
                ('datasource', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='follower', to='catalog.datasource')),
            ],
            options={
                'ordering': ['datasource'],
            },
        ),
        migrations.CreateModel(
            name='TableHealth',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('score', models.PositiveSmallIntegerField(blank=True, null=True)),
                ('facts', models.JSONField(blank=True, default=dict)),
                ('issues', models.JSONField(blank=True, default=list)),
                ('plan', models.JSONField(blank=True, default=list)),
                ('base_bytes', models.BigIntegerField(default=0)),
                ('log_bytes', models.BigIntegerField(default=0)),
                ('old_bytes', models.BigIntegerField(default=0)),
                ('pending', models.PositiveIntegerField(default=0)),
                ('stuck', models.PositiveIntegerField(default=0)),
                ('trend', models.JSONField(blank=True, default=list)),
                ('problem', models.TextField(blank=True)),
                ('collected_at', models.DateTimeField(blank=True, null=True)),
                ('due_at', models.DateTimeField(blank=True, null=True)),
                ('table', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='health', to='catalog.table')),
            ],
            options={
                'verbose_name_plural': 'table healths',
            },
        ),
        migrations.AddIndex(
            model_name='alert',
            index=models.Index(condition=models.Q(('closed_at', None)), fields=['-id'], name='open_alerts'),
        ),
        migrations.AddIndex(
            model_name='alert',
            index=models.Index(condition=models.Q(('is_announced', False), models.Q(('closed_at__isnull', False), ('is_end_announced', False)), _connector='OR'), fields=['id'], name='unannounced_alerts'),
        ),
        migrations.AddConstraint(
            model_name='alert',
            constraint=models.UniqueConstraint(condition=models.Q(('closed_at', None)), fields=('table', 'kind'), name='one_open_alert_per_table_and_kind'),
        ),
        migrations.AddConstraint(
            model_name='alert',
            constraint=models.UniqueConstraint(condition=models.Q(('closed_at', None)), fields=('datasource', 'kind'), name='one_open_alert_per_source_and_kind'),
        ),
        migrations.AddIndex(
            model_name='alertdelivery',
            index=models.Index(condition=models.Q(('next_try_at__isnull', False)), fields=['target', 'id'], name='deliveries_to_send'),
        ),
        migrations.AddIndex(
            model_name='alertdelivery',
            index=models.Index(fields=['target', '-id'], name='deliveries_of_a_target'),
        ),
        migrations.AddConstraint(
            model_name='alertdelivery',
            constraint=models.UniqueConstraint(fields=('alert', 'target', 'event'), name='one_delivery_per_event'),
        ),
        migrations.AddIndex(
            model_name='pipelineevent',
            index=models.Index(condition=models.Q(('event__in', ('approve', 'pause', 'fail', 'lose_position', 'resume_approved', 'resume_snapshot', 'resume_catch_up', 'resume_resync', 'resume_needs_resync', 'remove', 'retire', 'keep'))), fields=['-id'], name='decided_moves'),
        ),
        migrations.AddIndex(
            model_name='maintenanceplan',
            index=models.Index(fields=['created_at'], name='plans_by_age'),
        ),
        migrations.AddIndex(
            model_name='maintenanceplan',
            index=models.Index(condition=models.Q(('state', 'SCHEDULED')), fields=['instant'], name='plans_scheduled'),
        ),
        migrations.AddIndex(
            model_name='maintenanceplan',
            index=models.Index(condition=models.Q(('state', 'FAILED')), fields=['due_at'], name='plans_to_repeat'),
        ),
        migrations.AddConstraint(
            model_name='maintenanceplan',
            constraint=models.UniqueConstraint(fields=('table', 'instant'), name='one_plan_per_instant'),
        ),
        migrations.AddIndex(
            model_name='pipeline',
            index=models.Index(condition=models.Q(('due_at__isnull', False)), fields=['due_at'], name='due_pipelines'),
        ),
        migrations.AddIndex(
            model_name='pipeline',
            index=models.Index(fields=['state', 'id'], name='ingest_pipe_state_6c8fbb_idx'),
        ),
        migrations.AddIndex(
            model_name='pipeline',
            index=models.Index(condition=models.Q(('late_at__isnull', False)), fields=['late_at'], name='late_pipelines'),
        ),
        migrations.AddIndex(
            model_name='pipeline',
            index=models.Index(condition=models.Q(('verify_at__isnull', False)), fields=['verify_at'], name='due_verifications'),
        ),
        migrations.AddIndex(
            model_name='pipeline',
            index=models.Index(condition=models.Q(('verified_job__isnull', False)), fields=['verified_job'], name='newest_verifications'),
        ),
        migrations.AddIndex(
            model_name='pipeline',
            index=models.Index(condition=models.Q(('is_recorded', False), ('lake_table__isnull', False)), fields=['id'], name='unrecorded_pipelines'),
        ),
        migrations.AddConstraint(
            model_name='pipeline',
            constraint=models.UniqueConstraint(condition=models.Q(('state', 'RETIRED'), _negated=True), fields=('source_table',), name='one_live_pipeline_per_table'),
        ),
        migrations.AddConstraint(
            model_name='policy',
            constraint=models.UniqueConstraint(condition=models.Q(('database', None)), fields=('datasource',), name='one_policy_per_datasource'),
        ),
        migrations.AddConstraint(
            model_name='rollup',
            constraint=models.UniqueConstraint(fields=('seconds', 'at', 'datasource', 'database'), name='one_rollup_per_slot'),
        ),
        migrations.AddIndex(
            model_name='tablehealth',
            index=models.Index(fields=['score', 'table'], name='worst_health_first'),
        ),
        migrations.AddIndex(
            model_name='tablehealth',
            index=models.Index(condition=models.Q(('due_at__isnull', False)), fields=['due_at'], name='due_health_looks'),
        ),
        migrations.AddIndex(
            model_name='tablehealth',
            index=models.Index(condition=models.Q(('problem', ''), _negated=True), fields=['table'], name='failed_health_looks'),
        ),
        migrations.CreateModel(
            name='Shard',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('pipeline', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='shards', to='ingest.pipeline')),
                ('source_table', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='shards', to='catalog.table')),
            ],
            options={
                'ordering': ['id'],
                'constraints': [models.UniqueConstraint(fields=('pipeline', 'source_table'), name='one_shard_per_table')],
            },
        ),
        migrations.RunSQL(UNRECORDED, NO_UNRECORDED),
    ]
