package io.sluice.engine;

import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.CodegenSupport;
import org.apache.spark.sql.execution.ColumnarRule;
import org.apache.spark.sql.execution.InputRDDCodegen;
import org.apache.spark.sql.execution.SparkPlan;

/**
 * Puts an {@link InterruptibleExec} where generated code ends. That code looks whether its task is
 * killed only between the batches of a source; asked for one row at a time, as by an aggregation of
 * objects, it never comes there: Spark's range and explode went on after a cancel until their last
 * row. Applied right before code is generated, in adaptive execution to each of its stages; which
 * is the moment to judge how many tasks there will be.
 */
final class InterruptibleStages extends ColumnarRule {
  @Override
  public Rule<SparkPlan> postColumnarTransitions() {
    return new Rule<>() {
      @Override
      public SparkPlan apply(SparkPlan plan) {
        PartBounds.require(plan);
        SparkPlan ended = ended(belowOf(plan));
        leavePlanning();
        return ended;
      }
    };
  }

  /** What follows for this thread is mostly waiting for tasks. */
  private static void leavePlanning() {
    Engine engine = Engine.get();
    if (engine != null) {
      engine.planning().leave();
    }
  }

  private static SparkPlan belowOf(SparkPlan plan) {
    boolean isGenerated = isGenerated(plan);
    return (SparkPlan)
        plan.mapChildren(child -> isGenerated ? belowOf(child) : ended(belowOf(child)));
  }

  /** Not over rows that lie ready: Spark takes these without a task, and reads them killably. */
  private static SparkPlan ended(SparkPlan plan) {
    boolean isReady = plan instanceof InputRDDCodegen;
    return isGenerated(plan) && !isReady ? new InterruptibleExec(plan) : plan;
  }

  private static boolean isGenerated(SparkPlan plan) {
    return plan instanceof CodegenSupport node && node.supportCodegen();
  }
}
