package io.sluice.engine;

import java.util.List;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.CaseWhen;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.KnownNullable;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Not;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNodeTag;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DataTypes;
import scala.Option;
import scala.Tuple2;

/**
 * Says in another way what Spark fails at as it offers conditions to a source (assertions in its
 * V2ExpressionBuilder), where a live table is read: {@code a AND NULL} and {@code a OR NULL} as
 * CASE, which it makes itself of a comparison with a number beyond the column's type, and a cast to
 * BOOLEAN in ANSI mode in a wrapper that it does not offer.
 */
final class UnofferedConditions extends Rule<LogicalPlan> {
  private static final TreeNodeTag<Boolean> WRAPPED = new TreeNodeTag<>("sluice.wrapped");

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    return readsLive(plan)
        ? (LogicalPlan) plan.transformAllExpressions(Functions.partial(UnofferedConditions::inAnotherWay))
        : plan;
  }

  private static boolean readsLive(LogicalPlan plan) {
    return Functions.list(plan.collectLeaves()).stream()
        .anyMatch(DataSourceV2Relation.class::isInstance);
  }

  /** Null for an expression that stays. */
  private static Expression inAnotherWay(Expression found) {
    if (found instanceof And and) {
      Expression other = besideNull(and.left(), and.right());
      return other == null ? null : when(new Not(other), false);
    } else if (found instanceof Or or) {
      Expression other = besideNull(or.left(), or.right());
      return other == null ? null : when(other, true);
    } else if (found instanceof Cast cast && isOffered(cast)) {
      cast.setTagValue(WRAPPED, true);
      return new KnownNullable(cast);
    }
    return null;
  }

  private static boolean isOffered(Cast cast) {
    return cast.ansiEnabled()
        && cast.dataType() instanceof BooleanType
        && cast.getTagValue(WRAPPED).isEmpty();
  }

  private static Expression besideNull(Expression left, Expression right) {
    return isNull(right) ? left : isNull(left) ? right : null;
  }

  private static boolean isNull(Expression side) {
    return side instanceof Literal literal && literal.value() == null;
  }

  private static Expression when(Expression condition, boolean then) {
    Expression value = Literal.create(then, DataTypes.BooleanType);
    return new CaseWhen(Functions.seq(List.of(new Tuple2<>(condition, value))), Option.empty());
  }
}
