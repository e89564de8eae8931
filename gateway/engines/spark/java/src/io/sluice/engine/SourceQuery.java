package io.sluice.engine;

import java.io.Serializable;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;
import org.apache.spark.sql.types.DataType;

/**
 * A SELECT for a source, without any secret. Values that a user wrote are parameters.
 *
 * @param where conditions that must all be true
 * @param groups the first so many items of the output are what rows are grouped by; -1 = no groups
 * @param limit rows at most; -1 = all
 */
record SourceQuery(
    String datasource,
    String relation,
    List<Item> output,
    List<SourceCondition> where,
    int groups,
    int limit)
    implements Serializable {
  /** Rows at a time; PostgreSQL's driver goes by how wide they are after the first ones. */
  private static final int FETCHED = 16;

  record Item(String expression, DataType type) implements Serializable {}

  SourceQuery and(SourceCondition condition) {
    List<SourceCondition> all = new ArrayList<>(where);
    all.add(condition);
    return new SourceQuery(datasource, relation, output, all, groups, limit);
  }

  SourceQuery of(List<Item> items) {
    return new SourceQuery(datasource, relation, items, where, groups, limit);
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

  PreparedStatement prepare(Connection connection, String mark) throws SQLException {
    String items =
        output.isEmpty()
            ? "1"
            : output.stream().map(Item::expression).collect(Collectors.joining(", "));
    String sql = "SELECT /* " + mark + " */ " + items + " FROM " + relation + rest();
    PreparedStatement made =
        connection.prepareStatement(sql, ResultSet.TYPE_FORWARD_ONLY, ResultSet.CONCUR_READ_ONLY);
    made.setFetchSize(FETCHED);
    List<String> values = where.stream().flatMap(each -> each.values().stream()).toList();
    int place = 0;
    for (String value : SourceTexts.storable(values, connection)) {
      made.setString(++place, value);
    }
    return made;
  }
}
