package io.sluice.engine;

import java.util.List;
import java.util.Map;

/**
 * One principal's rights at one policy version. Patterns are {@code *}, {@code db.*} or
 * {@code db.table} on lake names, lower-case. {@code sources} and {@code sourcesSeen} name live
 * sources, databases and tables of them that may be read, or seen. {@code tables} has the tables
 * on which only some columns are granted, or on which rules bind the principal, by {@code
 * db.table}; those of sources by {@code datasource.db.table}.
 */
record Policy(
    String principal,
    long version,
    boolean isActive,
    boolean isAdmin,
    List<String> select,
    List<String> discover,
    List<String> sources,
    List<String> sourcesSeen,
    Map<String, TableRights> tables) {

  boolean maySelect(String database, String table) {
    return isAdmin || matches(select, database, table) || isReadInPart(database, table);
  }

  /** Any privilege makes a table visible. */
  boolean maySee(String database, String table) {
    return maySelect(database, table) || matches(discover, database, table);
  }

  TableRights on(String database, String table) {
    return tables.getOrDefault(nameOf(database, table), TableRights.WHOLE);
  }

  boolean maySelect(SourceTable table) {
    return isAdmin || covers(sources, table) || on(table).columns() != null;
  }

  boolean maySee(SourceTable table) {
    return maySelect(table) || covers(sourcesSeen, table);
  }

  TableRights on(SourceTable table) {
    return tables.getOrDefault(table.name(), TableRights.WHOLE);
  }

  private static boolean covers(List<String> granted, SourceTable table) {
    return table.covering().stream().anyMatch(granted::contains);
  }

  private boolean isReadInPart(String database, String table) {
    return on(database, table).columns() != null;
  }

  private static boolean matches(List<String> patterns, String database, String table) {
    return patterns.contains("*")
        || patterns.contains(nameOf(database, table))
        || patterns.contains(nameOf(database, "*"));
  }

  /** Quoted where a part has a dot: no table is spelled like another, or one of a source. */
  private static String nameOf(String database, String table) {
    return SourceTable.nameOf(List.of(database, table));
  }
}
