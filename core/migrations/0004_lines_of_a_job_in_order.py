import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('core', '0003_a_tried_job_waits_beside'),
    ]

    operations = [
        migrations.AddIndex(
            model_name='joblog',
            index=models.Index(fields=['job', 'id'], name='lines_of_a_job'),
        ),
        migrations.AlterField(
            model_name='joblog',
            name='job',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='log_lines', to='core.job'),
        ),
    ]
