package io.sluice.engine;

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import scala.Function1;
import scala.runtime.AbstractPartialFunction;

/**
 * Takes the {@link Guarded} nodes out of a plan that was checked, so that Spark can optimise
 * across them. Enforces nothing: without it such a plan cannot be run.
 */
final class OpenGuarded extends Rule<LogicalPlan> {
  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    return (LogicalPlan) plan.transformUp(new Opening());
  }

  private static final class Opening extends AbstractPartialFunction<LogicalPlan, LogicalPlan> {
    @Override
    public boolean isDefinedAt(LogicalPlan node) {
      return node instanceof Guarded;
    }

    @Override
    @SuppressWarnings("unchecked")
    public <A extends LogicalPlan, B> B applyOrElse(A node, Function1<A, B> otherwise) {
      return node instanceof Guarded guarded ? (B) guarded.child() : otherwise.apply(node);
    }
  }
}
