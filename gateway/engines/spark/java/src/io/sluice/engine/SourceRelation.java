package io.sluice.engine;

import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.sources.RelationProvider;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.immutable.Map;

/**
 * A live source's table in the plan, until it is optimised. Of the kind that Spark leaves
 * unresolved until {@link TableRules} has had its turn; it has no rows of its own ({@link
 * SourceScans}).
 */
final class SourceRelation extends BaseRelation {
  private final SQLContext context;
  private final SourceTable table;

  private SourceRelation(SQLContext context, SourceTable table) {
    this.context = context;
    this.table = table;
  }

  /** The source's table that a plan's leaf is; null when it is something else. */
  static SourceTable in(LogicalPlan leaf) {
    boolean isLive =
        leaf instanceof LogicalRelation relation && relation.relation() instanceof SourceRelation;
    return isLive ? ((SourceRelation) ((LogicalRelation) leaf).relation()).table : null;
  }

  @Override
  public SQLContext sqlContext() {
    return context;
  }

  @Override
  public StructType schema() {
    return table.schema();
  }

  @Override
  public long sizeInBytes() {
    return Math.max(table.bytes(), 1);
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof SourceRelation same && table.equals(same.table);
  }

  @Override
  public int hashCode() {
    return table.hashCode();
  }

  @Override
  public String toString() {
    return "live source";
  }

  /** Made by Spark from the catalogue's entry, see {@link Tables#live}. */
  public static final class Provider implements RelationProvider {
    static final String TABLE = "sluice.source";

    @Override
    public BaseRelation createRelation(SQLContext context, Map<String, String> options) {
      Option<String> key = options.get(TABLE);
      return new SourceRelation(context, Sources.kept(key.isEmpty() ? "" : key.get()));
    }
  }
}
