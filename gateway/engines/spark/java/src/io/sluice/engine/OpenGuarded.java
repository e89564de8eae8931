package io.sluice.engine;

import java.util.List;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Subquery;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import scala.collection.Seq;

/**
 * Takes the {@link Guarded} nodes out of a plan that was checked, so that Spark can optimise
 * across them. Where the statement has an expression that can fail, the nodes over row filters
 * stay until the plan is made physical: Spark could bring such an expression below the filter, by
 * partition pruning or by what it infers from equalities, and its error would have values of
 * hidden rows.
 */
final class OpenGuarded extends Rule<LogicalPlan> {
  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    if (plan instanceof Subquery || !Guarded.isIn(plan)) {
      return plan; // Opened with its statement, whose conditions may come into it.
    }
    boolean withFilters = NeverFails.everywhere(plan);
    return (LogicalPlan)
        plan.transformUpWithSubqueries(Functions.partial(node -> opened(node, withFilters)));
  }

  /** Null for a node that stays. */
  private static LogicalPlan opened(LogicalPlan node, boolean withFilters) {
    boolean isOpened =
        node instanceof Guarded guarded && (withFilters || guarded.rights().filters().isEmpty());
    return isOpened ? ((Guarded) node).child() : null;
  }

  /** Makes a node that stayed physical: its filter runs before anything above it. */
  static final class Planning extends SparkStrategy {
    @Override
    public Seq<SparkPlan> apply(LogicalPlan plan) {
      return plan instanceof Guarded guarded
          ? Functions.seq(List.of(planLater(guarded.child())))
          : Functions.seq(List.of());
    }
  }
}
