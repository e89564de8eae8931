package io.sluice.engine;

import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.SparkSession;

/** Which session settings a user may change, and which must hold whatever opened the session. */
final class Settings {
  private static final Set<String> SETTABLE =
      Words.of(
          """
          spark.sql.session.timeZone spark.sql.shuffle.partitions spark.sql.ansi.enabled
          spark.sql.adaptive.enabled spark.sql.thriftServer.incrementalCollect
          spark.sql.thriftServer.queryTimeout spark.sql.crossJoin.enabled
          """);

  private static final Map<String, String> LOCKED =
      Map.of(
          "spark.sql.variable.substitute", "false",
          "spark.sql.runSQLOnFiles", "false",
          "spark.sql.caseSensitive", "false",
          "spark.sql.error.messageFormat", "PRETTY",
          "spark.sql.catalog.lake", LakeCatalog.class.getName(),
          "spark.sql.catalog.spark_catalog", LazyCatalog.class.getName(),
          "spark.sql.defaultCatalog", "spark_catalog",
          "spark.sql.legacy.keepCommandOutputSchema", "false");

  private Settings() {}

  static boolean isSettable(String key) {
    return SETTABLE.contains(key) || key.startsWith("sluice.");
  }

  /** Refuses a value that would exhaust an engine others use too. */
  static void requireBounded(String key, String value) {
    if (key.equals("spark.sql.shuffle.partitions") && !value.matches("[1-9][0-9]{0,2}")) {
      throw Denied.forbidden(key + " must be between 1 and 999.");
    }
  }

  /** Refuses a session whose locked settings differ, however that came about. */
  static void requireLocked(SparkSession session) {
    LOCKED.forEach(
        (key, value) -> {
          if (!value.equalsIgnoreCase(session.sessionState().conf().getConfString(key, value))) {
            throw Denied.forbidden("The setting " + key + " of this session was changed.");
          }
        });
  }
}
