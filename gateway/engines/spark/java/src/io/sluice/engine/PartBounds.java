package io.sluice.engine;

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Range;
import org.apache.spark.sql.catalyst.plans.logical.RebalancePartitions;
import org.apache.spark.sql.catalyst.plans.logical.Repartition;
import org.apache.spark.sql.catalyst.plans.logical.RepartitionByExpression;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.LeafExecNode;
import org.apache.spark.sql.execution.RangeExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.UnionExec;
import org.apache.spark.sql.execution.adaptive.QueryStageExec;
import org.apache.spark.sql.execution.exchange.Exchange;
import org.apache.spark.sql.execution.joins.CartesianProductExec;
import scala.Option;

/**
 * Refuses what asks for more tasks than the engine can hold. {@code range(0, 1000000000, 1,
 * 100000000)} is a hundred million of them, which Spark's scheduler makes at once, on its only
 * thread: where that runs out of memory, it ends with the statements of everybody.
 */
final class PartBounds {
  static final int MOST_OF_ONE = 999; // as spark.sql.shuffle.partitions may be set to
  static final int MOST_TASKS = 10_000;
  private static final long ENOUGH = 1L << 40; // so that no product overflows

  private PartBounds() {}

  /** Judges a node of an analysed plan: a range or a hint that names its number of parts. */
  static void require(LogicalPlan node) {
    long asked = askedBy(node);
    if (asked > MOST_OF_ONE) {
      throw Denied.tooComplex(
          "A range or a hint asks for " + asked + " parts; at most " + MOST_OF_ONE);
    }
  }

  /** Judges what is about to be run, a stage or a whole plan. */
  static void require(SparkPlan plan) {
    long tasks = tasksOf(plan, false);
    if (tasks > MOST_TASKS) {
      throw Denied.tooComplex(
          "A step would be run as " + tasks + " tasks, each with a part; at most " + MOST_TASKS);
    }
  }

  private static long askedBy(LogicalPlan node) {
    if (node instanceof Range range) {
      return numberOf(range.numSlices());
    }
    if (node instanceof Repartition one) {
      return one.numPartitions();
    }
    if (node instanceof RepartitionByExpression one) {
      return numberOf(one.optNumPartitions());
    }
    return node instanceof RebalancePartitions one ? numberOf(one.optNumPartitions()) : 0;
  }

  private static long numberOf(Option<?> asked) {
    return asked.isEmpty() ? 0 : ((Number) asked.get()).longValue();
  }

  /** A union has the tasks of all its parts, a product each with each, all else go in step. */
  private static long tasksOf(SparkPlan node, boolean isInProduct) {
    if (node instanceof Exchange) {
      require(node.children().head());
      return node.outputPartitioning().numPartitions();
    }
    if (node instanceof LeafExecNode) {
      return tasksOfLeaf(node, isInProduct);
    }
    boolean isProduct = node instanceof CartesianProductExec;
    long tasks = isProduct ? 1 : 0;
    for (SparkPlan child : Functions.list(node.children())) {
      long more = tasksOf(child, isInProduct || isProduct);
      if (isProduct) {
        tasks *= Math.max(1, more);
      } else {
        tasks = node instanceof UnionExec ? tasks + more : Math.max(tasks, more);
      }
      tasks = Math.min(tasks, ENOUGH);
    }
    return tasks;
  }

  private static long tasksOfLeaf(SparkPlan leaf, boolean isInProduct) {
    if (leaf instanceof RangeExec range) {
      return range.numSlices();
    }
    if (leaf instanceof QueryStageExec) {
      return leaf.outputPartitioning().numPartitions();
    }
    // Its files are listed for that, which is only worth it where tasks multiply. A scan that
    // waits for a sub-query's values, to leave partitions out, cannot tell yet.
    boolean isTold = isInProduct && leaf instanceof FileSourceScanExec;
    if (isTold && leaf.subqueries().isEmpty()) {
      return ((FileSourceScanExec) leaf).inputRDD().getNumPartitions();
    }
    return 1;
  }
}
