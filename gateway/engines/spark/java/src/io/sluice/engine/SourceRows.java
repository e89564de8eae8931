package io.sluice.engine;

import java.sql.ResultSet;
import java.sql.SQLException;
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
  private static final int FEWER = 4; // times, when the first rows are too wide together
  private final SourceQuery query;
  private final TaskContext task = TaskContext.get();
  private final SourceValue[] values;
  private SourcePlaces.Place place;
  private SourceStatement statement;
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

  private void open() throws SQLException {
    place = Sources.place(query.datasource(), task);
    for (int fetched = SourceQuery.FETCHED; rows == null; fetched /= FEWER) {
      statement = new SourceStatement(query, fetched);
      try {
        rows = statement.run(0);
      } catch (SQLException e) {
        if (!SourceErrors.isTooWide(e) || fetched == 1) {
          throw e;
        }
        statement.close();
      }
    }
  }

  /** What the source would still send is not read to its end. */
  private void free() {
    if (statement != null) {
      if (!isDone) {
        statement.cancel();
      }
      statement.close();
      statement = null;
    }
    if (place != null) {
      place.close();
      place = null;
    }
  }

  private RuntimeException failed(SQLException error) {
    if (task != null && task.isInterrupted()) {
      return new TaskKilledException("its statement was ended");
    }
    return statement != null && statement.gaveWay()
        ? Denied.sourceLock(query.datasource())
        : Denied.source(query.datasource(), error);
  }
}
