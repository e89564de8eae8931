package io.sluice.engine;

import java.util.Locale;
import org.apache.hive.service.cli.HiveSQLException;

/** The sentences for statements that ask for more memory, or disk, than one of them may have. */
final class TooLarge {
  private static final String STATE = "54000";
  private static final String DISK_FULL = "53100";
  private static final int RAN_SHORT = 1; // the gateway runs such a statement again, once

  private TooLarge() {}

  /** Thrown although Spark's callers declare nothing. */
  static RuntimeException row(long size, long limit) {
    return Functions.<RuntimeException>raise(
        new HiveSQLException(
            String.format(
                Locale.ROOT,
                "[ROW_TOO_LARGE] one row of the result has %s, and at most %s of a row can be"
                    + " handed out. Select fewer columns, or cut long values with substring().",
                mebibytes(size),
                mebibytes(limit)),
            STATE));
  }

  /** The memory ended under it: for its own sake, or for that of another at the same time. */
  static HiveSQLException ranShort(long heap) {
    HiveSQLException reason = memory(heap);
    return new HiveSQLException(reason.getMessage(), reason.getSQLState(), RAN_SHORT);
  }

  static HiveSQLException memory(long heap) {
    return new HiveSQLException(
        String.format(
            Locale.ROOT,
            "[STATEMENT_TOO_LARGE] the statement was ended, because the query engine ran out of"
                + " memory (it has %s for all statements) and this one, or all of yours together,"
                + " took most of it. Let it"
                + " build smaller values, aggregate fewer rows at once, or select less.",
            mebibytes(heap)),
        STATE);
  }

  static HiveSQLException disk(long written) {
    return new HiveSQLException(
        String.format(
            Locale.ROOT,
            "[STATEMENT_TOO_LARGE] the statement was ended, because the query engine's disk is"
                + " nearly full, and yours wrote most of what is there (this one %s). Let it sort,"
                + " join or group fewer rows and columns at once.",
            mebibytes(written)),
        DISK_FULL);
  }

  /** Thrown although Spark's callers declare nothing. */
  static RuntimeException results(long limit, boolean isOfUser) {
    return Functions.<RuntimeException>raise(
        new HiveSQLException(
            String.format(
                Locale.ROOT,
                "[UNREAD_RESULTS_FULL] the rows that the query engine keeps until they are read would"
                    + " take more than %s, as much as %s. Read or close the other results, select"
                    + " less, or spread the rows over more parts with the hint /*+ REPARTITION(n)"
                    + " */: parts are made as they are read.",
                mebibytes(limit),
                isOfUser ? "yours may have" : "those of all users may have"),
            DISK_FULL));
  }

  static HiveSQLException madeRoom(long limit) {
    return new HiveSQLException(
        String.format(
            Locale.ROOT,
            "[UNREAD_RESULT_REMOVED] the rest of this result was removed: the rows that the query"
                + " engine keeps until they are read had taken all of their %s, you had more of"
                + " that than others who needed some, and this one waited longest. Run the"
                + " statement again, and read its rows, or close the result, at once.",
            mebibytes(limit)),
        DISK_FULL);
  }

  static HiveSQLException planning(int seconds) {
    return new HiveSQLException(
        String.format(
            Locale.ROOT,
            "[STATEMENT_TOO_COMPLEX] planning the statement took %d s of the processor, and so"
                + " much is given to it. Nothing was run; split it, or nest fewer sub-queries.",
            seconds),
        "54001");
  }

  /** Ended by {@link RunawayThreads}. */
  static boolean isStopped(Throwable error) {
    for (Throwable at = error; at != null; at = at.getCause()) {
      if (at instanceof ThreadDeath
          || String.valueOf(at.getMessage()).contains("java.lang.ThreadDeath")) {
        return true;
      }
    }
    return false;
  }

  static boolean isMemory(Throwable error) {
    for (Throwable at = error; at != null; at = at.getCause()) {
      if (at instanceof OutOfMemoryError
          || String.valueOf(at.getMessage()).contains("java.lang.OutOfMemoryError")) {
        return true;
      }
    }
    return false;
  }

  private static String mebibytes(long bytes) {
    return String.format(Locale.ROOT, "%.1f MiB", bytes / 1048576.0);
  }
}
