package io.sluice.engine;

import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import org.apache.spark.sql.SparkSession;

/** Which session settings a user may change, and which must hold whatever opened the session. */
final class Settings {
  private static final int LONGEST = 200;
  private static final String PARTITIONS = "spark.sql.shuffle.partitions";
  private static final String INCREMENTAL = "spark.sql.thriftServer.incrementalCollect";

  /** One or more keys and the values that they may have, in the gateway's own words. */
  record Rule(Pattern keys, Pattern values, String words) {}

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
    return ruleFor(key) != null;
  }

  private static Rule ruleFor(String key) {
    if (key.length() > LONGEST) {
      return null;
    }
    for (Rule rule : Engine.get().start().settable()) {
      if (rule.keys().matcher(key).matches()) {
        return rule;
      }
    }
    return null;
  }

  /** Refuses a value that would harm an engine others use too. */
  static void requireInRange(String key, String value) {
    Rule rule = ruleFor(key);
    boolean fits = value.length() <= LONGEST && rule != null;
    if (!fits || !rule.values().matcher(value).matches()) {
      String words = rule == null ? "left as it is" : rule.words();
      throw Denied.forbidden(key + " must be " + words + ".");
    }
  }

  /** True when the session's user set that switch. */
  static boolean isOn(SparkSession session, String key) {
    return session.sessionState().conf().getConfString(key, "false").equalsIgnoreCase("true");
  }

  /** Whose shapes and names the session's client knows: {@code spark}, hive or pyhive. */
  static String compat(SparkSession session) {
    return session.sessionState().conf().getConfString("sluice.compat", "spark");
  }

  /** True for sessions of the gateway's own, which gets results as pages in Arrow. */
  static boolean isInArrow(SparkSession session) {
    return session.sessionState().conf().getConfString("sluice.results", "").equals("arrow");
  }

  static boolean isForSpark(SparkSession session) {
    return compat(session).equals("spark");
  }

  /** Refuses a session that was opened with a value out of range; SET is not the only way in. */
  static void requireRanges(SparkSession session) {
    for (String key : List.of(PARTITIONS, INCREMENTAL)) {
      requireInRange(key, session.sessionState().conf().getConfString(key));
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
