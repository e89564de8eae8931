package io.sluice.engine;

import java.util.Set;
import org.apache.spark.sql.catalyst.analysis.UnresolvedFunction;
import org.apache.spark.sql.catalyst.analysis.UnresolvedGenerator;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.analysis.UnresolvedTableValuedFunction;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.PlanExpression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.TimeTravelRelation;
import scala.collection.Seq;

/**
 * Judges a query before it is analysed. Needed beside {@link PlanCheck} because analysis itself
 * evaluates inline tables, arguments of table functions and time-travel expressions, and reads
 * paths given to table functions.
 */
final class ParsedCheck extends PlanWalk {
  private static final Set<String> WITH_SCHEMA = Set.of("from_json", "from_csv");
  private static final Set<String> INFERS_SCHEMA = Set.of("schema_of_json", "schema_of_csv");

  @Override
  boolean enter(LogicalPlan node) {
    if (!AllowedPlans.isParsedQuery(node.getClass())) {
      throw Denied.forbidden(describe(node));
    }
    if (node instanceof UnresolvedTableValuedFunction call) {
      requireTableFunction(call.name());
    }
    if (node instanceof UnresolvedRelation relation && relation.isStreaming()) {
      throw Denied.forbidden("Streaming reads are not open to SQL users.");
    }
    if (node instanceof TimeTravelRelation older && older.version().isDefined()) {
      throw Denied.unsupported(
          "VERSION AS OF is not read here. An older state of a table is read by"
              + " TIMESTAMP AS OF '<instant or time in UTC>'.");
    }
    if (node instanceof TimeTravelRelation older && isOfSource(older.relation())) {
      throw Denied.olderSource();
    }
    if (node.getClass().getSimpleName().contains("TimeTravel")) {
      node.expressions().foreach(Functions.of(ParsedCheck::requireConstant));
    }
    return true;
  }

  private static boolean isOfSource(LogicalPlan table) {
    return table instanceof UnresolvedRelation named
        && named.multipartIdentifier().size() > 2
        && !CommandGate.isLake(named.multipartIdentifier().head());
  }

  /** Analysis would already run a sub-query in a point in time. */
  private static void requireConstant(Expression instant) {
    if (instant instanceof PlanExpression) {
      throw Denied.forbidden("A point in time must be a constant.");
    }
    instant.children().foreach(Functions.of(ParsedCheck::requireConstant));
  }

  @Override
  void judge(Expression expression, Expression parent) {
    if (!AllowedExpressions.isAllowedParsed(expression.getClass())) {
      throw Denied.forbidden(
          "Expression " + Denied.words(expression) + " is not open to SQL users.");
    }
    if (expression instanceof UnresolvedFunction call) {
      requireFunction(call.nameParts());
      requireBoundedSchema(call);
    } else if (expression instanceof UnresolvedGenerator call) {
      if (call.name().database().isDefined()) {
        throw Denied.forbidden("Only built-in functions can be called.");
      }
      requireTableFunction(call.name().funcName());
    }
  }

  static Denied refused(LogicalPlan node) {
    return Denied.forbidden(describe(node));
  }

  private static String describe(LogicalPlan node) {
    if (node.getClass().getSimpleName().contains("UnresolvedIdentifier")) {
      return "IDENTIFIER() is not open to SQL users, as it can hide what is read."
          + " Write the name itself.";
    }
    return Denied.words(node)
        + " is not open to SQL users. Lake tables are read-only;"
        + " allowed are SELECT, SHOW, DESCRIBE, EXPLAIN, USE and listed SETs.";
  }

  private static void requireFunction(Seq<String> name) {
    if (name.size() != 1 || !AllowedExpressions.isAllowedFunction(name.apply(0))) {
      throw Denied.forbidden("Function " + name.mkString(".") + " is not open to SQL users.");
    }
  }

  /** The schema of these is parsed during analysis, by a parser that is not ours. */
  private static void requireBoundedSchema(UnresolvedFunction call) {
    String name = Words.lower(call.nameParts().last());
    if (!WITH_SCHEMA.contains(name) || call.arguments().size() < 2) {
      return;
    }
    Expression schema = call.arguments().apply(1);
    if (schema instanceof Literal literal) {
      StatementBounds.require(String.valueOf(literal.value()));
    } else if (!(schema instanceof UnresolvedFunction inner
        && INFERS_SCHEMA.contains(Words.lower(inner.nameParts().last())))) {
      throw Denied.forbidden("The schema of " + name + " must be written as a string.");
    }
  }

  private static void requireTableFunction(Seq<String> name) {
    requireTableFunction(name.mkString("."));
  }

  private static void requireTableFunction(String name) {
    if (!AllowedExpressions.isAllowedTableFunction(name)) {
      throw Denied.forbidden("Table function " + name + " is not open to SQL users.");
    }
  }
}
