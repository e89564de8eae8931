package io.sluice.engine;

import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.expressions.Cube;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GroupingSets;
import org.apache.spark.sql.catalyst.expressions.PlanExpression;
import org.apache.spark.sql.catalyst.expressions.Rollup;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.UnresolvedWith;

/**
 * Refuses a parsed query whose plan would be far larger than its text. Spark copies a part of WITH
 * to each place that names it: forty parts that name the one before them twice are 2^40 plans. It
 * writes out each set of columns of GROUP BY CUBE: twenty columns are a million of them.
 */
final class PlanBounds {
  static final int MOST_COPIES = 1_000;
  static final int MOST_GROUPINGS = 4_096;
  private static final long ENOUGH = 1L << 40; // so that no sum overflows

  private PlanBounds() {}

  /** Throws {@link Denied} with the limit and what was found instead. */
  static void require(LogicalPlan query) {
    long copies = leavesIn(query, Map.of(), 0);
    if (copies > MOST_COPIES) {
      throw Denied.tooComplex(
          "Written out wherever they are named, the parts of WITH read "
              + copies
              + " relations; at most "
              + MOST_COPIES);
    }
  }

  /**
   * How many leaves of parts of WITH there are once each name has been replaced by its part.
   *
   * @param each what a leaf counts that stands here itself: nothing outside of WITH
   */
  private static long leavesIn(LogicalPlan node, Map<String, Long> parts, int each) {
    if (node instanceof UnresolvedWith with) {
      Map<String, Long> known = new HashMap<>(parts);
      for (var part : Functions.list(with.cteRelations())) {
        known.put(Words.lower(part._1()), leavesIn(part._2(), known, 1));
      }
      return leavesIn(with.child(), known, each);
    }
    if (node instanceof UnresolvedRelation relation) {
      String name = Words.lower(relation.multipartIdentifier().mkString("."));
      return parts.getOrDefault(name, (long) each);
    }
    if (node instanceof Aggregate aggregate) {
      requireFewGroupings(aggregate);
    }
    long sum = node.children().isEmpty() ? each : 0;
    for (LogicalPlan child : Functions.list(node.children())) {
      sum += leavesIn(child, parts, each);
    }
    for (Expression expression : Functions.list(node.expressions())) {
      sum += leavesIn(expression, parts, each);
    }
    return Math.min(sum, ENOUGH);
  }

  private static long leavesIn(Expression expression, Map<String, Long> parts, int each) {
    long sum = 0;
    if (expression instanceof PlanExpression<?> sub && sub.plan() instanceof LogicalPlan plan) {
      sum += leavesIn(plan, parts, each);
    }
    for (Expression child : Functions.list(expression.children())) {
      sum += leavesIn(child, parts, each);
    }
    return Math.min(sum, ENOUGH);
  }

  /** Several of them in one GROUP BY are combined, each set with each. */
  private static void requireFewGroupings(Aggregate aggregate) {
    long sets = 1;
    for (Expression expression : Functions.list(aggregate.groupingExpressions())) {
      if (expression instanceof Cube cube) {
        sets *= 1L << Math.min(cube.groupingSetIndexes().size(), 20);
      } else if (expression instanceof Rollup rollup) {
        sets *= rollup.groupingSetIndexes().size() + 1L;
      } else if (expression instanceof GroupingSets listed) {
        sets *= listed.groupingSetIndexes().size();
      }
      if (sets > MOST_GROUPINGS) {
        throw Denied.tooComplex(
            "GROUP BY has more sets of columns than can be planned; at most " + MOST_GROUPINGS);
      }
    }
  }
}
