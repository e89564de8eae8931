package io.sluice.engine;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.PlanExpression;
import org.apache.spark.sql.catalyst.plans.logical.CTERelationDef;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.SetOperation;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.execution.datasources.LogicalRelation;

/**
 * The tables of an analysed query with those columns of each that the query names, {@code *}
 * written out, whether or not its result hangs on them. What rules read is not among them.
 */
final class ReadTables extends PlanWalk {
  private final List<LogicalPlan> tables = new ArrayList<>();
  private final Set<Long> named = new HashSet<>();

  /** Columns by table, spelled as policies name tables. */
  static Map<String, Set<String>> of(LogicalPlan query) {
    ReadTables found = new ReadTables();
    found.name(query);
    found.walk(query);
    Map<String, Set<String>> columns = new TreeMap<>();
    for (LogicalPlan table : found.tables) {
      Set<String> ofTable = columns.computeIfAbsent(nameOf(table), name -> new TreeSet<>());
      for (Attribute column : Functions.list(table.output())) {
        if (found.named.contains(column.exprId().id())) {
          ofTable.add(Words.lower(column.name()));
        }
      }
    }
    return columns;
  }

  @Override
  boolean enter(LogicalPlan node) {
    if (node instanceof Guarded || node instanceof LogicalRelation) {
      tables.add(node);
      return false;
    }
    // by their places, under other identifiers
    if (node instanceof Union || node instanceof SetOperation || node instanceof CTERelationDef) {
      Functions.list(node.children()).forEach(this::name);
    }
    return true;
  }

  @Override
  void judge(Expression expression, Expression parent) {
    if (expression instanceof Attribute column && column.resolved()) {
      named.add(column.exprId().id());
    }
    if (expression instanceof PlanExpression<?> sub && sub.plan() instanceof LogicalPlan query) {
      name(query);
    }
  }

  private void name(LogicalPlan query) {
    Functions.list(query.output()).forEach(column -> named.add(column.exprId().id()));
  }

  private static String nameOf(LogicalPlan table) {
    LogicalRelation relation =
        table instanceof Guarded guarded ? guarded.relation() : (LogicalRelation) table;
    SourceTable live = SourceRelation.in(relation);
    if (live != null) {
      return live.name();
    }
    TableIdentifier name = relation.catalogTable().get().identifier();
    String database = Words.lower(name.database().getOrElse(() -> ""));
    return SourceTable.nameOf(List.of(database, Words.lower(name.table())));
  }
}
