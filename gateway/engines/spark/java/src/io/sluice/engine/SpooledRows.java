package io.sluice.engine;

import java.io.IOException;
import java.util.NoSuchElementException;
import java.util.function.Supplier;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.hive.thriftserver.FetchIterator;
import scala.Function1;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;

/**
 * A result's rows, read out of its {@link Spool}. Read from the start again, they are computed
 * again once a part of them was removed.
 */
final class SpooledRows extends AbstractIterator<Row> implements FetchIterator<Row> {
  private static final int SENT_AT_ONCE = 2; // batches: the first rows, and those read ahead
  private final Supplier<Spool> opener;
  private final Function1<InternalRow, Row> decode;
  private Spool spool;
  private Iterator<UnsafeRow> part;
  private boolean isAtEnd;
  private int fetches;
  private long position;
  private long start;

  SpooledRows(Supplier<Spool> opener, Function1<InternalRow, Row> decode) {
    this.opener = opener;
    this.decode = decode;
  }

  @Override
  public boolean hasNext() {
    try {
      if (spool == null) {
        spool = opener.get();
      }
      while (!isAtEnd && (part == null || !part.hasNext())) {
        part = spool.next();
        isAtEnd = part == null;
      }
      return !isAtEnd;
    } catch (InterruptedException | IOException e) {
      throw Functions.<RuntimeException>raise(e);
    }
  }

  @Override
  public Row next() {
    return decode.apply(nextBinary());
  }

  /** Good until the next one is asked for. */
  UnsafeRow nextBinary() {
    if (!hasNext()) {
      throw new NoSuchElementException();
    }
    position++;
    return part.next();
  }

  @Override
  public void fetchNext() {
    start = position;
    if (++fetches > SENT_AT_ONCE && spool != null) {
      spool.widen();
    }
  }

  @Override
  public void fetchPrior(long offset) {
    fetchAbsolute(start - offset);
  }

  @Override
  public void fetchAbsolute(long wanted) {
    long to = Math.max(wanted, 0);
    if (to < position) {
      rewind();
    }
    while (position < to && hasNext()) {
      nextBinary();
    }
    start = position;
  }

  private void rewind() {
    try {
      if (spool.isUnread()) {
        spool.rewind();
      } else {
        spool.close();
        spool = null;
      }
    } catch (IOException e) {
      throw Functions.<RuntimeException>raise(e);
    }
    part = null;
    isAtEnd = false;
    position = 0;
  }

  @Override
  public long getFetchStart() {
    return start;
  }

  @Override
  public long getPosition() {
    return position;
  }
}
