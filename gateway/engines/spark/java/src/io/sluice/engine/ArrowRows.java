package io.sluice.engine;

import com.github.luben.zstd.Zstd;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.channels.Channels;
import java.util.function.Function;
import org.apache.arrow.vector.ipc.ArrowStreamWriter;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.StructsToJson;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.util.IntervalStringStyles;
import org.apache.spark.sql.catalyst.util.IntervalUtils;
import org.apache.spark.sql.execution.arrow.ArrowWriter;
import org.apache.spark.sql.hive.thriftserver.FetchIterator;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.CalendarIntervalType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DayTimeIntervalType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.YearMonthIntervalType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Some;
import scala.collection.AbstractIterator;
import scala.collection.immutable.Map;

/**
 * A result in pages: each row is a number of rows, and these as a stream of Arrow's, compressed
 * with zstd. Arrays, maps and structs are JSON, intervals as Hive writes them; columns have no
 * names of the statement, which may have one twice.
 */
final class ArrowRows extends AbstractIterator<Row> implements FetchIterator<Row> {
  static final DataType[] TYPES = {DataTypes.IntegerType, DataTypes.BinaryType};
  static final int PAGE_ROWS = 500;
  static final long PAGE_BYTES = 1L << 20;
  private static final String UTC = "UTC";
  private static final Map<String, String> WITH_NULLS =
      new Map.Map1<>("ignoreNullFields", "false");
  private static final int FASTEST = 1;
  private final SpooledRows rows;
  private final StructType shown;
  private final StructType types;
  private final Function<InternalRow, Object>[] texts; // null where a value stays as it is
  private boolean hasTexts;

  @SuppressWarnings("unchecked")
  ArrowRows(SpooledRows rows, StructType types) {
    this.rows = rows;
    this.types = types;
    this.texts = new Function[types.length()];
    StructType made = new StructType();
    for (int at = 0; at < texts.length; at++) {
      DataType type = types.apply(at).dataType();
      texts[at] = textOf(at, type);
      hasTexts |= texts[at] != null;
      made = made.add("c" + at, texts[at] == null ? type : DataTypes.StringType, true);
    }
    this.shown = made;
  }

  private static Function<InternalRow, Object> textOf(int at, DataType type) {
    if (type instanceof ArrayType || type instanceof MapType || type instanceof StructType) {
      return new StructsToJson(WITH_NULLS, new BoundReference(at, type, true), new Some<>(UTC))::eval;
    } else if (type instanceof YearMonthIntervalType interval) {
      return row ->
          UTF8String.fromString(
              IntervalUtils.toYearMonthIntervalString(
                  row.getInt(at),
                  IntervalStringStyles.HIVE_STYLE(),
                  interval.startField(),
                  interval.endField()));
    } else if (type instanceof DayTimeIntervalType interval) {
      return row ->
          UTF8String.fromString(
              IntervalUtils.toDayTimeIntervalString(
                  row.getLong(at),
                  IntervalStringStyles.HIVE_STYLE(),
                  interval.startField(),
                  interval.endField()));
    } else if (type instanceof CalendarIntervalType) {
      return row -> UTF8String.fromString(row.getInterval(at).toString());
    }
    return null;
  }

  @Override
  public boolean hasNext() {
    return rows.hasNext();
  }

  /** One page; it does not wait for more rows once it has some for a while. */
  @Override
  public Row next() {
    long begun = System.nanoTime();
    ArrowWriter writer = ArrowWriter.create(shown, UTC, true);
    try (var root = writer.root()) {
      int count = 0;
      long bytes = 0;
      while (count < PAGE_ROWS && rows.hasNext()) {
        UnsafeRow row = rows.nextBinary();
        bytes += row.getSizeInBytes();
        if (row.getSizeInBytes() > BoundedRows.ROW_BYTES) {
          throw TooLarge.row(row.getSizeInBytes(), BoundedRows.ROW_BYTES);
        }
        writer.write(hasTexts ? withTexts(row) : row);
        count++;
        if (bytes > PAGE_BYTES || System.nanoTime() - begun > BoundedRows.BATCH_NANOS) {
          break;
        }
      }
      writer.finish();
      ByteArrayOutputStream out = new ByteArrayOutputStream();
      try (ArrowStreamWriter stream = new ArrowStreamWriter(root, null, Channels.newChannel(out))) {
        stream.writeBatch();
      }
      return RowFactory.create(count, Zstd.compress(out.toByteArray(), FASTEST));
    } catch (IOException e) {
      throw Functions.<RuntimeException>raise(e);
    }
  }

  private InternalRow withTexts(UnsafeRow row) {
    Object[] values = new Object[texts.length];
    for (int at = 0; at < values.length; at++) {
      if (!row.isNullAt(at)) {
        values[at] = texts[at] == null ? row.get(at, types.apply(at).dataType()) : texts[at].apply(row);
      }
    }
    return new GenericInternalRow(values);
  }

  @Override
  public void fetchNext() {
    rows.fetchNext();
  }

  /** Pages have no numbers: only the first row is gone back to. */
  @Override
  public void fetchAbsolute(long position) {
    rows.fetchAbsolute(0);
  }

  @Override
  public void fetchPrior(long offset) {
    rows.fetchAbsolute(0);
  }

  @Override
  public long getFetchStart() {
    return rows.getFetchStart();
  }

  @Override
  public long getPosition() {
    return rows.getPosition();
  }
}
