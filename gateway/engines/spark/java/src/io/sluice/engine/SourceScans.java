package io.sluice.engine;

import java.util.Set;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Option;

/**
 * Exchanges the live tables of a plan that was checked for ones that Spark reads in parts, and to
 * which it hands down columns, conditions, aggregates and limits.
 */
final class SourceScans extends Rule<LogicalPlan> {
  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    return (LogicalPlan) plan.transformUp(Functions.partial(SourceScans::exchanged));
  }

  /** Null for a node that stays. */
  private static LogicalPlan exchanged(LogicalPlan node) {
    SourceTable table = SourceRelation.in(node);
    if (table == null) {
      return null;
    }
    return new DataSourceV2Relation(
        new Readable(table),
        ((LogicalRelation) node).output(),
        Option.empty(),
        Option.empty(),
        CaseInsensitiveStringMap.empty());
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
