"""Models of pipelines and of a driver's starts have the field's names; their tables keep
the former ones, so that nothing is rewritten and a former release still reads them."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('catalog', '0010_failed_checks'),
        ('ingest', '0012_source_signs'),
    ]

    operations = [
        migrations.AlterModelTable('tableonboarding', 'ingest_tableonboarding'),
        migrations.RenameModel('TableOnboarding', 'Pipeline'),
        migrations.AlterModelTable('onboardingevent', 'ingest_onboardingevent'),
        migrations.RenameModel('OnboardingEvent', 'PipelineEvent'),
        migrations.AlterModelTable('driverboot', 'ingest_driverboot'),
        migrations.RenameModel('DriverBoot', 'DriverIncarnation'),
        migrations.AlterField(
            model_name='pipeline',
            name='lake_table',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='pipelines', to='catalog.table'),
        ),
    ]
