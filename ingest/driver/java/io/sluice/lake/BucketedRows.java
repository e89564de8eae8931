package io.sluice.lake;

import java.util.Iterator;
import java.util.List;
import org.apache.commons.collections4.IteratorUtils;
import org.apache.spark.ContextCleaner;
import org.apache.spark.Dependency;
import org.apache.spark.ShuffleDependency;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.CollectMetricsExec$;
import org.apache.spark.sql.execution.SparkPlan;
import scala.Option;

/**
 * Rows that were read once and lie in Spark's shuffle files, those of a bucket together.
 *
 * <p>They are what a short load reads from its source, as often as its checks and its commit want
 * them. They end with this driver; nobody else finds them.
 */
public final class BucketedRows {
  private final RDD<InternalRow> rows;
  private final Row counts;

  private BucketedRows(RDD<InternalRow> rows, Row counts) {
    this.rows = rows;
    this.counts = counts;
  }

  /**
   * Reads {@code rows}; when this returns, all of them are in files.
   *
   * @param key the text of each row's record key
   * @param keyFields the table's `hoodie.bucket.index.hash.field`
   * @param counted by which name they are observed
   */
  public static BucketedRows of(Dataset<Row> rows, Column key, String keyFields, int buckets, String counted) {
    SparkPlan plan =
        rows.repartition(buckets, BucketShuffle.taskOf(key, keyFields, buckets))
            .queryExecution()
            .executedPlan();
    RDD<InternalRow> placed = plan.execute();
    if (placed.getNumPartitions() != buckets) {
      throw new IllegalStateException(placed.getNumPartitions() + " tasks read " + buckets + " buckets");
    }
    return new BucketedRows(placed, CollectMetricsExec$.MODULE$.collect(plan).apply(counted));
  }

  /** What was observed while they were read. */
  public Row counts() {
    return counts;
  }

  /** All of them as one, of the columns of {@code like}: partition n has those of bucket n. */
  public static Dataset<Row> together(List<BucketedRows> chunks, Dataset<Row> like) {
    JavaRDD<InternalRow> all = null;
    for (BucketedRows chunk : chunks) {
      JavaRDD<InternalRow> rows = chunk.rows.toJavaRDD();
      all = all == null ? rows : all.zipPartitions(rows, BucketedRows::chained);
    }
    SparkSession session = like.sparkSession();
    return all == null ? like : session.internalCreateDataFrame(all.rdd(), like.schema(), false);
  }

  private static Iterator<InternalRow> chained(Iterator<InternalRow> first, Iterator<InternalRow> second) {
    return IteratorUtils.chainedIterator(first, second);
  }

  /** Removes their files. */
  public void drop() {
    Option<ContextCleaner> cleaner = rows.context().cleaner();
    if (cleaner.isDefined()) {
      cleaner.get().doCleanupShuffle(shuffleOf(rows), false);
    }
  }

  private static int shuffleOf(RDD<?> rows) {
    Dependency<?> before = rows.dependencies().head();
    return before instanceof ShuffleDependency<?, ?, ?> shuffle ? shuffle.shuffleId() : shuffleOf(before.rdd());
  }
}
