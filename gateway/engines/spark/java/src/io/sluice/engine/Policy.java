package io.sluice.engine;

import java.util.List;

/**
 * One principal's rights at one policy version. Patterns are {@code *}, {@code db.*} or
 * {@code db.table} on lake names, lower-case.
 */
record Policy(
    String principal,
    long version,
    boolean isActive,
    boolean isAdmin,
    List<String> select,
    List<String> discover) {

  boolean maySelect(String database, String table) {
    return isAdmin || matches(select, database, table);
  }

  /** Any privilege makes a table visible. */
  boolean maySee(String database, String table) {
    return maySelect(database, table) || matches(discover, database, table);
  }

  private static boolean matches(List<String> patterns, String database, String table) {
    String name = database + "." + table;
    for (String pattern : patterns) {
      if (pattern.equals("*") || pattern.equals(name) || pattern.equals(database + ".*")) {
        return true;
      }
    }
    return false;
  }
}
