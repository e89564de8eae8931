package io.sluice.engine;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import scala.Function1;
import scala.collection.IndexedSeq;
import scala.collection.Seq;
import scala.runtime.BoxedUnit;

/**
 * A table as its reader's rights leave it. Not a unary node of Spark's: names that are missing
 * above are looked for through those, and would be found in the table below.
 */
public final class Guarded extends LogicalPlan {
  private final LogicalPlan child;
  private final TableRights rights;

  /** Public, because Spark copies nodes by it. */
  public Guarded(LogicalPlan child, TableRights rights) {
    this.child = child;
    this.rights = rights;
  }

  /** True when the plan or a sub-query of it has such a node. */
  static boolean isIn(LogicalPlan plan) {
    return plan.collectWithSubqueries(
            Functions.partial((LogicalPlan node) -> node instanceof Guarded ? node : null))
        .nonEmpty();
  }

  TableRights rights() {
    return rights;
  }

  LogicalPlan child() {
    return child;
  }

  /** The table itself; null when anything but this table's rows lies below. */
  LogicalRelation relation() {
    List<LogicalPlan> leaves = Functions.list(child.collectLeaves());
    return leaves.size() == 1 && leaves.get(0) instanceof LogicalRelation only ? only : null;
  }

  @Override
  public Seq<Attribute> output() {
    return child.output();
  }

  /** Columns that tell where files lie are not passed on. */
  @Override
  public Seq<Attribute> metadataOutput() {
    return Functions.seq(List.of());
  }

  @Override
  public Seq<LogicalPlan> children() {
    return Functions.seq(List.of(child));
  }

  @Override
  public LogicalPlan withNewChildrenInternal(IndexedSeq<LogicalPlan> children) {
    return new Guarded(children.apply(0), rights);
  }

  /** The text of a plan, in errors too, has the columns but not how they are made. */
  @Override
  public void generateTreeString(
      int depth,
      ArrayList<Object> lastChildren,
      Function1<String, BoxedUnit> append,
      boolean verbose,
      String prefix,
      boolean addSuffix,
      int maxFields,
      boolean printNodeId,
      int indent) {
    if (!(child instanceof LocalRelation)) {
      LogicalPlan empty = new LocalRelation(output(), Functions.seq(List.of()), false);
      new Guarded(empty, rights)
          .generateTreeString(
              depth, lastChildren, append, verbose, prefix, addSuffix, maxFields, printNodeId,
              indent);
      return;
    }
    super.generateTreeString(
        depth, lastChildren, append, verbose, prefix, addSuffix, maxFields, printNodeId, indent);
  }

  @Override
  public String simpleString(int maxFields) {
    return "Guarded (" + rights.rules() + " rules)";
  }

  @Override
  public int productArity() {
    return 2;
  }

  @Override
  public Object productElement(int index) {
    return index == 0 ? child : rights;
  }

  @Override
  public boolean canEqual(Object other) {
    return other instanceof Guarded;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof Guarded same
        && child.equals(same.child)
        && rights.equals(same.rights);
  }

  @Override
  public int hashCode() {
    return 31 * child.hashCode() + rights.hashCode();
  }
}
