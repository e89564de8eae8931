package io.sluice.engine;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import org.postgresql.PGConnection;

/**
 * Ends statements that keep others at a source from a lock. A SELECT has its table's lock until its
 * last row was taken, which is as slow as what the engine does with the rows. Who changes the table
 * waits for it, and everybody who wants the table waits behind them.
 */
final class SourceLocks {
  static final long LOOK_MILLIS = 2000;
  static final int PATIENT_LOOKS = 5;
  private static final long YOUNG_NANOS = TimeUnit.SECONDS.toNanos(2);
  private static final String POSTGRESQL =
      "SELECT 1 FROM pg_locks WHERE NOT granted AND ? = ANY (pg_blocking_pids(pid)) LIMIT 1";
  // Which table is waited for is not shown: the statement that waits names it.
  private static final String MARIADB =
      "SELECT 1 FROM information_schema.processlist"
          + " WHERE state LIKE 'Waiting for table metadata lock%' AND info NOT LIKE '%sluice:%'"
          + " AND locate(?, info) > 0 LIMIT 1";
  private final Set<SourceStatement> running;
  private final Executor looks;
  private final Set<String> lookedAt = ConcurrentHashMap.newKeySet();

  /** running: changes meanwhile; looks: a source that does not answer holds up no other. */
  SourceLocks(Set<SourceStatement> running, Executor looks) {
    this.running = running;
    this.looks = looks;
  }

  void look() {
    running.stream()
        .filter(SourceLocks::mayBeInTheWay)
        .map(SourceStatement::datasource)
        .distinct()
        .filter(lookedAt::add)
        .forEach(datasource -> looks.execute(() -> lookAt(datasource)));
  }

  private static boolean mayBeInTheWay(SourceStatement statement) {
    return statement.nanosOld() > YOUNG_NANOS;
  }

  private void lookAt(String datasource) {
    try (Connection asking = Sources.accessOf(datasource).open(1)) {
      for (SourceStatement statement : running) {
        if (statement.datasource().equals(datasource) && mayBeInTheWay(statement)) {
          statement.sawWaiting(isWaitedFor(asking, statement), PATIENT_LOOKS);
        }
      }
    } catch (SQLException | Denied e) {
      // it is away, or forgotten: its statements end for that
    } finally {
      lookedAt.remove(datasource);
    }
  }

  private static boolean isWaitedFor(Connection asking, SourceStatement statement)
      throws SQLException {
    boolean isPostgresql = asking instanceof PGConnection;
    try (PreparedStatement ask = asking.prepareStatement(isPostgresql ? POSTGRESQL : MARIADB)) {
      if (isPostgresql) {
        ask.setInt(1, statement.backend());
      } else {
        ask.setString(1, statement.table());
      }
      return ask.executeQuery().next();
    }
  }
}
