package io.sluice.engine;

import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.WeakHashMap;
import org.apache.hive.service.cli.OperationHandle;
import org.apache.hive.service.cli.SessionHandle;
import org.apache.hive.service.cli.operation.Operation;
import org.apache.hive.service.cli.session.SessionManager;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.SparkSession;

/**
 * Whose session is this? Answered by the identity of the SparkSession object, looked up in the
 * Thrift Server's own session table: threads and thread-locals can be wrong. A session that is
 * neither the engine's own nor registered there belongs to nobody.
 */
final class Identity {
  private final SparkSession root;
  private final SparkSession neutral;
  private final Map<SparkSession, String> known =
      Collections.synchronizedMap(new WeakHashMap<>());
  private volatile SessionManager sessions;
  private volatile Statements operations;

  Identity(SparkSession root, SparkSession neutral) {
    this.root = root;
    this.neutral = neutral;
  }

  /** True for the engine's own sessions, which no client can reach. */
  boolean isEngine(SparkSession session) {
    return session == root || session == neutral;
  }

  /** From now on sessions of this Thrift Server have users. Returns the port it listens on. */
  int bind(Object thriftServer) throws ReflectiveOperationException {
    Object cli = field(thriftServer, "cliService");
    SessionManager manager = (SessionManager) call(cli, "getSessionManager");
    operations = Statements.installIn(manager);
    // A closing session looks for a metastore only to tidy it up, and would found one in memory
    // for that: seconds at the first close of every engine. No such address can be dialled.
    manager.getHiveConf().set("hive.metastore.uris", "none");
    sessions = manager;
    return (Integer) call(field(thriftServer, "thriftCLIService"), "getPortNumber");
  }

  /** A copy of the Thrift Server's table of operations, which its manager guards. */
  Map<OperationHandle, Operation> operations() {
    synchronized (operations) {
      return new HashMap<>(operations.handleToOperation());
    }
  }

  /** The clients' statements, once {@link #bind} has been called. */
  Statements statements() {
    return operations;
  }

  /** The principal of a client's session, or null for nobody. */
  String principalOf(SparkSession session) {
    String cached = known.get(session);
    if (cached != null || sessions == null) {
      return cached;
    }
    try {
      String found = search(session);
      if (found != null) {
        known.put(session, found);
      }
      return found;
    } catch (Exception e) {
      return null;
    }
  }

  /** A copy of a user's session for one statement, with settings that hold for it alone. */
  SQLContext withSettings(SQLContext context, String user, Map<String, String> settings) {
    SparkSession copy = context.sparkSession().cloneSession();
    settings.forEach(Settings::requireInRange);
    settings.forEach(copy.conf()::set);
    known.put(copy, user);
    return copy.sqlContext();
  }

  private String search(SparkSession session) throws Exception {
    Map<SessionHandle, SQLContext> contexts = operations.sessionToContexts();
    for (Map.Entry<SessionHandle, SQLContext> entry : contexts.entrySet()) {
      if (entry.getValue().sparkSession() == session) {
        return sessions.getSession(entry.getKey()).getUserName();
      }
    }
    return null;
  }

  private static Object field(Object owner, String name) throws ReflectiveOperationException {
    for (Class<?> c = owner.getClass(); c != null; c = c.getSuperclass()) {
      for (Field f : c.getDeclaredFields()) {
        if (f.getName().equals(name) || f.getName().endsWith("$$" + name)) {
          f.setAccessible(true);
          Object value = f.get(owner);
          if (value != null) {
            return value;
          }
        }
      }
    }
    throw new NoSuchFieldException(name + " of " + owner.getClass().getName());
  }

  private static Object call(Object owner, String name) throws ReflectiveOperationException {
    for (Class<?> c = owner.getClass(); c != null; c = c.getSuperclass()) {
      for (Method m : c.getDeclaredMethods()) {
        if (m.getName().equals(name) && m.getParameterCount() == 0) {
          m.setAccessible(true);
          return m.invoke(owner);
        }
      }
    }
    throw new NoSuchMethodException(name + " of " + owner.getClass().getName());
  }
}
