package io.sluice.engine;

import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Function1;
import scala.Option;
import scala.collection.Seq;
import scala.runtime.AbstractPartialFunction;

/**
 * Exchanges the live tables of a plan that was checked for ones that Spark reads in parts, and to
 * which it hands down columns, conditions, aggregates and limits.
 */
final class SourceScans extends Rule<LogicalPlan> {
  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    return (LogicalPlan) plan.transformUp(new Exchange());
  }

  private static final class Exchange extends AbstractPartialFunction<LogicalPlan, LogicalPlan> {
    @Override
    public boolean isDefinedAt(LogicalPlan node) {
      return SourceRelation.in(node) != null;
    }

    @Override
    @SuppressWarnings("unchecked")
    public <A extends LogicalPlan, B> B applyOrElse(A node, Function1<A, B> otherwise) {
      SourceTable table = SourceRelation.in(node);
      if (table == null) {
        return otherwise.apply(node);
      }
      Seq<AttributeReference> output = ((LogicalRelation) (LogicalPlan) node).output();
      return (B)
          new DataSourceV2Relation(
              new Readable(table),
              output,
              Option.empty(),
              Option.empty(),
              CaseInsensitiveStringMap.empty());
    }
  }

  /** What Spark's plan has of the table. */
  private record Readable(SourceTable table) implements SupportsRead {
    @Override
    public String name() {
      return table.name();
    }

    @Override
    public StructType schema() {
      return table.schema();
    }

    @Override
    public Set<TableCapability> capabilities() {
      return Set.of(TableCapability.BATCH_READ);
    }

    @Override
    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
      return new SourceScanBuilder(table);
    }

    @Override
    public String toString() {
      return name();
    }
  }
}
