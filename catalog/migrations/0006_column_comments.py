import django.contrib.postgres.indexes
import django.db.models.functions.text
from django.db import migrations, models

# Words of comments, of tables and of columns, beside what migration 0004 collects. A
# comment of a table changes rarely and its row often, so that only the change counts.
TERMS = """
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
INSERT INTO catalog_searchterm ("of", text)
SELECT 'comment', word FROM (
  SELECT DISTINCT regexp_split_to_table(lower(comment), '[^[:alpha:]]+') AS word
  FROM (SELECT comment FROM catalog_table WHERE comment <> ''
    UNION ALL SELECT comment FROM catalog_column WHERE comment <> '') all_of_them) found
WHERE length(word) BETWEEN 3 AND 40;
"""
NO_TERMS = """
DROP TRIGGER words_of_changed_columns ON catalog_column;
DROP TRIGGER words_of_new_columns ON catalog_column;
DROP TRIGGER words_of_changed_tables ON catalog_table;
DROP TRIGGER words_of_new_tables ON catalog_table;
DROP FUNCTION catalog_words_of_changed();
DROP FUNCTION catalog_words_of_written();
DROP FUNCTION catalog_words_of_comments(text[]);
DELETE FROM catalog_searchterm WHERE "of" = 'comment';
"""


class Migration(migrations.Migration):

    dependencies = [
        ('catalog', '0005_source_types_of_any_length'),
    ]

    operations = [
        migrations.AddIndex(
            model_name='column',
            index=django.contrib.postgres.indexes.GinIndex(django.contrib.postgres.indexes.OpClass(django.db.models.functions.text.Upper('comment'), name='gin_trgm_ops'), condition=models.Q(('comment', ''), _negated=True), name='column_comment_trigram'),
        ),
        migrations.RunSQL(TERMS, NO_TERMS),
    ]
