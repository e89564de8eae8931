package io.sluice.lake;

import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.fs.Path;
import org.apache.hudi.DataSourceUtils;
import org.apache.hudi.DataSourceWriteOptions;
import org.apache.hudi.HoodieSparkSqlWriter;
import org.apache.hudi.HoodieSparkSqlWriterInternal;
import org.apache.hudi.client.HoodieWriteResult;
import org.apache.hudi.client.SparkRDDWriteClient;
import org.apache.hudi.commit.BaseDatasetBulkInsertCommitActionExecutor;
import org.apache.hudi.commit.DatasetBulkInsertCommitActionExecutor;
import org.apache.hudi.commit.DatasetBulkInsertOverwriteTableCommitActionExecutor;
import org.apache.hudi.common.config.HoodieConfig;
import org.apache.hudi.common.model.HoodieCommitMetadata;
import org.apache.hudi.common.model.HoodieWriteStat;
import org.apache.hudi.common.model.WriteOperationType;
import org.apache.hudi.common.schema.HoodieSchema;
import org.apache.hudi.common.table.HoodieTableConfig;
import org.apache.hudi.common.table.HoodieTableMetaClient;
import org.apache.hudi.common.table.timeline.HoodieTimeline;
import org.apache.hudi.common.util.CommitUtils;
import org.apache.hudi.common.util.Option;
import org.apache.hudi.config.HoodieInternalConfig;
import org.apache.hudi.config.HoodieWriteConfig;
import org.apache.hudi.exception.HoodieException;
import org.apache.hudi.index.bucket.BucketIdentifier;
import org.apache.hudi.table.BulkInsertPartitioner;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SaveMode;
import scala.Predef;
import scala.Tuple6;
import scala.collection.JavaConverters;

/**
 * Hudi's bulk_insert and insert_overwrite_table, with our shuffle and a count before the commit.
 *
 * <p>Everything else is Hudi's own datasource: creating the table, its schema, the files, the
 * timeline. It must not know jobs.
 */
public final class BulkLoad extends HoodieSparkSqlWriterInternal {
  private static final String REPLACES = WriteOperationType.INSERT_OVERWRITE_TABLE.value();

  private final long expectedRows;
  private final boolean arePlaced;

  private BulkLoad(long expectedRows, boolean arePlaced) {
    this.expectedRows = expectedRows;
    this.arePlaced = arePlaced;
  }

  /**
   * Writes {@code rows} as one commit.
   *
   * @param options complete options of the write, as the datasource takes them
   * @param expectedRows how many rows must have been written, negative when not known; another
   *     number fails before the commit, so that nothing of it is ever visible
   * @param arePlaced whether they are {@link BucketedRows} of this table, which has no partitions
   */
  public static void write(
      Dataset<Row> rows, Map<String, String> options, long expectedRows, boolean arePlaced) {
    Map<String, String> bulk = new HashMap<>(options);
    // only this operation comes to bulkInsertAsRow; whether it replaces is another option
    bulk.put(DataSourceWriteOptions.OPERATION().key(), WriteOperationType.BULK_INSERT.value());
    scala.collection.immutable.Map<String, String> parameters =
        JavaConverters.mapAsScalaMap(bulk).toMap(Predef.<scala.Tuple2<String, String>>$conforms());
    BulkLoad load = new BulkLoad(expectedRows, arePlaced);
    try {
      load.write(
          rows.sparkSession().sqlContext(),
          SaveMode.Append,
          parameters,
          rows,
          load.write$default$5(),
          load.write$default$6(),
          load.write$default$7());
    } finally {
      HoodieSparkSqlWriter.cleanup();
    }
  }

  @Override
  public Tuple6<Object, Option<String>, Option<String>, Option<String>, SparkRDDWriteClient<?>, HoodieTableConfig>
      bulkInsertAsRow(
          SparkRDDWriteClient<?> client,
          scala.collection.immutable.Map<String, String> parameters,
          HoodieConfig options,
          Dataset<Row> rows,
          SaveMode mode,
          String name,
          Path path,
          HoodieSchema schema,
          HoodieTableConfig table) {
    HoodieWriteConfig config =
        HoodieSparkSqlWriter.getBulkInsertRowConfig(Option.of(schema), options, path.toString(), name);
    boolean replaces = REPLACES.equals(options.getString(HoodieInternalConfig.BULKINSERT_OVERWRITE_OPERATION_TYPE));
    WriteOperationType operation =
        replaces ? WriteOperationType.INSERT_OVERWRITE_TABLE : WriteOperationType.BULK_INSERT;
    String action = CommitUtils.getCommitActionType(operation, config.getTableType());
    try {
      String instant = client.startCommit(action);
      HoodieTableMetaClient meta = replaces ? metaOf(client, config) : null;
      refusePlans(meta);
      BaseDatasetBulkInsertCommitActionExecutor executor =
          replaces
              ? new Replace(config, client, instant, arePlaced)
              : new Insert(config, client, instant, arePlaced);
      HoodieWriteResult written = executor.execute(rows, table.isTablePartitioned());
      commit(client, instant, action, written, JavaConverters.mapAsJavaMap(parameters), meta);
      return new Tuple6<>(true, Option.of(instant), Option.empty(), Option.empty(), client, table);
    } finally {
      client.close();
    }
  }

  private void commit(
      SparkRDDWriteClient<?> client,
      String instant,
      String action,
      HoodieWriteResult written,
      Map<String, String> parameters,
      HoodieTableMetaClient meta) {
    Map<String, List<String>> replaced = written.getPartitionToReplaceFileIds();
    boolean isDone =
        client.commit(
            instant,
            written.getWriteStatuses(),
            Option.of(DataSourceUtils.getExtraMetadata(parameters)),
            action,
            replaced,
            Option.of((own, commit) -> refuseScattered(commit)),
            Option.of((total, errors, statuses) -> isComplete(instant, total, errors, meta)));
    if (!isDone) {
      throw new HoodieException("the commit " + instant + " did not complete");
    }
  }

  private boolean isComplete(String instant, long rows, long errors, HoodieTableMetaClient meta) {
    refusePlans(meta);
    if (errors > 0 || (expectedRows >= 0 && rows != expectedRows)) {
      throw new HoodieException(
          String.format(
              "sluice.miscounted: commit %s would hold %d rows and %d errors instead of %d rows",
              instant, rows, errors, expectedRows));
    }
    return true;
  }

  /** Hudi writes whatever a task brings it, and refuses every later write of such a table. */
  private static void refuseScattered(HoodieCommitMetadata commit) {
    commit
        .getPartitionToWriteStats()
        .forEach(
            (partition, files) -> {
              Set<Integer> buckets = new HashSet<>();
              for (HoodieWriteStat file : files) {
                if (!buckets.add(BucketIdentifier.bucketIdFromFileId(file.getFileId()))) {
                  throw new HoodieException("sluice.misplaced: two files of one bucket: " + file.getFileId());
                }
              }
            });
  }

  private static HoodieTableMetaClient metaOf(SparkRDDWriteClient<?> client, HoodieWriteConfig config) {
    return HoodieTableMetaClient.builder()
        .setConf(client.getEngineContext().getStorageConf())
        .setBasePath(config.getBasePath())
        .build();
  }

  /**
   * A compaction that is planned speaks of file groups which a replacement takes away. Whoever plans
   * one may do so at any moment, also once the replacement has begun.
   *
   * @param meta of the table that is replaced, null when none is
   */
  private static void refusePlans(HoodieTableMetaClient meta) {
    if (meta == null) {
      return;
    }
    HoodieTimeline planned = meta.reloadActiveTimeline().filterPendingCompactionTimeline();
    if (!planned.empty()) {
      throw new HoodieException("sluice.planned: " + planned.firstInstant().get());
    }
  }

  /** A first load into an empty table. */
  private static final class Insert extends DatasetBulkInsertCommitActionExecutor {
    private final boolean arePlaced;

    Insert(HoodieWriteConfig config, SparkRDDWriteClient<?> client, String instant, boolean arePlaced) {
      super(config, client, instant);
      this.arePlaced = arePlaced;
    }

    @Override
    protected BulkInsertPartitioner<Dataset<Row>> getPartitioner(boolean meta, boolean isPartitioned) {
      return arePlaced ? new AsPlaced() : new BucketShuffle(writeConfig, isPartitioned);
    }
  }

  /** A load that takes the place of all rows. */
  private static final class Replace extends DatasetBulkInsertOverwriteTableCommitActionExecutor {
    private final boolean arePlaced;

    Replace(HoodieWriteConfig config, SparkRDDWriteClient<?> client, String instant, boolean arePlaced) {
      super(config, client, instant);
      this.arePlaced = arePlaced;
    }

    @Override
    protected BulkInsertPartitioner<Dataset<Row>> getPartitioner(boolean meta, boolean isPartitioned) {
      return arePlaced ? new AsPlaced() : new BucketShuffle(writeConfig, isPartitioned);
    }
  }

  /** Leaves each row in the task that has it. */
  private static final class AsPlaced implements BulkInsertPartitioner<Dataset<Row>> {
    @Override
    public Dataset<Row> repartitionRecords(Dataset<Row> rows, int parallelism) {
      return rows;
    }

    @Override
    public boolean arePartitionRecordsSorted() {
      return false;
    }
  }
}
