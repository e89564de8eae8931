package io.sluice.lake;

import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hudi.HoodieFileIndex;
import org.apache.hudi.common.model.FileSlice;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.adapter.Spark3_5Adapter;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.FilterExec;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.datasources.FileSourceStrategy$;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.SparkColumnarFileReader;
import org.apache.spark.sql.execution.datasources.parquet.HoodieFileGroupReaderBasedFileFormat;
import org.apache.spark.sql.internal.SQLConf;
import scala.collection.JavaConverters;
import scala.collection.Seq;
import scala.collection.immutable.Map;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/**
 * A session extension: base files that are merged with log files are decoded in batches.
 *
 * <p>Hudi 1.2.0 reads a base file that has log files through parquet-mr, row by row, because its
 * merging takes rows ("please consider to support vectorized reader in file group reader"). Spark's
 * batch decoder gives rows, too, and does so for base files without logs: with the first log file
 * of each bucket a query took twice as long. So whoever asks for a reader of single rows, where
 * batches are possible, gets the one that decodes batches and hands out their rows.
 *
 * <p>Where the partitions that a scan reads have no log file, nothing is to be merged: the scan is
 * then that of a table without logs, which gives whole batches and splits files.
 */
public final class BatchedMerge extends AbstractFunction1<SparkSessionExtensions, BoxedUnit> {
  @Override
  public BoxedUnit apply(SparkSessionExtensions extensions) {
    extensions.injectPlannerStrategy(session -> new ForEachScan());
    return BoxedUnit.UNIT;
  }

  /** Plans as Spark does; then the format of each scan is told where readers come from, and how. */
  private static final class ForEachScan extends SparkStrategy {
    @Override
    public Seq<SparkPlan> apply(LogicalPlan plan) {
      Seq<SparkPlan> planned = FileSourceStrategy$.MODULE$.apply(plan);
      return scalaList(
          JavaConverters.seqAsJavaList(planned).stream().map(BatchedMerge::prepared));
    }
  }

  /**
   * Not by a transformation: that takes a scan for the same whose format is another, as Spark takes
   * all formats of Parquet for equal.
   */
  private static SparkPlan prepared(SparkPlan plan) {
    if (plan instanceof ProjectExec project) {
      return new ProjectExec(project.projectList(), prepared(project.child()));
    }
    if (plan instanceof FilterExec filter) {
      return new FilterExec(filter.condition(), prepared(filter.child()));
    }
    return plan instanceof FileSourceScanExec scan
            && scan.relation().fileFormat() instanceof HoodieFileGroupReaderBasedFileFormat hudi
        ? prepared(scan, hudi)
        : plan;
  }

  private static SparkPlan prepared(
      FileSourceScanExec scan, HoodieFileGroupReaderBasedFileFormat hudi) {
    HadoopFsRelation files = scan.relation();
    HadoopFsRelation prepared =
        new HadoopFsRelation(
            files.location(),
            files.partitionSchema(),
            files.dataSchema(),
            files.bucketSpec(),
            formatOf(scan, hudi),
            files.options(),
            files.sparkSession());
    return new FileSourceScanExec(
        prepared,
        scan.output(),
        scan.requiredSchema(),
        scan.partitionFilters(),
        scan.optionalBucketSet(),
        scan.optionalNumCoalescedBuckets(),
        scan.dataFilters(),
        scan.tableIdentifier(),
        scan.disableBucketedScan());
  }

  /** The scan's own: others of the same relation may read other partitions. */
  private static HoodieFileGroupReaderBasedFileFormat formatOf(
      FileSourceScanExec scan, HoodieFileGroupReaderBasedFileFormat known) {
    HadoopFsRelation files = scan.relation();
    HoodieFileGroupReaderBasedFileFormat hudi = copied(known);
    // not one of changes, which have listings of their own, nor one that leaves logs out
    if (files.location().getClass() == HoodieFileIndex.class) {
      HoodieFileIndex index = (HoodieFileIndex) files.location();
      if (index.includeLogFiles()) {
        set(hudi, "isMOR", hasLogs(index, scan.partitionFilters()));
      }
    }
    // Spark does not ask where more than 100 columns come out. Hudi then takes it for a no and
    // writes that into the session, where other scans of the same statement read it half-way
    hudi.supportBatch(files.sparkSession(), files.schema());
    hudi.sparkAdapter(); // a lazy value, which nothing fills again
    set(hudi, "sparkAdapter", new Readers());
    return hudi;
  }

  /**
   * In the listing that the scan reads by: what is written meanwhile is not in it. Of the
   * partitions that the scan lists, or more: what is known only when it runs prunes nothing here.
   */
  private static boolean hasLogs(HoodieFileIndex index, Seq<Expression> partitionFilters) {
    Seq<Expression> none = scalaList(Stream.of());
    Seq<Expression> known =
        scalaList(
            JavaConverters.seqAsJavaList(partitionFilters).stream()
                .filter(filter -> !SubqueryExpression.hasSubquery(filter)));
    return index
        .prunePartitionsAndGetFileSlices(none, known)
        ._2()
        .exists(
            partition ->
                JavaConverters.seqAsJavaList(partition._2()).stream()
                    .anyMatch(FileSlice::hasLogFiles));
  }

  private static <T> Seq<T> scalaList(Stream<T> values) {
    return JavaConverters.asScalaBuffer(values.toList()).toList();
  }

  private static HoodieFileGroupReaderBasedFileFormat copied(
      HoodieFileGroupReaderBasedFileFormat hudi) {
    Constructor<?> made = HoodieFileGroupReaderBasedFileFormat.class.getConstructors()[0];
    Object[] values =
        Stream.of(made.getParameters()).map(one -> get(hudi, one.getName())).toArray();
    try {
      return (HoodieFileGroupReaderBasedFileFormat) made.newInstance(values);
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException("this Hudi makes its file format in another way", e);
    }
  }

  private static Object get(HoodieFileGroupReaderBasedFileFormat hudi, String name) {
    try {
      return field(name).get(hudi);
    } catch (ReflectiveOperationException e) {
      throw elsewhere(name, e);
    }
  }

  private static void set(HoodieFileGroupReaderBasedFileFormat hudi, String name, Object value) {
    try {
      field(name).set(hudi, value);
    } catch (ReflectiveOperationException e) {
      throw elsewhere(name, e);
    }
  }

  private static Field field(String name) throws ReflectiveOperationException {
    Field field = HoodieFileGroupReaderBasedFileFormat.class.getDeclaredField(name);
    field.setAccessible(true);
    return field;
  }

  private static IllegalStateException elsewhere(String name, Exception cause) {
    return new IllegalStateException("this Hudi keeps its " + name + " elsewhere", cause);
  }

  /** Hudi's own adapter, apart from the reader of rows. */
  private static final class Readers extends Spark3_5Adapter {
    @Override
    public SparkColumnarFileReader createParquetFileReader(
        boolean inBatches, SQLConf conf, Map<String, String> options, Configuration hadoop) {
      // Hudi has just written there whether the columns asked for can be decoded in batches
      if (inBatches || !conf.parquetVectorizedReaderEnabled()) {
        return super.createParquetFileReader(inBatches, conf, options, hadoop);
      }
      return new BatchedRows(super.createParquetFileReader(true, conf, options, hadoop));
    }
  }
}
