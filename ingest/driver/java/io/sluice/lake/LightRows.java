package io.sluice.lake;

import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.collection.JavaConverters;

/** Rows of a lake table in memory, of each key the last write. */
public final class LightRows {
  private static final long MOST_BYTES = 16L << 20;

  private final SparkSession session;
  private final StructType schema;
  private final int ordering;
  private final int[] key;
  private final Map<List<Object>, UnsafeRow> rows = new LinkedHashMap<>();
  private long bytes;

  /** ordering, key: see {@link RowPlan#of}. */
  LightRows(SparkSession session, StructType schema, String ordering, List<String> key) {
    this.session = session;
    this.schema = schema;
    this.ordering = schema.fieldIndex(ordering);
    this.key = key.stream().mapToInt(schema::fieldIndex).toArray();
  }

  /** Takes a copy of the row. */
  void add(UnsafeRow row, long base) {
    row.setLong(ordering, row.getLong(ordering) + base);
    List<Object> name = new ArrayList<>(key.length);
    for (int column : key) {
      name.add(value(row, column));
    }
    UnsafeRow before = rows.get(name);
    if (before == null || before.getLong(ordering) < row.getLong(ordering)) {
      rows.put(name, row.copy());
      bytes += row.getSizeInBytes() - (before == null ? 0 : before.getSizeInBytes());
    }
  }

  /** Whether they take more memory than a small commit may: Spark's write spills, this does not. */
  boolean isFull() {
    return bytes > MOST_BYTES;
  }

  /** Of one row, on average; 1 KiB at least. */
  long bytesOfRow() {
    return Math.max(1024, bytes / Math.max(1, rows.size()));
  }

  private Object value(UnsafeRow row, int column) {
    if (row.isNullAt(column)) {
      return null;
    }
    DataType type = schema.fields()[column].dataType();
    Object found = row.get(column, type);
    return found instanceof UTF8String text ? text.toString() : found;
  }

  SparkSession session() {
    return session;
  }

  StructType schema() {
    return schema;
  }

  Collection<UnsafeRow> rows() {
    return rows.values();
  }

  long orderingOf(InternalRow row) {
    return row.getLong(ordering);
  }

  public int count() {
    return rows.size();
  }

  /** The same rows for a write of Spark's. */
  public Dataset<Row> frame() {
    List<InternalRow> all = new ArrayList<>(rows.values());
    List<Attribute> columns =
        new ArrayList<>(JavaConverters.seqAsJavaList(DataTypeUtils.toAttributes(schema)));
    return Dataset.ofRows(
        session,
        new LocalRelation(
            JavaConverters.asScalaBuffer(columns).toSeq(),
            JavaConverters.asScalaBuffer(all).toSeq(),
            false));
  }
}
