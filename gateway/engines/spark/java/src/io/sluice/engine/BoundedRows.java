package io.sluice.engine;

import org.apache.spark.sql.Row;
import org.apache.spark.sql.hive.thriftserver.FetchIterator;
import scala.collection.AbstractIterator;

/**
 * A result's rows, of which each fetch gets at most {@link #BATCH_BYTES} and one row: a batch lies
 * in memory several times over (rows, columns, encoded, sent), and clients name only a number of
 * rows. Nor does it wait for more once it has some for {@link #BATCH_NANOS}: rows that come slowly
 * would hold up a client that has one socket, and its cancel.
 */
final class BoundedRows extends AbstractIterator<Row> implements FetchIterator<Row> {
  static final long BATCH_BYTES = 8L << 20;
  static final long ROW_BYTES = 16L << 20;
  static final long BATCH_NANOS = 500_000_000L;
  private final FetchIterator<Row> rows;
  private long taken;
  private long begun;

  BoundedRows(FetchIterator<Row> rows) {
    this.rows = rows;
  }

  @Override
  public boolean hasNext() {
    return taken < BATCH_BYTES && !isLate() && rows.hasNext();
  }

  /** Never before the first row: an empty batch is the end. */
  private boolean isLate() {
    return taken > 0 && System.nanoTime() - begun > BATCH_NANOS;
  }

  @Override
  public Row next() {
    Row row = rows.next();
    long size = RowBytes.of(row);
    if (size > ROW_BYTES) {
      throw TooLarge.row(size, ROW_BYTES);
    }
    taken += size;
    return row;
  }

  private void begin() {
    taken = 0;
    begun = System.nanoTime();
  }

  @Override
  public void fetchNext() {
    begin();
    rows.fetchNext();
  }

  @Override
  public void fetchPrior(long offset) {
    begin();
    rows.fetchPrior(offset);
  }

  @Override
  public void fetchAbsolute(long position) {
    begin();
    rows.fetchAbsolute(position);
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
