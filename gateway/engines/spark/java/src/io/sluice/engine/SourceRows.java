package io.sluice.engine;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskKilledException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.read.PartitionReader;

/**
 * The rows of one statement at a source. Has a connection of its own from the first row asked for
 * until the last one taken.
 */
final class SourceRows implements PartitionReader<InternalRow> {
  private final SourceQuery query;
  private final TaskContext task = TaskContext.get();
  private final SourceValue[] values;
  private final AtomicBoolean isCancelled = new AtomicBoolean();
  private Semaphore place;
  private Connection connection;
  private volatile PreparedStatement statement;
  private ResultSet rows;
  private boolean isDone;

  SourceRows(SourceQuery query) {
    this.query = query;
    this.values =
        query.output().stream().map(each -> SourceValue.of(each.type())).toArray(SourceValue[]::new);
  }

  @Override
  public boolean next() {
    if (isDone) {
      return false;
    }
    try {
      if (rows == null) {
        open();
      }
      if (rows.next()) {
        return true;
      }
    } catch (SQLException e) {
      throw failed(e);
    }
    isDone = true;
    free();
    return false;
  }

  @Override
  public InternalRow get() {
    Object[] row = new Object[values.length];
    try {
      for (int i = 0; i < row.length; i++) {
        row[i] = values[i].read(rows, i + 1);
      }
    } catch (SQLException e) {
      throw failed(e);
    }
    return new GenericInternalRow(row);
  }

  @Override
  public void close() {
    free();
  }

  /** True when its task was told to end, and the statement has not been told yet. */
  boolean isLeft() {
    return task != null && task.isInterrupted() && statement != null && !isCancelled.get();
  }

  /** True when that task reads that source by it. */
  boolean isOf(TaskContext other, String datasource) {
    return task != null && task == other && query.datasource().equals(datasource);
  }

  void cancel() {
    PreparedStatement running = statement;
    if (running == null || !isCancelled.compareAndSet(false, true)) {
      return;
    }
    try {
      running.cancel();
    } catch (SQLException e) {
      isCancelled.set(false); // tried again at the next look
    }
  }

  private void open() throws SQLException {
    place = Sources.place(query.datasource(), task);
    connection = Sources.accessOf(query.datasource()).open();
    PreparedStatement made = query.prepare(connection);
    statement = made;
    Sources.running(this);
    rows = made.executeQuery();
  }

  /** What the source would still send is not read to its end. */
  private void free() {
    Sources.ended(this);
    PreparedStatement running = statement;
    try {
      if (running != null && !isDone) {
        cancel();
      }
      statement = null;
      if (connection != null) {
        connection.close();
      }
    } catch (SQLException e) {
      // it is of no use any more
    }
    connection = null;
    if (place != null) {
      place.release();
      place = null;
    }
  }

  private RuntimeException failed(SQLException error) {
    if (task != null && task.isInterrupted()) {
      return new TaskKilledException("its statement was ended");
    }
    return Denied.source(query.datasource(), error);
  }
}
