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
        refused(
            STATE,
            "[ROW_TOO_LARGE] one row of the result has %s, and at most %s of a row can be"
                + " handed out. Select fewer columns, or cut long values with substring().",
            mebibytes(size),
            mebibytes(limit)));
  }

  /** The memory ended under it: for its own sake, or for that of another at the same time. */
  static HiveSQLException ranShort(long heap) {
    HiveSQLException reason = memory(heap);
    return new HiveSQLException(reason.getMessage(), reason.getSQLState(), RAN_SHORT);
  }

  static HiveSQLException memory(long heap) {
    return refused(
        STATE,
        "[STATEMENT_TOO_LARGE] the statement was ended, because the query engine ran out of"
            + " memory (it has %s for all statements) and this one, or all of yours together,"
            + " took most of it. Let it"
            + " build smaller values, aggregate fewer rows at once, or select less; shorten long"
            + " lists of values, and close the results that you have read.",
        mebibytes(heap));
  }

  static HiveSQLException disk(long written) {
    return refused(
        DISK_FULL,
        "[STATEMENT_TOO_LARGE] the statement was ended, because the query engine's disk is"
            + " nearly full, and yours wrote most of what is there (this one %s). Let it sort,"
            + " join or group fewer rows and columns at once.",
        mebibytes(written));
  }

  /** Thrown although Spark's callers declare nothing. */
  static RuntimeException results(long limit, boolean isOfUser) {
    return Functions.<RuntimeException>raise(
        refused(
            DISK_FULL,
            "[UNREAD_RESULTS_FULL] the rows that the query engine keeps until they are read would"
                + " take more than %s, as much as %s. Read or close the other results, select"
                + " less, or spread the rows over more parts with the hint /*+ REPARTITION(n)"
                + " */: parts are made as they are read.",
            mebibytes(limit),
            isOfUser ? "yours may have" : "those of all users may have"));
  }

  static HiveSQLException madeRoom(long limit) {
    return refused(
        DISK_FULL,
        "[UNREAD_RESULT_REMOVED] the rest of this result was removed: the rows that the query"
            + " engine keeps until they are read had taken all of their %s, you had more of"
            + " that than others who needed some, and this one waited longest. Run the"
            + " statement again, and read its rows, or close the result, at once.",
        mebibytes(limit));
  }

  static HiveSQLException planning(int seconds) {
    return refused(
        "54001",
        "[STATEMENT_TOO_COMPLEX] planning the statement took %d s of the processor, and so"
            + " much is given to it. Nothing was run; split it, or nest fewer sub-queries.",
        seconds);
  }

  /** Ended by {@link RunawayThreads}. */
  static boolean isStopped(Throwable error) {
    return isCausedBy(ThreadDeath.class, error);
  }

  static boolean isMemory(Throwable error) {
    return isCausedBy(OutOfMemoryError.class, error);
  }

  /** By one, or by words of one that was left elsewhere. */
  private static boolean isCausedBy(Class<? extends Error> kind, Throwable error) {
    for (Throwable at = error; at != null; at = at.getCause()) {
      if (kind.isInstance(at) || String.valueOf(at.getMessage()).contains(kind.getName())) {
        return true;
      }
    }
    return false;
  }

  private static HiveSQLException refused(String state, String text, Object... values) {
    return new HiveSQLException(String.format(Locale.ROOT, text, values), state);
  }

  private static String mebibytes(long bytes) {
    return String.format(Locale.ROOT, "%.1f MiB", bytes / 1048576.0);
  }
}
