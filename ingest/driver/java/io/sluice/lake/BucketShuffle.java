package io.sluice.lake;

import java.util.Arrays;
import java.util.List;
import org.apache.hudi.common.model.HoodieRecord;
import org.apache.hudi.config.HoodieWriteConfig;
import org.apache.hudi.index.bucket.BucketIdentifier;
import org.apache.hudi.table.BulkInsertPartitioner;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.AbstractDataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.hash.Murmur3_x86_32;
import org.apache.spark.unsafe.types.UTF8String;
import scala.collection.JavaConverters;
import scala.collection.Seq;

/**
 * Brings all rows of a bucket into one task, by Spark's own exchange of binary rows.
 *
 * <p>Hudi's partitioner for bucket indexes sends every row through Kryo as a pair of objects and
 * sorts these: measured, more than half of a first load. The buckets are Hudi's, by its own hash;
 * only the way there differs.
 */
public final class BucketShuffle implements BulkInsertPartitioner<Dataset<Row>> {
  /** Tasks at most: Spark keeps books about each pair of a reading and a writing task. */
  private static final int MOST_TASKS = 500;

  /** The seed of Spark's {@code hash}, by which {@code repartition} places rows. */
  private static final int SPARK_SEED = 42;

  private static final String BUCKET = "_sluice_bucket";

  private final String keyFields;
  private final int buckets;
  private final boolean isPartitioned;

  BucketShuffle(HoodieWriteConfig config, boolean isPartitioned) {
    this.keyFields = config.getBucketIndexHashFieldWithDefault();
    this.buckets = config.getBucketIndexNumBuckets();
    this.isPartitioned = isPartitioned;
  }

  @Override
  public Dataset<Row> repartitionRecords(Dataset<Row> rows, int parallelism) {
    int tasks = Math.min(isPartitioned ? Math.max(1, parallelism) : buckets, MOST_TASKS);
    if (!arePartitionRecordsSorted()) {
      return rows.repartition(tasks, place(bucket(), tasks));
    }
    Column[] columns = Arrays.stream(rows.columns()).map(BucketShuffle::column).toArray(Column[]::new);
    Column known = functions.col(BUCKET);
    return rows.withColumn(BUCKET, bucket())
        .repartition(tasks, place(known, tasks))
        .sortWithinPartitions(partition(), known)
        .select(columns);
  }

  /** Sorted rows are written one file after the other; else a task's files are open together. */
  @Override
  public boolean arePartitionRecordsSorted() {
    return isPartitioned || buckets > MOST_TASKS;
  }

  /** A row's bucket as Hudi computes it; called by code that Spark generates. */
  public static int bucketOf(UTF8String key, UTF8String fields, int buckets) {
    return BucketIdentifier.getBucketId(key.toString(), fields.toString(), buckets);
  }

  /** What sends a row by {@code repartition} to the task of its bucket, of as many tasks as buckets. */
  static Column taskOf(Column key, String keyFields, int buckets) {
    return placeIn(bucket(key, keyFields, buckets), buckets);
  }

  private Column bucket() {
    return bucket(functions.col(HoodieRecord.RECORD_KEY_METADATA_FIELD), keyFields, buckets);
  }

  private static Column bucket(Column key, String keyFields, int buckets) {
    Seq<Expression> arguments =
        sequence(key.expr(), functions.lit(keyFields).expr(), functions.lit(buckets).expr());
    Seq<AbstractDataType> noCasts = sequence();
    return new Column(
        new StaticInvoke(
            BucketShuffle.class, DataTypes.IntegerType, "bucketOf", arguments, noCasts, true, true, true));
  }

  /** A value that {@code repartition} sends to the task of a bucket in a partition. */
  private static Column place(Column bucket, int tasks) {
    Column spread = bucket.cast(DataTypes.LongType).plus(functions.hash(partition()));
    return placeIn(functions.pmod(spread, functions.lit(tasks)).cast(DataTypes.IntegerType), tasks);
  }

  private static Column placeIn(Column task, int tasks) {
    return functions.element_at(functions.lit(valuesFor(tasks)), task.plus(1));
  }

  /** For each task the smallest number whose hash leads there: no two buckets collide. */
  private static int[] valuesFor(int tasks) {
    int[] values = new int[tasks];
    Arrays.fill(values, -1);
    for (int value = 0, found = 0; found < tasks; value++) {
      int task = Math.floorMod(Murmur3_x86_32.hashInt(value, SPARK_SEED), tasks);
      if (values[task] < 0) {
        values[task] = value;
        found++;
      }
    }
    return values;
  }

  private static Column partition() {
    return functions.col(HoodieRecord.PARTITION_PATH_METADATA_FIELD);
  }

  private static Column column(String name) {
    return functions.col("`" + name.replace("`", "``") + "`");
  }

  @SafeVarargs
  private static <T> Seq<T> sequence(T... items) {
    return JavaConverters.asScalaBuffer(List.of(items)).toSeq();
  }
}
