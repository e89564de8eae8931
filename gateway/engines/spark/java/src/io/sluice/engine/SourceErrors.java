package io.sluice.engine;

import java.sql.SQLException;

/**
 * What an error of a source means and what to do, without the source's own words: these may have
 * values of hidden rows. All SQL there is the engine's, so what does not fit is the table.
 */
final class SourceErrors {
  private static final String BUSY =
      "has no connection left for the datasource's user%s. Try again later.";
  private static final String CHANGED =
      "has another table or other columns by now%s: discover it again.";
  private static final String WIDE =
      "sends rows that are too wide to be read together%s. Leave wide columns out, or read the"
          + " lake's copy.";
  private static final String LOGIN = "refuses the datasource's login%s.";

  private SourceErrors() {}

  /** Completes "The source x …". */
  static String meaning(SQLException error) {
    String state = error.getSQLState() == null ? "" : error.getSQLState();
    String known = isTooWide(error) ? WIDE : ofNumber(error.getErrorCode());
    String meaning = known == null ? ofState(state) : known;
    return meaning.formatted(state.isEmpty() ? "" : " (" + state + ")");
  }

  /** PostgreSQL's driver calls it a failure to communicate. */
  static boolean isTooWide(SQLException error) {
    return String.valueOf(error.getMessage()).startsWith("Result set exceeded maxResultBuffer");
  }

  /** MariaDB's number: one state stands for many things there. PostgreSQL's errors have none. */
  private static String ofNumber(int number) {
    return switch (number) {
      case 1040, 1203, 1226 -> BUSY;
      case 1049, 1356 -> CHANGED;
      case 1820, 1862, 4151 -> LOGIN;
      default -> null;
    };
  }

  private static String ofState(String state) {
    return switch (state) {
      case "57014", "70100", "HY008" ->
          "ended the statement%s: it took too long there, or somebody there cancelled it.";
      case "55P03" -> "has the table locked%s. Run it again.";
      case "42501", "42000" -> "does not let the datasource's user read the table%s.";
      case "42P01", "42703", "42S02", "42S22" -> CHANGED;
      case "42883", "42804", "42809", "42846", "22P02", "22007", "3D000" -> CHANGED;
      case "53300", "53400" -> BUSY;
      case "40001", "40P01" -> "ended the statement%s, which was in the way there. Run it again.";
      case "57P01", "57P02", "57P03" ->
          "ended the connection or is about to stop or start%s. Run it again later.";
      default ->
          state.startsWith("08")
              ? "cannot be reached%s."
              : state.startsWith("28")
                  ? LOGIN
                  : "answered with an error%s. Its own log and an administrator's test of it tell"
                      + " more.";
    };
  }
}
