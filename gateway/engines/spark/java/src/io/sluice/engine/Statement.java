package io.sluice.engine;

import java.lang.reflect.Field;
import java.util.Map;
import java.util.concurrent.Future;
import org.apache.hive.service.cli.FetchOrientation;
import org.apache.hive.service.cli.HiveSQLException;
import org.apache.hive.service.cli.OperationState;
import org.apache.hive.service.cli.OperationStatus;
import org.apache.hive.service.cli.session.HiveSession;
import org.apache.hive.service.rpc.thrift.TRowSet;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.hive.thriftserver.FetchIterator;
import org.apache.spark.sql.hive.thriftserver.SparkExecuteStatementOperation;

/**
 * A client's statement, whose batches are bounded in bytes and which can be ended with a reason
 * that its user gets to read.
 */
final class Statement extends SparkExecuteStatementOperation {
  private static final Field ROWS = rowsField();
  private volatile HiveSQLException ended;
  private volatile Thread ender;
  private volatile HiveSQLException wait;

  Statement(
      SQLContext context,
      HiveSession session,
      String text,
      Map<String, String> overlay,
      boolean isAsync) {
    super(context, session, text, overlay, isAsync, 0L);
  }

  /** Stops it, whatever it does now; status and fetches tell the reason. */
  void end(HiveSQLException reason) {
    ender = Thread.currentThread(); // Spark stops only what its own status calls alive
    ended = reason;
    cancel();
    cleanup();
    forgetRows();
    ender = null;
  }

  boolean isEnded() {
    return ended != null;
  }

  /** Its status tells the reason from now on; null when it does not wait any more. */
  void waitsFor(String reason) {
    wait = reason == null ? null : new HiveSQLException(reason);
  }

  @Override
  public OperationStatus getStatus() {
    boolean wasDone = isThreadDone(); // before its state is read, which it tells earlier
    OperationStatus status = super.getStatus();
    if (Thread.currentThread() == ender) {
      return status;
    }
    BrokenJvm.endIfMetIn(status.getOperationException());
    HiveSQLException reason = ended;
    if (reason == null && TooLarge.isMemory(status.getOperationException())) {
      reason = TooLarge.ranShort(Runtime.getRuntime().maxMemory());
    }
    boolean isLost = status.getState() == OperationState.RUNNING && wasDone;
    if (reason == null && (isLost || TooLarge.isStopped(status.getOperationException()))) {
      reason = TooLarge.planning(RunawayThreads.LONGEST_PLANNING);
    }
    if (reason != null) {
      return new OperationStatus(OperationState.ERROR, reason);
    }
    boolean isWaiting = wait != null && status.getState() == OperationState.RUNNING;
    return isWaiting ? new OperationStatus(OperationState.RUNNING, wait) : status;
  }

  /** Its thread tells how it ended as its last act; one that was stopped then told nothing. */
  boolean isThreadDone() {
    Future<?> thread = getBackgroundHandle();
    return thread != null && thread.isDone();
  }

  @Override
  public TRowSet getNextRowSet(FetchOrientation order, long maxRows) {
    try {
      requireNotEnded();
      bound();
      return super.getNextRowSet(order, maxRows);
    } catch (Throwable error) {
      BrokenJvm.endIfMetIn(error);
      if (TooLarge.isMemory(error)) {
        end(TooLarge.ranShort(Runtime.getRuntime().maxMemory()));
      }
      requireNotEnded();
      throw error;
    }
  }

  private void requireNotEnded() {
    if (ended != null) {
      throw Functions.<RuntimeException>raise(ended);
    }
  }

  @SuppressWarnings("unchecked")
  private void bound() {
    try {
      Object rows = ROWS.get(this);
      if (rows != null && !(rows instanceof BoundedRows)) {
        ROWS.set(this, new BoundedRows((FetchIterator<Row>) rows));
      }
    } catch (IllegalAccessException e) {
      throw new IllegalStateException(e);
    }
  }

  private void forgetRows() {
    try {
      ROWS.set(this, null);
    } catch (IllegalAccessException e) {
      throw new IllegalStateException(e);
    }
  }

  private static Field rowsField() {
    try {
      Field rows = SparkExecuteStatementOperation.class.getDeclaredField("iter");
      rows.setAccessible(true);
      return rows;
    } catch (NoSuchFieldException e) {
      throw new ExceptionInInitializerError(e);
    }
  }
}
