package io.sluice.engine;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.aggregate.AggregateFunc;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.aggregate.Count;
import org.apache.spark.sql.connector.expressions.aggregate.CountStar;
import org.apache.spark.sql.connector.expressions.aggregate.Max;
import org.apache.spark.sql.connector.expressions.aggregate.Min;
import org.apache.spark.sql.connector.expressions.aggregate.Sum;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.StructType;

/**
 * An aggregation that the source computes as Spark would: count, sum, min and max over columns of
 * whole numbers, decimals, dates and timestamps, grouped by such ones.
 */
record SourceAggregates(List<SourceQuery.Item> items, StructType schema, int groups) {
  private static final int MOST_DIGITS = 38;
  private static final int DIGITS_OF_SUMS = 10;

  /** Null when it would not, or could not. */
  static SourceAggregates of(Aggregation aggregation, SourceTable table) {
    List<SourceQuery.Item> items = new ArrayList<>();
    for (Expression group : aggregation.groupByExpressions()) {
      SourceColumn column = exact(group, table);
      items.add(column == null ? null : new SourceQuery.Item(column.read(), column.type()));
    }
    for (AggregateFunc function : aggregation.aggregateExpressions()) {
      items.add(item(function, table));
    }
    // without any, as count(NULL) is 0 before the table is read, SELECT would not be one row
    if (items.isEmpty() || items.contains(null)) {
      return null;
    }
    StructType schema = new StructType();
    for (int i = 0; i < items.size(); i++) {
      schema = schema.add("a" + i, items.get(i).type(), true);
    }
    return new SourceAggregates(items, schema, aggregation.groupByExpressions().length);
  }

  private static SourceQuery.Item item(AggregateFunc function, SourceTable table) {
    if (function instanceof CountStar) {
      return new SourceQuery.Item("count(*)", DataTypes.LongType);
    } else if (function instanceof Count count) {
      SourceColumn column = count.isDistinct() ? exact(count.column(), table) : any(count.column(), table);
      String distinct = count.isDistinct() ? "DISTINCT " : "";
      return column == null
          ? null
          : new SourceQuery.Item("count(" + distinct + column.read() + ")", DataTypes.LongType);
    } else if (function instanceof Min min) {
      return extreme("min", exact(min.column(), table));
    } else if (function instanceof Max max) {
      return extreme("max", exact(max.column(), table));
    }
    boolean isPlainSum = function instanceof Sum sum && !sum.isDistinct();
    return isPlainSum ? sum(exact(((Sum) function).column(), table)) : null;
  }

  private static SourceQuery.Item extreme(String name, SourceColumn column) {
    return column == null || column.type() instanceof BooleanType
        ? null
        : new SourceQuery.Item(name + "(" + column.read() + ")", column.type());
  }

  /** A sum of BIGINT is Spark's alone: what happens to one that is too large, a user sets. */
  private static SourceQuery.Item sum(SourceColumn column) {
    if (column == null) {
      return null;
    }
    DataType type = null;
    if (column.type() instanceof IntegerType) {
      type = DataTypes.LongType;
    } else if (column.type() instanceof DecimalType of
        && of.precision() + DIGITS_OF_SUMS <= MOST_DIGITS) {
      type = new DecimalType(of.precision() + DIGITS_OF_SUMS, of.scale());
    }
    return type == null ? null : new SourceQuery.Item("sum(" + column.read() + ")", type);
  }

  private static SourceColumn any(Expression expression, SourceTable table) {
    return expression instanceof NamedReference name && name.fieldNames().length == 1
        ? table.column(name.fieldNames()[0])
        : null;
  }

  /** A column whose equal values are equal there, too, in the same order. */
  private static SourceColumn exact(Expression expression, SourceTable table) {
    SourceColumn column = any(expression, table);
    boolean isExact =
        column != null
            && column.isOrdered()
            && !(column.type() instanceof FloatType || column.type() instanceof DoubleType);
    return isExact ? column : null;
  }
}
