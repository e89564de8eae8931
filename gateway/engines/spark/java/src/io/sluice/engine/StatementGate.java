package io.sluice.engine;

import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.plans.logical.Command;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.CommandExecutionMode;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.command.DescribeQueryCommand;
import org.apache.spark.sql.execution.command.ExplainCommand;

/**
 * Decides on a parsed statement: queries go on to analysis, SHOW and DESCRIBE become small
 * tables answered from the catalogue and the policy, everything else is refused.
 */
final class StatementGate {
  private final SparkSession session;
  private final CommandGate commands;

  StatementGate(SparkSession session, Policy policy) {
    this.session = session;
    this.commands = new CommandGate(session, policy);
  }

  LogicalPlan admit(LogicalPlan plan) {
    LogicalPlan admitted = admitted(plan);
    Statement statement = Statement.here();
    if (statement != null && !(plan instanceof Command)) {
      statement.isQuery();
    }
    return admitted;
  }

  private LogicalPlan admitted(LogicalPlan plan) {
    if (plan instanceof ExplainCommand explain) {
      return explain(explain);
    }
    if (plan instanceof DescribeQueryCommand describe) {
      QueryExecution query = analyse(session, admitQuery(describe.plan()));
      return Answer.of(
          describe.output(), Answer.columnRows(session, query.analyzed().schema()));
    }
    if (plan instanceof Command) {
      return commands.admit(plan);
    }
    return admitQuery(plan);
  }

  private LogicalPlan admitQuery(LogicalPlan plan) {
    new ParsedCheck().walk(plan);
    PlanBounds.require(plan);
    return Settings.isOn(session, "sluice.hide_meta_columns")
        ? MetaColumns.hiddenIn(session, plan)
        : plan;
  }

  /**
   * The text is made here, so that storage addresses can be taken out of it. Where rights on rows
   * or columns hold, Spark's further plans would tell of what they hide.
   */
  private LogicalPlan explain(ExplainCommand explain) {
    QueryExecution query = analyse(session, admitted(explain.logicalPlan()));
    LogicalPlan analysed = query.analyzed();
    String text =
        Guarded.isIn(analysed) ? analysed.treeString() : query.explainString(explain.mode());
    return Answer.of(explain.output(), new Object[] {Scrub.addresses(text)});
  }

  /** Analyses without running; the check of the analysed plan applies. */
  static QueryExecution analyse(SparkSession session, LogicalPlan plan) {
    QueryExecution query =
        session.sessionState().executePlan(plan, CommandExecutionMode.SKIP());
    query.assertAnalyzed();
    return query;
  }
}
