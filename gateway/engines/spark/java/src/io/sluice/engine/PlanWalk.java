package io.sluice.engine;

import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.PlanExpression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import scala.Option;
import scala.Product;
import scala.Tuple2;
import scala.collection.Iterator;

/**
 * Visits every plan node and expression of a statement, wherever it hides: children, inner
 * children, sub-queries, constructor arguments, collections of them.
 */
abstract class PlanWalk {
  private final Set<Object> seen = Collections.newSetFromMap(new IdentityHashMap<>());

  /** Judges a node; true to walk on into it. */
  abstract boolean enter(LogicalPlan node);

  /** Judges an expression found below {@code parent} (null at the top of a node). */
  abstract void judge(Expression expression, Expression parent);

  final void walk(LogicalPlan node) {
    if (node == null || !seen.add(node) || !enter(node)) {
      return;
    }
    arguments(node, null);
    each(node.children().iterator(), null);
    each(node.innerChildren().iterator(), null);
  }

  private void walk(Expression expression, Expression parent) {
    if (!seen.add(expression)) {
      return;
    }
    judge(expression, parent);
    if (expression instanceof PlanExpression<?> sub) {
      any(sub.plan(), expression);
    }
    arguments(expression, expression);
    each(expression.children().iterator(), expression);
  }

  private void arguments(Product product, Expression parent) {
    each(product.productIterator(), parent);
  }

  private void each(Iterator<?> items, Expression parent) {
    while (items.hasNext()) {
      any(items.next(), parent);
    }
  }

  private void any(Object item, Expression parent) {
    if (item instanceof LogicalPlan plan) {
      walk(plan);
    } else if (item instanceof Expression expression) {
      walk(expression, parent);
    } else if (item instanceof Option<?> option) {
      each(option.iterator(), parent);
    } else if (item instanceof Tuple2<?, ?> pair) {
      any(pair._1(), parent);
      any(pair._2(), parent);
    } else if (item instanceof scala.collection.Iterable<?> many) {
      each(many.iterator(), parent);
    } else if (item instanceof Product product && isKnown(item)) {
      arguments(product, parent);
    }
  }

  /** Small value classes of Spark, and tuples, may carry expressions too. */
  private boolean isKnown(Object item) {
    String name = item.getClass().getName();
    return (name.startsWith("org.apache.spark.sql.catalyst.") || name.startsWith("scala."))
        && seen.add(item);
  }
}
