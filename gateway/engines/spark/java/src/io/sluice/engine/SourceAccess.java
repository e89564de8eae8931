package io.sluice.engine;

import com.fasterxml.jackson.databind.JsonNode;
import java.sql.Connection;
import java.sql.Driver;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;

/** How a source is reached, its password among it. Stays in the heap: neither shown nor stored. */
final class SourceAccess {
  private final String driver;
  private final String url;
  private final Properties properties;
  private final List<String> session;
  private final int connections;
  private final String mark;

  private SourceAccess(
      String driver,
      String url,
      Properties properties,
      List<String> session,
      int connections,
      String mark) {
    this.driver = driver;
    this.url = url;
    this.properties = properties;
    this.session = session;
    this.connections = connections;
    this.mark = mark;
  }

  static SourceAccess of(JsonNode access) {
    Properties properties = new Properties();
    access
        .required("properties")
        .fields()
        .forEachRemaining(each -> properties.setProperty(each.getKey(), each.getValue().asText()));
    List<String> session = new ArrayList<>();
    access.required("session").forEach(statement -> session.add(statement.asText()));
    return new SourceAccess(
        access.required("driver").asText(),
        access.required("url").asText(),
        properties,
        List.copyOf(session),
        access.required("connections").asInt(),
        access.required("mark").asText());
  }

  /** Connections that all statements of this engine may have there at once. */
  int connections() {
    return connections;
  }

  /** A word within the comment by which statements of this engine are found there. */
  String mark() {
    return mark;
  }

  /**
   * A connection in a transaction that reads only, with the limits of a session. most: rows that
   * PostgreSQL's driver may ask for at a time.
   */
  Connection open(int most) throws SQLException {
    Properties all = new Properties();
    all.putAll(properties);
    all.setProperty("adaptiveFetchMaximum", String.valueOf(most));
    Connection made = driver().connect(url, all);
    try {
      made.setAutoCommit(false);
      made.setReadOnly(true);
      try (java.sql.Statement statement = made.createStatement()) {
        for (String each : session) {
          statement.execute(each);
        }
      }
      return made;
    } catch (SQLException | RuntimeException error) {
      made.close();
      throw error;
    }
  }

  private Driver driver() throws SQLException {
    try {
      return (Driver) Class.forName(driver).getDeclaredConstructor().newInstance();
    } catch (ReflectiveOperationException e) {
      throw new SQLException("no driver");
    }
  }

  @Override
  public String toString() {
    return "SourceAccess";
  }
}
