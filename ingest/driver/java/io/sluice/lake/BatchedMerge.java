package io.sluice.lake;

import java.lang.reflect.Field;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hudi.BaseHoodieTableFileIndex.PartitionPath;
import org.apache.hudi.HoodieFileIndex;
import org.apache.hudi.common.model.FileSlice;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.adapter.Spark3_5Adapter;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.SparkColumnarFileReader;
import org.apache.spark.sql.execution.datasources.parquet.HoodieFileGroupReaderBasedFileFormat;
import org.apache.spark.sql.internal.SQLConf;
import scala.Option;
import scala.Tuple2;
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
 * <p>Where the listing has no log file, nothing is to be merged: the scan is then that of a table
 * without logs, which gives whole batches and splits files.
 */
public final class BatchedMerge extends AbstractFunction1<SparkSessionExtensions, BoxedUnit> {
  @Override
  public BoxedUnit apply(SparkSessionExtensions extensions) {
    extensions.injectPreCBORule(
        new AbstractFunction1<SparkSession, Rule<LogicalPlan>>() {
          @Override
          public Rule<LogicalPlan> apply(SparkSession session) {
            return new ForEachScan();
          }
        });
    return BoxedUnit.UNIT;
  }

  /** Changes no plan: it tells the file formats of its scans where readers come from, and how. */
  private static final class ForEachScan extends Rule<LogicalPlan> {
    @Override
    public LogicalPlan apply(LogicalPlan plan) {
      plan.foreach(
          new AbstractFunction1<LogicalPlan, BoxedUnit>() {
            @Override
            public BoxedUnit apply(LogicalPlan node) {
              if (node instanceof LogicalRelation relation
                  && relation.relation() instanceof HadoopFsRelation files) {
                prepare(files);
              }
              return BoxedUnit.UNIT;
            }
          });
      return plan;
    }
  }

  private static void prepare(HadoopFsRelation files) {
    if (!(files.fileFormat() instanceof HoodieFileGroupReaderBasedFileFormat hudi)) {
      return;
    }
    // not one of changes, which have listings of their own, nor one that leaves logs out
    if (files.location().getClass() == HoodieFileIndex.class) {
      HoodieFileIndex index = (HoodieFileIndex) files.location();
      if (index.includeLogFiles()) {
        set(hudi, "isMOR", hasLogs(index));
      }
    }
    // Spark does not ask where more than 100 columns come out. Hudi then takes it for a no and
    // writes that into the session, where other scans of the same statement read it half-way
    hudi.supportBatch(files.sparkSession(), files.schema());
    if (!(hudi.sparkAdapter() instanceof Readers)) {
      // a lazy value: the call above has filled it, so nothing fills it again
      set(hudi, "sparkAdapter", new Readers());
    }
  }

  /** In the listing that the scan reads by: what is written meanwhile is not in it. */
  private static boolean hasLogs(HoodieFileIndex index) {
    Seq<Expression> none = JavaConverters.asScalaBuffer(List.<Expression>of()).toList();
    return index
        .prunePartitionsAndGetFileSlices(none, none)
        ._2()
        .exists(
            new AbstractFunction1<Tuple2<Option<PartitionPath>, Seq<FileSlice>>, Object>() {
              @Override
              public Object apply(Tuple2<Option<PartitionPath>, Seq<FileSlice>> partition) {
                return JavaConverters.seqAsJavaList(partition._2()).stream()
                    .anyMatch(FileSlice::hasLogFiles);
              }
            });
  }

  private static void set(HoodieFileGroupReaderBasedFileFormat hudi, String name, Object value) {
    try {
      Field field = HoodieFileGroupReaderBasedFileFormat.class.getDeclaredField(name);
      field.setAccessible(true);
      field.set(hudi, value);
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException("this Hudi keeps its " + name + " elsewhere", e);
    }
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
