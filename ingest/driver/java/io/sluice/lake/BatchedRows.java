package io.sluice.lake;

import java.io.Closeable;
import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hudi.common.util.Option;
import org.apache.hudi.internal.schema.InternalSchema;
import org.apache.hudi.storage.StorageConfiguration;
import org.apache.parquet.schema.MessageType;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.datasources.SparkColumnarFileReader;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;
import scala.collection.Seq;

/**
 * Rows of a base file for merging, by a reader that decodes batches.
 *
 * <p>Merging copies each row that no log record changes, and gives it away before it takes the next
 * one: the copy, with an object for every value, is left out. A query that keeps base rows (of
 * changes, incremental) is never given this reader: Hudi takes no batches for it.
 */
final class BatchedRows implements SparkColumnarFileReader {
  private final SparkColumnarFileReader batches;

  BatchedRows(SparkColumnarFileReader batches) {
    this.batches = batches;
  }

  @Override
  public Iterator<InternalRow> read(
      PartitionedFile file,
      StructType columns,
      StructType partition,
      Option<InternalSchema> evolved,
      Seq<Filter> filters,
      StorageConfiguration<Configuration> storage,
      Option<MessageType> tableSchema) {
    return new Uncopied(
        batches.read(file, columns, partition, evolved, filters, storage, tableSchema));
  }

  private static final class Uncopied extends AbstractIterator<InternalRow> implements Closeable {
    private final Iterator<InternalRow> rows;
    private final InBatch row = new InBatch();

    private Uncopied(Iterator<InternalRow> rows) {
      this.rows = rows;
    }

    @Override
    public boolean hasNext() {
      return rows.hasNext();
    }

    @Override
    public InternalRow next() {
      return row.apply(rows.next(), InternalRow.empty());
    }

    @Override
    public void close() throws IOException {
      if (rows instanceof Closeable file) {
        file.close();
      }
    }
  }

  /** A row as it lies in its batch, until the next one is asked for. */
  private static final class InBatch extends JoinedRow {
    @Override
    public InternalRow copy() {
      return this;
    }

    /**
     * A batch answers for a NULL with what its memory holds; every other row answers null. Structs in
     * batches do so as well, but no table of ours has one.
     */
    @Override
    public Object get(int ordinal, DataType type) {
      return isNullAt(ordinal) ? null : super.get(ordinal, type);
    }
  }
}
