package io.sluice.engine;

import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import org.postgresql.PGConnection;

/**
 * Constants for a database of PostgreSQL in an older encoding, such as LATIN1: it refuses a
 * statement with a character that it does not have, though no value there can be equal to it.
 */
final class SourceTexts {
  private static final Set<String> ALL_CHARACTERS = Set.of("UTF8", "SQL_ASCII");
  private static final String NO_SUCH_CHARACTER = "22P05";

  private final Connection connection;
  private final Map<String, String> asked = new HashMap<>();

  private SourceTexts(Connection connection) {
    this.connection = connection;
  }

  /** What it has no characters for stands as a text that no value is equal to either. */
  static List<String> storable(List<String> values, Connection connection) throws SQLException {
    if (!(connection instanceof PGConnection postgresql)
        || ALL_CHARACTERS.contains(postgresql.getParameterStatus("server_encoding"))) {
      return values;
    }
    SourceTexts texts = new SourceTexts(connection);
    List<String> all = new ArrayList<>();
    for (String value : values) {
      all.add(StandardCharsets.US_ASCII.newEncoder().canEncode(value) ? value : texts.one(value));
    }
    return all;
  }

  private String one(String value) throws SQLException {
    String known = asked.get(value);
    if (known == null) {
      known = isStorable(value) ? value : UUID.randomUUID().toString();
      asked.put(value, known);
    }
    return known;
  }

  private boolean isStorable(String value) throws SQLException {
    Savepoint before = connection.setSavepoint();
    try (PreparedStatement ask = connection.prepareStatement("SELECT ?::text IS NULL")) {
      ask.setString(1, value);
      ask.executeQuery().close();
    } catch (SQLException error) {
      if (!NO_SUCH_CHARACTER.equals(error.getSQLState())) {
        throw error;
      }
      connection.rollback(before);
      return false;
    }
    connection.releaseSavepoint(before);
    return true;
  }
}
