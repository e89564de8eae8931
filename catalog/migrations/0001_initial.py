import django.contrib.postgres.fields
import django.contrib.postgres.indexes
import django.contrib.postgres.operations
import django.db.models.deletion
import django.db.models.functions.text
from django.conf import settings
from django.db import migrations, models

# The words that a search without a hit is compared with. Triggers, because tables and
# columns are written in bulk from several places. They only insert what is not there
# yet and need no uniqueness: two writers never wait for each other over a word. A
# comment of a table changes rarely and its row often, so that only the change counts.
TERMS = """
CREATE FUNCTION catalog_terms_of_tables() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO catalog_searchterm ("of", text)
  SELECT 'word', word FROM (
    SELECT DISTINCT regexp_split_to_table(lower(name), '[^[:alpha:]]+') AS word
    FROM written) found
  WHERE length(word) BETWEEN 3 AND 40 AND NOT EXISTS (
    SELECT 1 FROM catalog_searchterm known
    WHERE known."of" = 'word' AND known.text = word);
  RETURN NULL;
END $$;
CREATE FUNCTION catalog_terms_of_columns() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO catalog_searchterm ("of", text)
  SELECT 'column', name FROM (SELECT DISTINCT name FROM written) found
  WHERE NOT EXISTS (
    SELECT 1 FROM catalog_searchterm known
    WHERE known."of" = 'column' AND known.text = found.name);
  RETURN NULL;
END $$;
CREATE TRIGGER terms_of_new_tables AFTER INSERT ON catalog_table
  REFERENCING NEW TABLE AS written
  FOR EACH STATEMENT EXECUTE FUNCTION catalog_terms_of_tables();
CREATE TRIGGER terms_of_new_columns AFTER INSERT ON catalog_column
  REFERENCING NEW TABLE AS written
  FOR EACH STATEMENT EXECUTE FUNCTION catalog_terms_of_columns();
CREATE TRIGGER terms_of_changed_columns AFTER UPDATE ON catalog_column
  REFERENCING NEW TABLE AS written
  FOR EACH STATEMENT EXECUTE FUNCTION catalog_terms_of_columns();
CREATE FUNCTION catalog_words_of_comments(comments text[]) RETURNS void
LANGUAGE sql AS $$
  INSERT INTO catalog_searchterm ("of", text)
  SELECT 'comment', word FROM (
    SELECT DISTINCT regexp_split_to_table(lower(one), '[^[:alpha:]]+') AS word
    FROM unnest(comments) one) found
  WHERE length(word) BETWEEN 3 AND 40 AND NOT EXISTS (
    SELECT 1 FROM catalog_searchterm known
    WHERE known."of" = 'comment' AND known.text = word)
$$;
CREATE FUNCTION catalog_words_of_written() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM catalog_words_of_comments(
    ARRAY(SELECT DISTINCT comment FROM written WHERE comment <> ''));
  RETURN NULL;
END $$;
CREATE FUNCTION catalog_words_of_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM catalog_words_of_comments(ARRAY[NEW.comment]);
  RETURN NULL;
END $$;
CREATE TRIGGER words_of_new_tables AFTER INSERT ON catalog_table
  REFERENCING NEW TABLE AS written
  FOR EACH STATEMENT EXECUTE FUNCTION catalog_words_of_written();
CREATE TRIGGER words_of_changed_tables AFTER UPDATE OF comment ON catalog_table
  FOR EACH ROW WHEN (OLD.comment <> NEW.comment AND NEW.comment <> '')
  EXECUTE FUNCTION catalog_words_of_changed();
CREATE TRIGGER words_of_new_columns AFTER INSERT ON catalog_column
  REFERENCING NEW TABLE AS written
  FOR EACH STATEMENT EXECUTE FUNCTION catalog_words_of_written();
CREATE TRIGGER words_of_changed_columns AFTER UPDATE OF comment ON catalog_column
  FOR EACH ROW WHEN (OLD.comment <> NEW.comment AND NEW.comment <> '')
  EXECUTE FUNCTION catalog_words_of_changed();
"""
NO_TERMS = """
DROP TRIGGER words_of_changed_columns ON catalog_column;
DROP TRIGGER words_of_new_columns ON catalog_column;
DROP TRIGGER words_of_changed_tables ON catalog_table;
DROP TRIGGER words_of_new_tables ON catalog_table;
DROP FUNCTION catalog_words_of_changed();
DROP FUNCTION catalog_words_of_written();
DROP FUNCTION catalog_words_of_comments(text[]);
DROP TRIGGER terms_of_changed_columns ON catalog_column;
DROP TRIGGER terms_of_new_columns ON catalog_column;
DROP TRIGGER terms_of_new_tables ON catalog_table;
DROP FUNCTION catalog_terms_of_columns();
DROP FUNCTION catalog_terms_of_tables();
"""


def add_lake(apps, schema_editor):
    """The lake is itself a datasource; its row is there from the start."""
    apps.get_model("catalog", "Datasource").objects.get_or_create(
        name="lake", defaults={"kind": "lake"}
    )


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('auth', '0012_alter_user_first_name_max_length'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        django.contrib.postgres.operations.TrigramExtension(),
        migrations.CreateModel(
            name='FormerUser',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=150, unique=True)),
                ('provider', models.CharField(blank=True, max_length=300)),
                ('subject', models.CharField(blank=True, max_length=300)),
                ('deleted_at', models.DateTimeField(auto_now_add=True)),
            ],
            options={
                'indexes': [models.Index(fields=['provider', 'subject'], name='former_identities')],
            },
        ),
        migrations.CreateModel(
            name='Invitation',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=150, unique=True)),
                ('key_id', models.CharField(max_length=20, unique=True)),
                ('digest', models.CharField(max_length=64)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('expires_at', models.DateTimeField(db_index=True)),
                ('groups', models.ManyToManyField(related_name='+', to='auth.group')),
                ('issued_by', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='invitations', to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.CreateModel(
            name='PolicyVersion',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('version', models.BigIntegerField(default=1)),
            ],
        ),
        migrations.CreateModel(
            name='Preferences',
            fields=[
                ('user', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='preferences', serialize=False, to=settings.AUTH_USER_MODEL)),
                ('language', models.CharField(blank=True, max_length=20)),
                ('timezone', models.CharField(blank=True, max_length=60)),
            ],
            options={
                'verbose_name_plural': 'preferences',
            },
        ),
        migrations.CreateModel(
            name='ApiToken',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=100)),
                ('key_id', models.CharField(max_length=20, unique=True)),
                ('digest', models.CharField(max_length=64)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('expires_at', models.DateTimeField(blank=True, null=True)),
                ('last_used_at', models.DateTimeField(blank=True, null=True)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='api_tokens', to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.CreateModel(
            name='AuditEntry',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField(auto_now_add=True)),
                ('actor', models.CharField(max_length=150)),
                ('action', models.CharField(max_length=60)),
                ('object', models.CharField(blank=True, max_length=600)),
                ('door', models.CharField(max_length=20)),
                ('is_allowed', models.BooleanField(default=True)),
                ('address', models.CharField(blank=True, max_length=64)),
                ('request_id', models.CharField(blank=True, max_length=64)),
                ('facts', models.JSONField(blank=True, default=dict)),
            ],
            options={
                'indexes': [models.Index(fields=['-at', 'id'], name='catalog_aud_at_8105cb_idx'), models.Index(fields=['actor', '-at'], name='catalog_aud_actor_136583_idx')],
            },
        ),
        migrations.CreateModel(
            name='Datasource',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=100, unique=True)),
                ('kind', models.CharField(max_length=30)),
                ('host', models.CharField(blank=True, max_length=255)),
                ('port', models.PositiveIntegerField(default=0)),
                ('database', models.CharField(blank=True, max_length=200)),
                ('username', models.CharField(blank=True, max_length=200)),
                ('secret', models.TextField(blank=True)),
                ('needs_password', models.BooleanField(default=False)),
                ('is_recorded', models.BooleanField(default=False)),
                ('tls', models.CharField(default='off', max_length=10)),
                ('options', models.JSONField(blank=True, default=dict)),
                ('owner', models.CharField(blank=True, default='', max_length=160)),
                ('tags', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=50), blank=True, default=list, size=None)),
                ('version', models.PositiveIntegerField(default=1)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('updated_at', models.DateTimeField(auto_now=True)),
                ('tested_at', models.DateTimeField(blank=True, null=True)),
                ('test_result', models.JSONField(blank=True, null=True)),
                ('discovered_at', models.DateTimeField(blank=True, null=True)),
                ('table_count', models.PositiveIntegerField(default=0)),
            ],
            options={
                'ordering': ['name'],
                'constraints': [models.UniqueConstraint(django.db.models.functions.text.Lower('name'), name='one_datasource_per_folded_name')],
            },
        ),
        migrations.CreateModel(
            name='Database',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=200)),
                ('discovered_at', models.DateTimeField(blank=True, null=True)),
                ('datasource', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='databases', to='catalog.datasource')),
            ],
            options={
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='DirectoryGroup',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('group', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='directory_group', to='auth.group')),
            ],
        ),
        migrations.CreateModel(
            name='ExternalIdentity',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('provider', models.CharField(max_length=300)),
                ('subject', models.CharField(max_length=300)),
                ('is_suspended', models.BooleanField(default=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('checked_at', models.DateTimeField()),
                ('failed_at', models.DateTimeField(blank=True, null=True)),
                ('password_mark', models.CharField(blank=True, default='', max_length=64)),
                ('user', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='external_identity', to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.CreateModel(
            name='Grant',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('principal_kind', models.CharField(max_length=10)),
                ('principal_name', models.CharField(max_length=150)),
                ('privilege', models.CharField(max_length=20)),
                ('datasource', models.CharField(max_length=100)),
                ('database', models.CharField(blank=True, max_length=200)),
                ('table', models.CharField(blank=True, max_length=300)),
                ('columns', models.JSONField(blank=True, default=list)),
                ('granted_by', models.CharField(blank=True, max_length=150)),
                ('granted_at', models.DateTimeField(auto_now_add=True)),
            ],
            options={
                'indexes': [models.Index(fields=['principal_kind', 'principal_name'], name='catalog_gra_princip_8a06e0_idx'), models.Index(fields=['datasource', 'database', 'table'], name='catalog_gra_datasou_0561aa_idx')],
                'constraints': [models.UniqueConstraint(models.F('principal_kind'), models.F('principal_name'), models.F('privilege'), models.F('datasource'), models.F('database'), models.F('table'), django.db.models.functions.text.MD5(django.db.models.functions.comparison.Cast('columns', models.TextField())), name='one_grant_of_a_kind')],
            },
        ),
        migrations.CreateModel(
            name='AccessRule',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('datasource', models.CharField(max_length=100)),
                ('database', models.CharField(max_length=200)),
                ('table', models.CharField(max_length=300)),
                ('column', models.CharField(blank=True, max_length=300)),
                ('applies_to', models.JSONField(default=list)),
                ('excepted', models.JSONField(blank=True, default=list)),
                ('mask', models.CharField(blank=True, max_length=20)),
                ('expression', models.TextField(blank=True)),
                ('created_by', models.CharField(blank=True, max_length=150)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('updated_at', models.DateTimeField(auto_now=True)),
            ],
            options={
                'indexes': [models.Index(fields=['datasource', 'database', 'table'], name='catalog_acc_datasou_f7b7aa_idx')],
            },
        ),
        migrations.CreateModel(
            name='IdempotencyKey',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.CharField(max_length=200)),
                ('digest', models.CharField(max_length=64)),
                ('status', models.PositiveIntegerField(blank=True, null=True)),
                ('body', models.JSONField(blank=True, null=True)),
                ('location', models.CharField(blank=True, max_length=300)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.CreateModel(
            name='LoginFailure',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('username', models.CharField(max_length=150)),
                ('address', models.CharField(max_length=64)),
                ('failures', models.PositiveIntegerField(default=0)),
                ('last_at', models.DateTimeField()),
            ],
            options={
                'indexes': [models.Index(fields=['last_at'], name='catalog_log_last_at_34c5b6_idx')],
                'constraints': [models.UniqueConstraint(fields=('username', 'address'), name='one_failure_count_per_door')],
            },
        ),
        migrations.CreateModel(
            name='SavedQuery',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=200)),
                ('sql', models.TextField()),
                ('is_shared', models.BooleanField(default=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('updated_at', models.DateTimeField(auto_now=True)),
                ('owner', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='queries', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'verbose_name_plural': 'saved queries',
                'ordering': ['name', 'id'],
            },
        ),
        migrations.CreateModel(
            name='SearchTerm',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('of', models.CharField(max_length=10)),
                ('text', models.TextField()),
            ],
            options={
                'indexes': [models.Index(fields=['of', 'text'], name='search_term'), django.contrib.postgres.indexes.GinIndex(django.contrib.postgres.indexes.OpClass('text', name='gin_trgm_ops'), name='search_term_trigram')],
            },
        ),
        migrations.CreateModel(
            name='Table',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=300)),
                ('source_name', models.CharField(max_length=600)),
                ('kind', models.CharField(default='source', max_length=10)),
                ('comment', models.TextField(blank=True)),
                ('record_key', models.JSONField(blank=True, default=list)),
                ('cursor', models.CharField(blank=True, max_length=300)),
                ('partition_by', models.JSONField(blank=True, default=list)),
                ('buckets', models.PositiveIntegerField(default=0)),
                ('path', models.CharField(blank=True, max_length=1000)),
                ('identity', models.JSONField(blank=True, default=dict)),
                ('schema_version', models.PositiveIntegerField(default=1)),
                ('schema_fingerprint', models.CharField(blank=True, max_length=64)),
                ('estimated_rows', models.BigIntegerField(default=0)),
                ('estimated_bytes', models.BigIntegerField(default=0)),
                ('status', models.CharField(default='DISCOVERED', max_length=20)),
                ('status_reason', models.TextField(blank=True)),
                ('is_queryable', models.BooleanField(default=False)),
                ('caught_up_at', models.DateTimeField(blank=True, null=True)),
                ('last_commit_instant', models.CharField(blank=True, max_length=30)),
                ('last_commit_position', models.JSONField(blank=True, null=True)),
                ('last_commit_epoch', models.BigIntegerField(blank=True, null=True)),
                ('last_commit_at', models.DateTimeField(blank=True, null=True)),
                ('owner', models.CharField(blank=True, db_default='', default='', max_length=160)),
                ('tags', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=50), blank=True, db_default=[], default=list, size=None)),
                ('seen_at', models.DateTimeField(blank=True, null=True)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('database', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='tables', to='catalog.database')),
            ],
            options={
                'ordering': ['name', 'id'],
            },
        ),
        migrations.CreateModel(
            name='SchemaVersion',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('version', models.PositiveIntegerField()),
                ('since', models.DateTimeField(auto_now_add=True)),
                ('columns', models.JSONField()),
                ('table', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='schema_versions', to='catalog.table')),
            ],
            options={
                'ordering': ['version'],
            },
        ),
        migrations.CreateModel(
            name='Column',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('position', models.PositiveIntegerField()),
                ('name', models.CharField(max_length=300)),
                ('source_name', models.CharField(max_length=300)),
                ('source_type', models.TextField()),
                ('type', models.CharField(blank=True, max_length=100)),
                ('nullable', models.BooleanField(default=True)),
                ('key', models.PositiveIntegerField(default=0)),
                ('comment', models.TextField(blank=True)),
                ('table', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='columns', to='catalog.table')),
            ],
            options={
                'ordering': ['position'],
            },
        ),
        migrations.AddConstraint(
            model_name='database',
            constraint=models.UniqueConstraint(fields=('datasource', 'name'), name='one_database_per_name'),
        ),
        migrations.AddIndex(
            model_name='externalidentity',
            index=models.Index(fields=['provider', 'checked_at'], name='catalog_ext_provide_8f1cdf_idx'),
        ),
        migrations.AddConstraint(
            model_name='externalidentity',
            constraint=models.UniqueConstraint(fields=('provider', 'subject'), name='one_user_per_entry'),
        ),
        migrations.AddConstraint(
            model_name='idempotencykey',
            constraint=models.UniqueConstraint(fields=('user', 'key'), name='one_reply_per_key'),
        ),
        migrations.AddIndex(
            model_name='auditentry',
            index=models.Index(condition=models.Q(('action__in', ('grant.create', 'grant.delete', 'rule.create', 'rule.update', 'rule.delete', 'policy.change'))), fields=['-at'], name='decisions'),
        ),
        migrations.AddIndex(
            model_name='savedquery',
            index=models.Index(condition=models.Q(('is_shared', True)), fields=['name', 'id'], name='shared_queries'),
        ),
        migrations.AddConstraint(
            model_name='savedquery',
            constraint=models.UniqueConstraint(fields=('owner', 'name'), name='one_saved_query_per_name'),
        ),
        migrations.AddIndex(
            model_name='table',
            index=models.Index(fields=['name', 'id'], name='catalog_tab_name_26f995_idx'),
        ),
        migrations.AddIndex(
            model_name='table',
            index=django.contrib.postgres.indexes.GinIndex(django.contrib.postgres.indexes.OpClass(django.db.models.functions.text.Upper('name'), name='gin_trgm_ops'), name='table_name_trigram'),
        ),
        migrations.AddIndex(
            model_name='table',
            index=models.Index(django.contrib.postgres.indexes.OpClass(django.db.models.functions.text.Upper('name'), name='text_pattern_ops'), name='table_name_prefix'),
        ),
        migrations.AddIndex(
            model_name='table',
            index=models.Index(models.F('database'), django.contrib.postgres.indexes.OpClass(models.F('name'), name='varchar_pattern_ops'), name='table_name_prefix_in_database'),
        ),
        migrations.AddIndex(
            model_name='table',
            index=django.contrib.postgres.indexes.GinIndex(django.contrib.postgres.indexes.OpClass(django.db.models.functions.text.Upper('comment'), name='gin_trgm_ops'), condition=models.Q(('comment', ''), _negated=True), name='table_comment_trigram'),
        ),
        migrations.AddIndex(
            model_name='table',
            index=models.Index(models.F('database'), django.contrib.postgres.indexes.OpClass(models.F('name'), name='varchar_pattern_ops'), condition=models.Q(('is_queryable', True), models.Q(('path', ''), _negated=True)), include=('id',), name='queryable_in_order'),
        ),
        migrations.AddIndex(
            model_name='table',
            index=models.Index(condition=models.Q(('kind', 'lake')), fields=['name', 'id'], name='lake_by_name'),
        ),
        migrations.AddIndex(
            model_name='table',
            index=models.Index(fields=['status', 'name', 'id'], name='table_by_status'),
        ),
        migrations.AddIndex(
            model_name='table',
            index=models.Index(condition=models.Q(('kind', 'lake')), fields=['caught_up_at', 'id'], name='lake_by_lag'),
        ),
        migrations.AddIndex(
            model_name='table',
            index=models.Index(models.OrderBy(models.F('last_commit_at'), descending=True, nulls_last=True), models.OrderBy(models.F('id'), descending=True), condition=models.Q(('kind', 'lake')), name='lake_by_commit'),
        ),
        migrations.AddIndex(
            model_name='table',
            index=django.contrib.postgres.indexes.GinIndex(condition=models.Q(('kind', 'lake')), fields=['tags'], name='lake_by_tag'),
        ),
        migrations.AddIndex(
            model_name='table',
            index=models.Index(condition=models.Q(('kind', 'lake')), fields=['owner', 'name'], name='lake_by_owner'),
        ),
        migrations.AddConstraint(
            model_name='table',
            constraint=models.UniqueConstraint(fields=('database', 'name'), name='one_table_per_name'),
        ),
        migrations.AddConstraint(
            model_name='schemaversion',
            constraint=models.UniqueConstraint(fields=('table', 'version'), name='one_schema_per_version'),
        ),
        migrations.AddIndex(
            model_name='column',
            index=models.Index(fields=['name', 'table'], name='column_by_name'),
        ),
        migrations.AddIndex(
            model_name='column',
            index=django.contrib.postgres.indexes.GinIndex(django.contrib.postgres.indexes.OpClass(django.db.models.functions.text.Upper('comment'), name='gin_trgm_ops'), condition=models.Q(('comment', ''), _negated=True), name='column_comment_trigram'),
        ),
        migrations.AddConstraint(
            model_name='column',
            constraint=models.UniqueConstraint(fields=('table', 'position'), name='one_column_per_position'),
        ),
        migrations.RunSQL(TERMS, NO_TERMS),
        migrations.RunPython(add_lake, migrations.RunPython.noop),
    ]
