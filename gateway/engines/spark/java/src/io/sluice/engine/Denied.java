package io.sluice.engine;

import java.sql.SQLException;
import java.util.Locale;
import java.util.Map;
import org.apache.hive.service.cli.HiveSQLException;
import org.apache.spark.QueryContext;
import org.apache.spark.SparkThrowable;

/** A refusal by the Guard: a Spark error with an error class and an SQLSTATE of its own. */
final class Denied extends RuntimeException implements SparkThrowable {
  private static final String NO_PRIVILEGE = "42501";
  private final String errorClass;
  private final String sqlState;

  private Denied(String errorClass, String sqlState, String message) {
    super(message);
    this.errorClass = errorClass;
    this.sqlState = sqlState;
  }

  /** A privilege is missing on an object that the user may see. */
  static Denied privilege(String privilege, String object) {
    return new Denied(
        "INSUFFICIENT_PRIVILEGE",
        NO_PRIVILEGE,
        "You need the privilege " + privilege + " on " + object + ". Ask an administrator.");
  }

  /** The statement, clause or function is not open to SQL users at all. */
  static Denied forbidden(String what) {
    return new Denied("STATEMENT_NOT_ALLOWED", NO_PRIVILEGE, what);
  }

  /** What people call it whose class is named in Spark's way: INSERT INTO, DROP TABLE. */
  static String words(Object node) {
    return node.getClass()
        .getSimpleName()
        .replaceFirst("(Statement|Command|Exec)\\$?$", "")
        .replaceAll("(?<=[a-z])(?=[A-Z])", " ")
        .toUpperCase(Locale.ROOT);
  }

  /** A limit that protects the engine: which one, and what was found. */
  static Denied tooComplex(String limit) {
    return new Denied(
        "STATEMENT_TOO_COMPLEX", "54001", limit + " are accepted. Nothing was run.");
  }

  /** The engine's stack ended while it read or planned the statement. */
  static Denied tooDeep() {
    return new Denied(
        "STATEMENT_TOO_COMPLEX",
        "54001",
        "The statement is nested too deeply to be planned, or chains too many operators."
            + " Nothing was run; split it, or move parts into WITH.");
  }

  /** Its user or a limit ended it while it waited for its turn. */
  static Denied cancelledBeforePlanning() {
    return new Denied(
        "STATEMENT_CANCELLED", "HY008", "The statement was cancelled before it was planned.");
  }

  /** Something begins and does not end. */
  static Denied malformed(String what, int begin) {
    return new Denied(
        "PARSE_SYNTAX_ERROR",
        "42601",
        "The " + what + " that begins at character " + (begin + 1) + " is not closed.");
  }

  /** A row filter or a mask cannot be applied to the table as it is. */
  static Denied undecided(String table) {
    return new Denied(
        "RULE_NOT_APPLICABLE",
        NO_PRIVILEGE,
        "A rule that limits your rows or columns of "
            + table
            + " cannot be applied. Nothing was run. Ask an administrator.");
  }

  /** The engine cannot know the user's rights now. */
  static Denied noPolicy(String why) {
    return new Denied("POLICY_UNAVAILABLE", "08S01", why + " Nothing was run; try again.");
  }

  /** The catalogue of the gateway did not answer. */
  static Denied noCatalogue(String why) {
    return new Denied("CATALOG_UNAVAILABLE", "08S01", why + " Nothing was run; try again.");
  }

  /** With the class and the state that Spark has for it. */
  static Denied notPartitioned(String table) {
    return new Denied(
        "INVALID_PARTITION_OPERATION.PARTITION_SCHEMA_IS_EMPTY",
        "42601",
        "SHOW PARTITIONS is not allowed on " + table + ", which is not partitioned.");
  }

  /** With the class and the state that Spark has for it; which columns, not all may know. */
  static Denied twins(String table) {
    return new Denied(
        "COLUMN_ALREADY_EXISTS",
        "42711",
        table
            + " has columns whose names differ only in the case of letters, which are one name"
            + " here. Rename one at the source, then discover it again.");
  }

  static Denied olderSource() {
    return unsupported(
        "A live source is read as it is now: it has no older states. Of its tables' copies in the"
            + " lake TIMESTAMP AS OF reads them.");
  }

  /** The clause would be read otherwise than it is written. */
  static Denied unsupported(String what) {
    return new Denied("UNSUPPORTED_FEATURE", "0A000", what + " Nothing was run.");
  }

  /** The live source is named by a user who may read its lake copy only. */
  static Denied liveSource(String named, String lakeName) {
    return new Denied(
        "LIVE_SOURCE_NOT_GRANTED",
        NO_PRIVILEGE,
        named + " names the live source, which is not granted to you. Use " + lakeName + ".");
  }

  /** No connection is tried: its name is unknown, its network denied, its password lost. */
  static Denied sourceRefused(String source, String code) {
    return new Denied(
        "SOURCE_FAILED", "58000", "The source " + source + " cannot be reached (" + code + ").");
  }

  /** The source did not answer as it should. Its own words may have values of hidden rows. */
  static Denied source(String source, SQLException error) {
    String what = SourceErrors.meaning(error);
    return new Denied("SOURCE_FAILED", "58000", "The source " + source + " " + what);
  }

  /** Somebody there waited too long for a lock that the statement had. */
  static Denied sourceLock(String source) {
    return new Denied(
        "SOURCE_FAILED",
        "58000",
        "Somebody at the source "
            + source
            + " has waited for 10 s for a lock on a table that this statement read, as ALTER TABLE"
            + " does, so it was ended. Run it again once that is done; what reads fewer rows, or"
            + " reads the lake's copy, is in nobody's way.");
  }

  /**
   * What a task was refused with or failed at, for its user: Spark tells that its job was aborted,
   * with neither class nor state. Null when there is no such thing, or it has its state.
   */
  static HiveSQLException inTask(Throwable error) {
    if (error instanceof HiveSQLException told && told.getSQLState() != null) {
      return null;
    }
    for (Throwable cause = error; cause != null; cause = cause.getCause()) {
      if (cause instanceof Denied denied) {
        String message = "[" + denied.errorClass + "] " + denied.getMessage();
        return new HiveSQLException(message, denied.sqlState);
      }
      if (cause instanceof SparkThrowable failed && failed.getSqlState() != null) {
        return new HiveSQLException(cause.getMessage(), failed.getSqlState());
      }
    }
    return null;
  }

  @Override
  public String getErrorClass() {
    return errorClass;
  }

  @Override
  public String getSqlState() {
    return sqlState;
  }

  @Override
  public Map<String, String> getMessageParameters() {
    return Map.of();
  }

  @Override
  public QueryContext[] getQueryContext() {
    return new QueryContext[0];
  }

  /** The Thrift Server puts the error class before this. */
  @Override
  public String toString() {
    return getMessage();
  }
}
