package io.sluice.engine;

import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/**
 * Installs the Guard in every session: a gate behind the parser (nothing forbidden is even
 * analysed), what leaves of each table what its reader may have, and a check of the analysed plan
 * (the authority); and what lets a cancel reach every task. Must be the last extension, so that its parser is the outermost.
 */
public final class GuardExtension extends AbstractFunction1<SparkSessionExtensions, BoxedUnit> {
  @Override
  public BoxedUnit apply(SparkSessionExtensions extensions) {
    extensions.injectParser(GuardedParser::new);
    extensions.injectResolutionRule(session -> new LakeNames());
    extensions.injectResolutionRule(TableRules::new);
    extensions.injectOptimizerRule(session -> new OpenGuarded());
    extensions.injectOptimizerRule(session -> new SourceScans());
    extensions.injectOptimizerRule(session -> new UnofferedConditions());
    extensions.injectPlannerStrategy(session -> new OpenGuarded.Planning());
    extensions.injectCheckRule(session -> Functions.of(plan -> check(session, plan)));
    extensions.injectColumnar(session -> new InterruptibleStages());
    return BoxedUnit.UNIT;
  }

  private static void check(SparkSession session, LogicalPlan plan) {
    if (!Engine.owns(session)) {
      new PlanCheck(Engine.get().policyOf(session)).check(plan);
    }
  }
}
