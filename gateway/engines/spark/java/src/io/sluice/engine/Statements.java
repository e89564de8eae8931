package io.sluice.engine;

import java.lang.reflect.Field;
import java.util.HashMap;
import java.util.Map;
import java.util.UUID;
import org.apache.hive.service.cli.FetchOrientation;
import org.apache.hive.service.cli.HiveSQLException;
import org.apache.hive.service.cli.OperationHandle;
import org.apache.hive.service.cli.operation.ExecuteStatementOperation;
import org.apache.hive.service.cli.operation.Operation;
import org.apache.hive.service.cli.operation.OperationManager;
import org.apache.hive.service.cli.session.HiveSession;
import org.apache.hive.service.cli.session.SessionManager;
import org.apache.hive.service.rpc.thrift.TRowSet;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.hive.thriftserver.server.SparkSQLOperationManager;

/** Spark's table of operations, whose statements are {@link Statement}s. */
final class Statements extends SparkSQLOperationManager {
  private static final String POOL = "spark.sql.thriftserver.scheduler.pool";
  private static final UUID LAST = new UUID(0, 0);
  // each connection has a thread of its own
  private final ThreadLocal<OperationHandle> last = new ThreadLocal<>();

  @Override
  public synchronized ExecuteStatementOperation newExecuteStatementOperation(
      HiveSession session,
      String text,
      Map<String, String> overlay,
      boolean isAsync,
      long queryTimeout) {
    SQLContext context = sessionToContexts().get(session.getSessionHandle());
    if (context == null) {
      throw new IllegalArgumentException("the session is closed");
    }
    context.setConf(POOL, session.getUserName()); // its tasks take turns with other users'
    if (overlay != null && !overlay.isEmpty()) {
      context = Engine.get().identity().withSettings(context, session.getUserName(), overlay);
    }
    Statement statement = new Statement(context, session, text, overlay, isAsync);
    handleToOperation().put(statement.getHandle(), statement);
    last.set(statement.getHandle());
    return statement;
  }

  /** Zeros name the statement that the connection began last: its client knows no name yet. */
  @Override
  public Operation getOperation(OperationHandle handle) throws HiveSQLException {
    return super.getOperation(isLast(handle) && last.get() != null ? last.get() : handle);
  }

  /** Zeros name it once: what is asked behind a statement that did not begin is of no other. */
  @Override
  public TRowSet getOperationNextRowSet(
      OperationHandle handle, FetchOrientation order, long maxRows) throws HiveSQLException {
    try {
      return super.getOperationNextRowSet(handle, order, maxRows);
    } finally {
      if (isLast(handle)) {
        last.remove();
      }
    }
  }

  private static boolean isLast(OperationHandle handle) {
    return handle.getHandleIdentifier().getPublicId().equals(LAST);
  }

  /** What holds memory and disk: running ones, and those whose result is read; by identifier. */
  synchronized Map<String, Statement> open() {
    Map<String, Statement> found = new HashMap<>();
    for (Operation operation : handleToOperation().values()) {
      if (operation instanceof Statement statement && !statement.isEnded()) {
        found.put(statement.statementId(), statement);
      }
    }
    return found;
  }

  void lookAtSpools() {
    open().values().forEach(Statement::look);
  }

  /** The one that Spark runs under this identifier, its job group; null for none. */
  synchronized Statement running(String statementId) {
    for (Operation operation : handleToOperation().values()) {
      if (operation instanceof Statement one && one.statementId().equals(statementId)) {
        return one;
      }
    }
    return null;
  }

  /** Takes the place of Spark's own table, before any client is let in. */
  static Statements installIn(SessionManager sessions) throws ReflectiveOperationException {
    Statements own = new Statements();
    // Spark looks for the table one class above its own: here that is itself
    replace(own, SparkSQLOperationManager.class, "handleToOperation", tableOf(own));
    replace(sessions, SessionManager.class, "operationManager", own);
    replace(sessions, sessions.getClass(), "sparkSqlOperationManager", own);
    return own;
  }

  private static Object tableOf(OperationManager manager) throws ReflectiveOperationException {
    Field field = OperationManager.class.getDeclaredField("handleToOperation");
    field.setAccessible(true);
    return field.get(manager);
  }

  private static void replace(Object owner, Class<?> of, String name, Object value)
      throws ReflectiveOperationException {
    Field field = of.getDeclaredField(name);
    field.setAccessible(true);
    field.set(owner, value);
  }
}
