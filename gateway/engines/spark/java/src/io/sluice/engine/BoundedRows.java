package io.sluice.engine;

import org.apache.spark.sql.Row;
import org.apache.spark.sql.hive.thriftserver.FetchIterator;
import scala.collection.AbstractIterator;

/**
 * A result's rows, of which each fetch gets at most {@link #BATCH_BYTES} and one row: a batch lies
 * in memory several times over (rows, columns, encoded, sent), and clients name only a number of
 * rows.
 */
final class BoundedRows extends AbstractIterator<Row> implements FetchIterator<Row> {
  static final long BATCH_BYTES = 8L << 20;
  static final long ROW_BYTES = 16L << 20;
  private final FetchIterator<Row> rows;
  private long taken;

  BoundedRows(FetchIterator<Row> rows) {
    this.rows = rows;
  }

  @Override
  public boolean hasNext() {
    return taken < BATCH_BYTES && rows.hasNext();
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

  @Override
  public void fetchNext() {
    taken = 0;
    rows.fetchNext();
  }

  @Override
  public void fetchPrior(long offset) {
    taken = 0;
    rows.fetchPrior(offset);
  }

  @Override
  public void fetchAbsolute(long position) {
    taken = 0;
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
