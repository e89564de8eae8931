package io.sluice.engine;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.spark.TaskContext;
import org.postgresql.PGConnection;

/**
 * A statement at a source, on a connection of its own, for a task or for the plan of a client's
 * statement. Neither an interrupt nor the end of its task ends a read from a socket: it is
 * cancelled at the source as soon as nobody waits for it ({@link Sources#look}).
 */
final class SourceStatement implements AutoCloseable {
  private final SourceQuery query;
  private final int fetched;
  private final TaskContext task = TaskContext.get();
  private final String planned = task == null ? TaskWatch.statementHere() : "";
  private final String mark;
  private final Connection connection;
  private final AtomicBoolean isCancelling = new AtomicBoolean();
  private final long begun = System.nanoTime();
  private volatile boolean gaveWay;
  private int looksInTheWay; // of one thread at a time

  /** fetched: rows that it takes at a time, at first. */
  SourceStatement(SourceQuery query, int fetched) throws SQLException {
    this.query = query;
    this.fetched = fetched;
    SourceAccess access = Sources.accessOf(query.datasource());
    this.mark = access.mark();
    this.connection = access.open(query.mostAtATime(fetched));
  }

  /** seconds: that its first rows may take; 0 = as long as the source allows. */
  ResultSet run(int seconds) throws SQLException {
    if (seconds > 0) {
      // of a source that answers nothing any more the driver waits for its own cancel
      connection.setNetworkTimeout(Runnable::run, 2_000 * seconds);
    }
    Sources.running(this);
    query.requireTypes(connection, mark);
    PreparedStatement made = query.prepare(connection, mark, fetched);
    made.setQueryTimeout(seconds);
    return made.executeQuery();
  }

  /** True when what it was for was cancelled, ended or closed. */
  boolean isLeft() {
    return task == null ? isLeft(planned) : task.isInterrupted();
  }

  /** True when a client's statement, by its identifier, was; never for the engine's own work. */
  static boolean isLeft(String planned) {
    Statement statement = Engine.get().identity().statements().running(planned);
    return statement == null ? !planned.isEmpty() : statement.isLeft();
  }

  String datasource() {
    return query.datasource();
  }

  long nanosOld() {
    return System.nanoTime() - begun;
  }

  /** Which session it has at PostgreSQL. */
  int backend() {
    return ((PGConnection) connection).getBackendPID();
  }

  /** The table's name without that of its database, as nobody has to write that. */
  String table() {
    String relation = query.relation();
    String last = relation.substring(relation.lastIndexOf(".`") + 1);
    return last.replaceAll("^`|`$", "").replace("``", "`");
  }

  /** Gives way to a session that has waited for its lock in so many looks in a row. */
  void sawWaiting(boolean isWaitedFor, int patience) {
    looksInTheWay = isWaitedFor ? looksInTheWay + 1 : 0;
    if (looksInTheWay < patience || gaveWay) {
      return;
    }
    gaveWay = true;
    try {
      connection.abort(Runnable::run); // a cancel alone leaves the lock to its transaction
    } catch (SQLException e) {
      // it is over
    }
  }

  boolean gaveWay() {
    return gaveWay;
  }

  /** True when that task reads that source by it. */
  boolean isOf(TaskContext other, String source) {
    return task != null && task == other && datasource().equals(source);
  }

  /**
   * By another connection. Not the statement's own `cancel()`: PostgreSQL's driver does nothing
   * there while further rows are fetched, nor do both before it was sent. What is not running yet
   * is cancelled at a later look.
   */
  void cancel() {
    if (!isCancelling.compareAndSet(false, true)) {
      return;
    }
    try {
      if (connection instanceof PGConnection postgresql) {
        postgresql.cancelQuery();
      } else if (connection instanceof org.mariadb.jdbc.Connection mariadb) {
        mariadb.cancelCurrentQuery();
      }
    } catch (SQLException e) {
      // the next look tries again, unless it is over
    } finally {
      isCancelling.set(false);
    }
  }

  @Override
  public void close() {
    Sources.ended(this);
    try {
      connection.close();
    } catch (SQLException e) {
      // it is of no use any more
    }
  }
}
