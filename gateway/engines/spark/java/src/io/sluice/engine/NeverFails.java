package io.sluice.engine;

import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.BinaryArithmetic;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Like;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.PlanExpression;
import org.apache.spark.sql.catalyst.expressions.UnaryMinus;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.NumericType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.TimestampType;

/** Which expressions have a value for whatever row, and no error: an allow-list by class. */
final class NeverFails {
  private static final String PACKAGE = "org.apache.spark.sql.catalyst.expressions.";

  private static final Set<String> ALWAYS =
      Words.of(
          """
          Alias And AttributeReference CaseWhen Coalesce Concat Contains CurrentRow DayOfMonth
          DenseRank EndsWith EqualNullSafe EqualTo Exists GetStructField GreaterThan
          GreaterThanOrEqual Greatest If In InSet InSubquery IsNaN IsNotNull IsNull
          KnownFloatingPointNormalized Lag Lead Least Length LessThan LessThanOrEqual ListQuery
          Literal Lower Month Not Or OuterReference Quarter Rank RowNumber ScalarSubquery
          SortOrder SpecifiedWindowFrame StartsWith StringTrim StringTrimLeft StringTrimRight
          Substring UnboundedFollowing UnboundedPreceding Upper WindowExpression
          WindowSpecDefinition Year
          aggregate.AggregateExpression aggregate.Average aggregate.Count aggregate.Max
          aggregate.Min aggregate.Sum
          """);

  private NeverFails() {}

  /** True when that holds for all of a statement above its tables, sub-queries included. */
  static boolean everywhere(LogicalPlan plan) {
    return plan instanceof Guarded
        || Functions.list(plan.expressions()).stream().allMatch(NeverFails::inside)
            && Functions.list(plan.children()).stream().allMatch(NeverFails::everywhere);
  }

  /** True when that holds for an expression and all in it. */
  static boolean inside(Expression expression) {
    boolean isSubQuerySafe =
        !(expression instanceof PlanExpression<?> sub)
            || sub.plan() instanceof LogicalPlan plan && everywhere(plan);
    return isSubQuerySafe
        && byItself(expression)
        && Functions.list(expression.children()).stream().allMatch(NeverFails::inside);
  }

  private static boolean byItself(Expression expression) {
    if (expression instanceof Cast cast) {
      DataType from = cast.child().dataType();
      boolean isPlain = isPlain(from) && isPlain(cast.dataType());
      return isPlain && (!cast.ansiEnabled() || Cast.canUpCast(from, cast.dataType()));
    }
    if (expression instanceof BinaryArithmetic sum) {
      return sum.dataType() instanceof NumericType && !sum.failOnError();
    }
    if (expression instanceof UnaryMinus minus) {
      return minus.dataType() instanceof NumericType && !minus.failOnError();
    }
    if (expression instanceof Like like) {
      return like.right() instanceof Literal;
    }
    String name = expression.getClass().getName();
    return name.startsWith(PACKAGE)
        && ALWAYS.contains(Words.withoutModuleSign(name.substring(PACKAGE.length())));
  }

  private static boolean isPlain(DataType type) {
    return type instanceof NumericType
        || type instanceof BooleanType
        || type instanceof StringType
        || type instanceof DateType
        || type instanceof TimestampType;
  }
}
