package io.sluice.engine;

import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.SupportsPushDownAggregates;
import org.apache.spark.sql.connector.read.SupportsPushDownLimit;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsPushDownV2Filters;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/** Takes over what the source computes as Spark does; all else stays Spark's. */
final class SourceScanBuilder
    implements SupportsPushDownV2Filters,
        SupportsPushDownAggregates,
        SupportsPushDownLimit,
        SupportsPushDownRequiredColumns {
  private final SourceTable table;
  private final List<SourceCondition> where = new ArrayList<>();
  private final Set<SourceColumn> columns = new LinkedHashSet<>();
  private Predicate[] pushed = {};
  private StructType schema;
  private SourceAggregates aggregates;
  private int limit = -1;

  SourceScanBuilder(SourceTable table) {
    this.table = table;
    this.schema = table.schema();
  }

  @Override
  public Predicate[] pushPredicates(Predicate[] predicates) {
    List<Predicate> taken = new ArrayList<>();
    List<Predicate> left = new ArrayList<>();
    for (Predicate predicate : predicates) {
      SourceCondition condition = SourceCondition.of(predicate, table);
      if (condition == null) {
        left.add(predicate);
      } else {
        taken.add(predicate);
        where.add(condition);
        looksAt(predicate);
      }
    }
    pushed = taken.toArray(Predicate[]::new);
    return left.toArray(Predicate[]::new);
  }

  @Override
  public Predicate[] pushedPredicates() {
    return pushed;
  }

  @Override
  public boolean supportCompletePushDown(Aggregation aggregation) {
    return SourceAggregates.of(aggregation, table) != null;
  }

  @Override
  public boolean pushAggregation(Aggregation aggregation) {
    aggregates = SourceAggregates.of(aggregation, table);
    if (aggregates == null) {
      return false;
    }
    looksAt(aggregation.groupByExpressions());
    looksAt(aggregation.aggregateExpressions());
    return true;
  }

  @Override
  public boolean pushLimit(int rows) {
    limit = rows;
    return true;
  }

  @Override
  public void pruneColumns(StructType required) {
    schema = required;
  }

  @Override
  public Scan build() {
    if (aggregates != null) {
      SourceQuery query = query(aggregates.items(), aggregates.groups());
      return new SourceScan(table, aggregates.schema(), query);
    }
    List<SourceQuery.Item> items = new ArrayList<>();
    for (StructField field : schema.fields()) {
      SourceColumn column = table.column(field.name());
      columns.add(column);
      items.add(new SourceQuery.Item(column.read(), column.type()));
    }
    return new SourceScan(table, schema, query(items, -1));
  }

  private SourceQuery query(List<SourceQuery.Item> items, int groups) {
    return new SourceQuery(
        table.datasource(),
        table.relation(),
        List.copyOf(columns),
        items,
        List.copyOf(where),
        groups,
        limit);
  }

  private void looksAt(Expression... expressions) {
    for (Expression expression : expressions) {
      for (NamedReference name : expression.references()) {
        columns.add(table.column(name.fieldNames()[0]));
      }
    }
  }
}
