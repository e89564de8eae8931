package io.sluice.engine;

import java.io.Serializable;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StringType;

/**
 * A SELECT for a source, without any secret. Values that a user wrote are parameters.
 *
 * @param columns those that it looks at
 * @param where conditions that must all be true
 * @param groups the first so many items of the output are what rows are grouped by; -1 = no groups
 * @param limit rows at most; -1 = all
 */
record SourceQuery(
    String datasource,
    String relation,
    List<SourceColumn> columns,
    List<Item> output,
    List<SourceCondition> where,
    int groups,
    int limit)
    implements Serializable {
  /** Rows at a time; PostgreSQL's driver goes by how wide they are after the first ones. */
  static final int FETCHED = 16;

  /** At most, however narrow those before were: if they are too wide, that is an error. */
  private static final int MOST = 1_000;

  /** Where no row can be wide: each time takes a way to the source and back. */
  private static final int MOST_NARROW = 10_000;

  private static final int VALUES = 100_000; // of these

  record Item(String expression, DataType type) implements Serializable {}

  /** Of it the rows in a range of that column. */
  SourceQuery part(SourceColumn column, String range) {
    Set<SourceColumn> looked = new LinkedHashSet<>(columns);
    looked.add(column);
    List<SourceCondition> all = new ArrayList<>(where);
    all.add(new SourceCondition(range, List.of(), true));
    return new SourceQuery(
        datasource, relation, List.copyOf(looked), output, all, groups, limit);
  }

  /** Below the SELECT: shown by EXPLAIN, with no value in it. */
  String rest() {
    StringBuilder text = new StringBuilder();
    if (!where.isEmpty()) {
      String all =
          where.stream().map(SourceCondition::sql).collect(Collectors.joining(") AND (", "(", ")"));
      text.append(" WHERE ").append(all);
    }
    if (groups > 0) {
      String all =
          output.subList(0, groups).stream()
              .map(Item::expression)
              .collect(Collectors.joining(", "));
      text.append(" GROUP BY ").append(all);
    }
    return text.append(limit < 0 ? "" : " LIMIT " + limit).toString();
  }

  /**
   * Fails when one of its columns has another type by now. Within the connection's transaction, in
   * which nobody can change the table any more once this has looked at it.
   */
  void requireTypes(Connection connection, String mark) throws SQLException {
    if (columns.isEmpty()) {
      return;
    }
    String all = columns.stream().map(SourceColumn::stored).collect(Collectors.joining(", "));
    String sql = "SELECT /* " + mark + " */ " + all + " FROM " + relation + " LIMIT 0";
    try (Statement made = connection.createStatement();
        ResultSet none = made.executeQuery(sql)) {
      for (int i = 0; i < columns.size(); i++) {
        if (!SourceTypes.isExact(columns.get(i).type(), none.getMetaData(), i + 1)) {
          throw new SQLException(columns.get(i).name(), "42804");
        }
      }
    }
  }

  /** Rows that PostgreSQL's driver may ask for at a time. fetched: those it asks for first. */
  int mostAtATime(int fetched) {
    if (fetched < FETCHED) {
      return fetched;
    }
    return isNarrow() ? Math.min(MOST_NARROW, VALUES / Math.max(1, output.size())) : MOST;
  }

  /** True when the type of each value bounds its width. */
  private boolean isNarrow() {
    return output.stream()
        .map(Item::type)
        .noneMatch(
            type ->
                type instanceof StringType
                    || type instanceof BinaryType
                    || type instanceof ArrayType);
  }

  PreparedStatement prepare(Connection connection, String mark, int fetched)
      throws SQLException {
    String items =
        output.isEmpty()
            ? "1"
            : output.stream().map(Item::expression).collect(Collectors.joining(", "));
    String sql = "SELECT /* " + mark + " */ " + items + " FROM " + relation + rest();
    PreparedStatement made =
        connection.prepareStatement(sql, ResultSet.TYPE_FORWARD_ONLY, ResultSet.CONCUR_READ_ONLY);
    made.setFetchSize(fetched);
    List<String> values = where.stream().flatMap(each -> each.values().stream()).toList();
    int place = 0;
    for (String value : SourceTexts.storable(values, connection)) {
      made.setString(++place, value);
    }
    return made;
  }
}
