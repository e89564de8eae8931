package io.sluice.engine;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute;
import org.apache.spark.sql.catalyst.analysis.UnresolvedStar;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import scala.Option;
import scala.collection.Seq;

/**
 * Lets columns be written {@code lake.db.table.column}: Spark qualifies the columns of lake tables
 * by the session catalog's own name, so the first word is changed to that.
 */
final class LakeNames extends Rule<LogicalPlan> {
  private static final int TABLE_PARTS = 3;

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    return (LogicalPlan) plan.transformAllExpressions(Functions.partial(LakeNames::renamed));
  }

  /** Null for what stays as it is. */
  private static Expression renamed(Expression expression) {
    if (expression instanceof UnresolvedAttribute name
        && isLake(name.nameParts(), TABLE_PARTS + 1)) {
      return new UnresolvedAttribute(inSession(name.nameParts()));
    }
    if (expression instanceof UnresolvedStar star
        && star.target().isDefined()
        && isLake(star.target().get(), TABLE_PARTS)) {
      return new UnresolvedStar(Option.apply(inSession(star.target().get())));
    }
    return null;
  }

  private static boolean isLake(Seq<String> name, int parts) {
    return name.size() >= parts && name.apply(0).equalsIgnoreCase("lake");
  }

  private static Seq<String> inSession(Seq<String> name) {
    List<String> parts = new ArrayList<>(Functions.list(name));
    parts.set(0, "spark_catalog");
    return Functions.seq(parts);
  }
}
