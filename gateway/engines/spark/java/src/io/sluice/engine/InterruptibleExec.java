package io.sluice.engine;

import java.io.Serializable;
import java.util.List;
import org.apache.spark.TaskContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.execution.SparkPlan;
import scala.collection.IndexedSeq;
import scala.collection.Iterator;
import scala.collection.Seq;
import scala.reflect.ClassTag;
import scala.reflect.ClassTag$;
import scala.runtime.AbstractFunction1;

/** Its child's rows as they are; before each, the task ends if it has been killed meanwhile. */
public final class InterruptibleExec extends SparkPlan {
  private final SparkPlan child;

  public InterruptibleExec(SparkPlan child) {
    this.child = child;
  }

  @Override
  public RDD<InternalRow> doExecute() {
    ClassTag<InternalRow> rows = ClassTag$.MODULE$.apply(InternalRow.class);
    return child.execute().mapPartitionsInternal(new Interruptible(), true, rows);
  }

  @Override
  public Seq<Attribute> output() {
    return child.output();
  }

  @Override
  public Partitioning outputPartitioning() {
    return child.outputPartitioning();
  }

  @Override
  public Seq<SortOrder> outputOrdering() {
    return child.outputOrdering();
  }

  @Override
  public Seq<SparkPlan> children() {
    return Functions.seq(List.of(child));
  }

  @Override
  public SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> children) {
    return new InterruptibleExec(children.apply(0));
  }

  @Override
  public int productArity() {
    return 1;
  }

  @Override
  public Object productElement(int index) {
    return child;
  }

  @Override
  public boolean canEqual(Object other) {
    return other instanceof InterruptibleExec;
  }

  /** As case classes do: plans that compute the same are found by it and computed once. */
  @Override
  public boolean equals(Object other) {
    return other instanceof InterruptibleExec same && child.equals(same.child);
  }

  @Override
  public int hashCode() {
    return 31 * child.hashCode() + 1;
  }

  private static final class Interruptible
      extends AbstractFunction1<Iterator<InternalRow>, Iterator<InternalRow>>
      implements Serializable {
    @Override
    public Iterator<InternalRow> apply(Iterator<InternalRow> rows) {
      return new EndedStatements.Rows(TaskContext.get(), rows);
    }
  }
}
