package io.sluice.engine;

import java.util.List;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Subquery;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import scala.Function1;
import scala.collection.Seq;
import scala.runtime.AbstractPartialFunction;

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
    return (LogicalPlan)
        plan.transformUpWithSubqueries(new Opening(NeverFails.everywhere(plan)));
  }

  private static final class Opening extends AbstractPartialFunction<LogicalPlan, LogicalPlan> {
    private final boolean withFilters;

    Opening(boolean withFilters) {
      this.withFilters = withFilters;
    }

    @Override
    public boolean isDefinedAt(LogicalPlan node) {
      return node instanceof Guarded guarded
          && (withFilters || guarded.rights().filters().isEmpty());
    }

    @Override
    @SuppressWarnings("unchecked")
    public <A extends LogicalPlan, B> B applyOrElse(A node, Function1<A, B> otherwise) {
      return isDefinedAt(node) ? (B) ((Guarded) node).child() : otherwise.apply(node);
    }
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
