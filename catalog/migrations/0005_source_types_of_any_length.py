from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("catalog", "0004_big_catalogs")]

    operations = [
        migrations.AlterField(
            model_name="column", name="source_type", field=models.TextField()
        ),
    ]
