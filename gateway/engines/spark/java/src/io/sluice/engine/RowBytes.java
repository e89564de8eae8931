package io.sluice.engine;

import java.math.BigDecimal;
import org.apache.spark.sql.Row;
import scala.collection.Iterator;

/** How much memory a result row takes, roughly: in time linear in it, and never too little. */
final class RowBytes {
  private static final long PLAIN = 16;

  private RowBytes() {}

  static long of(Object value) {
    if (value instanceof String text) {
      return PLAIN + text.length();
    } else if (value instanceof byte[] bytes) {
      return PLAIN + bytes.length;
    } else if (value instanceof Row row) {
      long size = PLAIN;
      for (int i = 0; i < row.length(); i++) {
        size += of(row.get(i));
      }
      return size;
    } else if (value instanceof scala.collection.Iterable<?> many) { // arrays and maps
      return ofAll(many.iterator());
    } else if (value instanceof scala.Tuple2<?, ?> entry) {
      return of(entry._1()) + of(entry._2());
    } else if (value instanceof BigDecimal) {
      return 3 * PLAIN;
    }
    return PLAIN;
  }

  private static long ofAll(Iterator<?> values) {
    long size = PLAIN;
    while (values.hasNext()) {
      size += of(values.next());
    }
    return size;
  }
}
