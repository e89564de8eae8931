package io.sluice.lake;

import java.sql.Connection;
import java.sql.Driver;
import java.sql.SQLException;
import java.sql.Statement;
import org.apache.spark.sql.execution.datasources.jdbc.JDBCOptions;
import org.apache.spark.sql.jdbc.JdbcConnectionProvider;
import org.postgresql.PGConnection;
import scala.collection.immutable.Map;

/**
 * Opens the connections of Spark's JDBC source and runs {@code sluicesession} on each first.
 *
 * <p>Spark's own {@code sessionInitStatement} is not run on the connection that asks for the
 * columns of a statement, and that one waits for the table's lock, too. The socket gets to know
 * its session, so that the server can be asked why nothing comes.
 */
public final class PreparedConnections extends JdbcConnectionProvider {
  private static final String SESSION = "sluicesession";

  @Override
  public String name() {
    return "sluice";
  }

  @Override
  public boolean canHandle(Driver driver, Map<String, String> options) {
    return session(options) != null;
  }

  @Override
  public Connection getConnection(Driver driver, Map<String, String> options) {
    JDBCOptions known = new JDBCOptions(options);
    try {
      Connection made = driver.connect(known.url(), known.asConnectionProperties());
      try (Statement statement = made.createStatement()) {
        PinnedSocketFactory.forgetLast();
        statement.execute(session(options));
        PinnedSocketFactory.nameLast(sessionAtServer(made));
        return made;
      } catch (SQLException | RuntimeException error) {
        made.close();
        throw error;
      }
    } catch (SQLException error) {
      throw PreparedConnections.<RuntimeException>unchecked(error);
    }
  }

  @Override
  public boolean modifiesSecurityContext(Driver driver, Map<String, String> options) {
    return false;
  }

  /** By which the server lists it; 0 = not known. */
  private static long sessionAtServer(Connection made) {
    if (made instanceof PGConnection) {
      return ((PGConnection) made).getBackendPID();
    }
    if (made instanceof org.mariadb.jdbc.Connection) {
      return ((org.mariadb.jdbc.Connection) made).getThreadId();
    }
    return 0;
  }

  private static String session(Map<String, String> options) {
    scala.collection.Iterator<scala.Tuple2<String, String>> all = options.iterator();
    while (all.hasNext()) {
      scala.Tuple2<String, String> one = all.next();
      if (one._1().equalsIgnoreCase(SESSION)) {
        return one._2();
      }
    }
    return null;
  }

  /** Spark's interface is Scala's, which declares no checked exception and expects this one. */
  @SuppressWarnings("unchecked")
  private static <E extends Throwable> E unchecked(Throwable error) throws E {
    throw (E) error;
  }
}
