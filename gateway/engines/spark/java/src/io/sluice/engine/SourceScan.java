package io.sluice.engine;

import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalLong;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/** One reading of a live table: by one statement, or by several that each take a range of keys. */
final class SourceScan implements Batch, SupportsReportStatistics {
  /** About so many make a part: results are handed out part by part. */
  private static final long ROWS_PER_PART = 100_000;

  private static final int MOST_PARTS = 200;
  private static final int RANGE_SECONDS = 10;

  private final SourceTable table;
  private final StructType schema;
  private final SourceQuery query;

  SourceScan(SourceTable table, StructType schema, SourceQuery query) {
    this.table = table;
    this.schema = schema;
    this.query = query;
  }

  @Override
  public StructType readSchema() {
    return schema;
  }

  @Override
  public String description() {
    return "live source " + table.name() + query.rest();
  }

  @Override
  public Batch toBatch() {
    return this;
  }

  /** As discovery found the table, whatever conditions leave of it. */
  @Override
  public Statistics estimateStatistics() {
    boolean isGrouped = query.groups() == 0;
    return new Statistics() {
      @Override
      public OptionalLong sizeInBytes() {
        return OptionalLong.of(isGrouped ? 1 : Math.max(table.bytes(), 1));
      }

      @Override
      public OptionalLong numRows() {
        return isGrouped ? OptionalLong.of(1) : OptionalLong.empty();
      }
    };
  }

  @Override
  public InputPartition[] planInputPartitions() {
    int wanted = parts();
    List<SourceQuery> parts = wanted > 1 ? ranges(wanted) : List.of(query);
    return parts.stream().map(Part::new).toArray(InputPartition[]::new);
  }

  private int parts() {
    boolean isWhole = query.groups() < 0 && query.limit() < 0;
    return isWhole && !table.splitBy().isEmpty()
        ? (int) Math.min(MOST_PARTS, table.rows() / ROWS_PER_PART)
        : 1;
  }

  /** Every value is in exactly one of them, also one below or above those that there are now. */
  private List<SourceQuery> ranges(int wanted) {
    SourceColumn split = table.column(table.splitBy());
    // as it is: of an expression over it no index tells the least and the greatest
    String column = split.compared().get(0).raw();
    long[] ends = ends(split, column);
    if (ends == null || ends[1] - ends[0] < wanted) {
      return List.of(query);
    }
    List<SourceQuery> parts = new ArrayList<>();
    double step = ((double) ends[1] - ends[0]) / wanted;
    for (int i = 0; i < wanted; i++) {
      long from = ends[0] + (long) (i * step);
      long to = ends[0] + (long) ((i + 1) * step);
      String below = column + " < " + to;
      String above = column + " >= " + from;
      String range = i == 0 ? below : i == wanted - 1 ? above : above + " AND " + below;
      parts.add(query.part(split, range));
    }
    return parts;
  }

  /** The least and the greatest key; null when the source does not tell them soon. */
  private long[] ends(SourceColumn split, String column) {
    List<SourceQuery.Item> items =
        List.of(
            new SourceQuery.Item("min(" + column + ")", DataTypes.LongType),
            new SourceQuery.Item("max(" + column + ")", DataTypes.LongType));
    SourceQuery both =
        new SourceQuery(
            table.datasource(), table.relation(), List.of(split), items, List.of(), 0, -1);
    String planned = TaskWatch.statementHere();
    SourcePlaces.Place place = Sources.placeNow(table.datasource(), planned);
    if (place == null) {
      return null;
    }
    try (place;
        SourceStatement statement = new SourceStatement(both, SourceQuery.FETCHED)) {
      ResultSet found = statement.run(RANGE_SECONDS);
      found.next();
      long[] ends = {found.getLong(1), found.getLong(2)};
      return found.wasNull() ? null : ends;
    } catch (SQLException e) {
      if (SourceStatement.isLeft(planned)) {
        throw Denied.cancelledBeforePlanning();
      }
      return null;
    }
  }

  private record Part(SourceQuery query) implements InputPartition {}

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return part -> new SourceRows(((Part) part).query());
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof SourceScan same
        && query.equals(same.query)
        && schema.equals(same.schema);
  }

  @Override
  public int hashCode() {
    return query.hashCode();
  }
}
