package io.sluice.lake;

import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.avro.generic.GenericRecord;
import org.apache.hudi.AvroConversionUtils;
import org.apache.hudi.DataSourceUtils;
import org.apache.hudi.client.SparkRDDWriteClient;
import org.apache.hudi.client.WriteStatus;
import org.apache.hudi.client.heartbeat.HoodieHeartbeatClient;
import org.apache.hudi.client.transaction.TransactionManager;
import org.apache.hudi.client.utils.TransactionUtils;
import org.apache.hudi.common.model.HoodieAvroIndexedRecord;
import org.apache.hudi.common.model.HoodieCommitMetadata;
import org.apache.hudi.common.model.HoodieKey;
import org.apache.hudi.common.model.HoodieRecord;
import org.apache.hudi.common.model.HoodieRecordLocation;
import org.apache.hudi.common.model.HoodieWriteStat;
import org.apache.hudi.common.model.WriteOperationType;
import org.apache.hudi.common.schema.HoodieSchema;
import org.apache.hudi.common.table.HoodieTableMetaClient;
import org.apache.hudi.common.table.timeline.HoodieInstant;
import org.apache.hudi.common.table.timeline.HoodieTimeline;
import org.apache.hudi.common.table.timeline.TimeGenerator;
import org.apache.hudi.common.table.timeline.TimeGenerators;
import org.apache.hudi.common.table.timeline.TimelineUtils;
import org.apache.hudi.common.util.CommitUtils;
import org.apache.hudi.common.util.Option;
import org.apache.hudi.common.util.SizeEstimator;
import org.apache.hudi.config.HoodieWriteConfig;
import org.apache.hudi.exception.HoodieCommitException;
import org.apache.hudi.exception.HoodieRestoreException;
import org.apache.hudi.index.bucket.HoodieSimpleBucketIndex;
import org.apache.hudi.io.HoodieAppendHandle;
import org.apache.hudi.keygen.KeyGenerator;
import org.apache.hudi.keygen.factory.HoodieSparkKeyGeneratorFactory;
import org.apache.hudi.storage.HoodieStorage;
import org.apache.hudi.storage.HoodieStorageUtils;
import org.apache.hudi.storage.StorageConfiguration;
import org.apache.hudi.table.HoodieSparkTable;
import org.apache.hudi.table.HoodieTable;
import org.apache.hudi.table.marker.WriteMarkersFactory;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.Function1;

/**
 * A Hudi table to which small batches are appended in the calling thread, without a Spark job.
 *
 * <p>Lock with fence, heartbeat, timeline, markers, conflicts and files are Hudi's own, as its Spark
 * client uses them; what differs is that no job tags, shuffles and writes the rows. Rows go to file
 * groups that are there: a batch for a bucket without one is left to Spark. Nothing is kept from one
 * commit to the next but where the buckets are ({@link FileGroups}).
 */
public final class LightTable {
  private static final Logger LOG = LoggerFactory.getLogger(LightTable.class);
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final String ACTION = HoodieTimeline.DELTA_COMMIT_ACTION;

  private final String path;
  private final LocalContext context;
  private final StorageConfiguration<?> storageConf;
  private final HoodieStorage storage;
  private final HoodieWriteConfig config;
  private final HoodieSchema avro;
  private final HoodieTableMetaClient meta;
  private final TimeGenerator clock;
  private final KeyGenerator keys;
  private final HoodieSimpleBucketIndex index;

  private LightTable(
      JavaSparkContext spark, String path, String name, String schema, Map<String, String> options) {
    this.path = path;
    this.context = new LocalContext(spark);
    this.storageConf = context.getStorageConf();
    this.storage = HoodieStorageUtils.getStorage(path, storageConf);
    this.config = DataSourceUtils.createHoodieConfig(schema, path, name, options);
    this.avro = HoodieSchema.parse(schema);
    this.meta =
        HoodieTableMetaClient.builder()
            .setConf(storageConf.newInstance())
            .setBasePath(path)
            .setTimeGeneratorConfig(config.getTimeGeneratorConfig())
            .build();
    this.clock = TimeGenerators.getTimeGenerator(config.getTimeGeneratorConfig(), storageConf);
    this.keys = HoodieSparkKeyGeneratorFactory.createKeyGenerator(config.getProps());
    this.index = new HoodieSimpleBucketIndex(config);
  }

  /**
   * Writes the rows as one commit and returns its instant.
   *
   * @param schema the table's Avro schema, whose columns the rows have
   * @param options complete options of the write, as the datasource takes them: an object of JSON,
   *     for a map from Python costs a message an entry
   * @param extra what the commit carries beside the rows, in the same form
   * @return "" where Spark has to write them: a bucket has no file group, or two rows one key.
   *     Nothing was begun then
   */
  public static String commit(
      JavaSparkContext spark,
      String path,
      String name,
      String schema,
      String options,
      LightRows rows,
      String extra)
      throws IOException {
    return new LightTable(spark, path, name, schema, read(options)).commit(rows, read(extra));
  }

  /** An object of JSON as a map. */
  static Map<String, String> read(String texts) throws IOException {
    return JSON.readValue(texts, new TypeReference<HashMap<String, String>>() {});
  }

  private String commit(LightRows rows, Map<String, String> extra) throws IOException {
    List<HoodieRecord> records = rows.session().withActive(() -> recordsOf(rows));
    if (records == null) {
      return "";
    }
    TransactionManager locks = new TransactionManager(config, storage);
    HoodieHeartbeatClient heart =
        new HoodieHeartbeatClient(
            storage,
            path,
            config.getHoodieClientHeartbeatIntervalInMs(),
            config.getHoodieClientHeartbeatTolerableMisses());
    Begun begun = new Begun();
    begun.bytesOfRow = rows.bytesOfRow();
    try {
      if (!begin(begun, locks, heart, records)) {
        return "";
      }
      complete(begun, append(begun, extra), locks, heart);
      WriteMarkersFactory.get(config.getMarkersType(), begun.table, begun.instant)
          .quietDeleteMarkerDir(context, 1);
      heart.stop(begun.instant);
    } catch (RuntimeException | IOException error) {
      if (!begun.isComplete) {
        // what may be complete is never undone: whoever comes next reads it from the timeline
        if (begun.instant != null && !begun.isCompleting) {
          undo(begun.instant, heart, error);
        }
        throw error;
      }
      LOG.warn("{} is complete; what follows a commit has failed", begun.instant, error);
    } finally {
      heart.close();
      locks.close();
    }
    return begun.instant;
  }

  /** null when one key occurs twice. */
  private List<HoodieRecord> recordsOf(LightRows rows) {
    Function1<InternalRow, GenericRecord> convert =
        AvroConversionUtils.createInternalRowToAvroConverter(rows.schema(), avro, false);
    List<HoodieRecord> found = new ArrayList<>(rows.count());
    Set<HoodieKey> known = new HashSet<>();
    for (UnsafeRow row : rows.rows()) {
      GenericRecord record = convert.apply(row);
      HoodieKey key = keys.getKey(record);
      if (!known.add(key)) {
        return null;
      }
      found.add(new HoodieAvroIndexedRecord(key, record, rows.orderingOf(row)));
    }
    return found;
  }

  /** A commit that was begun: what was completed and what was pending then, and where rows go. */
  private static final class Begun {
    private long bytesOfRow;
    String instant;
    Option<HoodieInstant> last;
    Set<String> pending;
    HoodieTable table;
    FileGroups files;
    Map<Group, List<HoodieRecord>> groups;
    boolean isCompleting;
    boolean isComplete;
  }

  private record Group(String partition, String file) {}

  /** false when a bucket has no file group: nothing was begun. */
  private boolean begin(
      Begun begun,
      TransactionManager locks,
      HoodieHeartbeatClient heart,
      List<HoodieRecord> records) {
    HoodieInstant asked = null;
    locks.beginStateChange(Option.empty(), Option.empty());
    try {
      meta.reloadActiveTimeline();
      if (!meta.getActiveTimeline().getRestoreTimeline().filterInflightsAndRequested().empty()) {
        throw new HoodieRestoreException("a restore of the table was begun and has to end first");
      }
      begun.table = HoodieSparkTable.create(config, context, meta);
      begun.files = new FileGroups(begun.table);
      begun.groups = grouped(begun.files, records);
      if (begun.groups == null) {
        return false;
      }
      begun.last =
          meta.getActiveTimeline().getCommitsTimeline().filterCompletedInstants().lastInstant();
      begun.pending = TransactionUtils.getInflightAndRequestedInstants(meta);
      begun.instant = TimelineUtils.generateInstantTime(false, clock);
      // without it a cleaning beside this commit would take it for dead
      heart.start(begun.instant);
      asked = meta.createNewInstant(HoodieInstant.State.REQUESTED, ACTION, begun.instant);
      meta.getActiveTimeline().createNewInstant(asked);
      return true;
    } finally {
      locks.endStateChange(Option.ofNullable(asked));
    }
  }

  private Map<Group, List<HoodieRecord>> grouped(FileGroups files, List<HoodieRecord> records) {
    Map<Group, List<HoodieRecord>> found = new LinkedHashMap<>();
    for (HoodieRecord record : records) {
      String partition = record.getPartitionPath();
      int bucket = index.getBucketID(record.getKey(), config.getBucketIndexNumBuckets());
      String file = files.fileOf(partition, bucket);
      if (file == null) {
        return null;
      }
      found.computeIfAbsent(new Group(partition, file), one -> new ArrayList<>()).add(record);
    }
    return found;
  }

  private void complete(
      Begun begun, HoodieCommitMetadata metadata, TransactionManager locks, HoodieHeartbeatClient heart)
      throws IOException {
    HoodieInstant inflight =
        meta.createNewInstant(HoodieInstant.State.INFLIGHT, ACTION, begun.instant);
    // the fence is read again here
    locks.beginStateChange(Option.of(inflight), begun.last);
    try {
      meta.reloadActiveTimeline();
      refuseWhenTakenForDead(begun.instant, heart);
      TransactionUtils.resolveWriteConflictIfAny(
          begun.table,
          locks.getCurrentTransactionOwner(),
          Option.of(metadata),
          config,
          begun.last,
          true,
          begun.pending);
      begun.isCompleting = true;
      HoodieInstant done =
          meta.getActiveTimeline().saveAsComplete(false, inflight, Option.of(metadata));
      begun.isComplete = true;
      begun.files.keepBehind(done);
    } finally {
      locks.endStateChange(Option.of(inflight));
    }
  }

  /**
   * A writer that stalls is taken for dead, and a cleaning of another driver rolls its commit back:
   * first its files go, then its instant. Under the lock no rollback begins, and one that has begun
   * is on the timeline. The heartbeat alone does not say so, for it goes on when the writer does.
   */
  private void refuseWhenTakenForDead(String instant, HoodieHeartbeatClient heart)
      throws IOException {
    HoodieTimeline now = meta.getActiveTimeline();
    if (!now.containsInstant(instant)
        || !now.getRollbackAndRestoreTimeline().findInstantsAfter(instant).empty()
        || heart.isHeartbeatExpired(instant)) {
      throw new HoodieCommitException(
          "sluice.overtaken: " + instant + " stalled, and was or will be rolled back");
    }
  }

  private HoodieCommitMetadata append(Begun begun, Map<String, String> extra) throws IOException {
    HoodieInstant asked =
        meta.createNewInstant(HoodieInstant.State.REQUESTED, ACTION, begun.instant);
    meta.getActiveTimeline().transitionRequestedToInflight(asked, Option.of(planOf(begun)), false);
    List<HoodieWriteStat> stats = new ArrayList<>();
    begun.groups.forEach(
        (group, records) -> {
          records.forEach(one -> locate(one, begun.instant, group.file));
          HoodieAppendHandle handle = handleFor(begun, group, records);
          handle.doAppend();
          for (Object closed : handle.close()) {
            WriteStatus status = (WriteStatus) closed;
            if (status.hasErrors()) {
              throw new HoodieCommitException("rows could not be written: " + status);
            }
            stats.add(status.getStat());
          }
        });
    return CommitUtils.buildMetadata(
        stats,
        Collections.emptyMap(),
        Option.of(extra),
        WriteOperationType.UPSERT,
        config.getWriteSchema(),
        ACTION);
  }

  /** By it others know, before the commit, which file groups it is about. */
  private static HoodieCommitMetadata planOf(Begun begun) {
    HoodieCommitMetadata plan = new HoodieCommitMetadata();
    plan.setOperationType(WriteOperationType.UPSERT);
    begun.groups.forEach(
        (group, records) -> {
          HoodieWriteStat stat = new HoodieWriteStat();
          stat.setFileId(group.file);
          stat.setPrevCommit(begun.instant);
          stat.setNumUpdateWrites(records.size());
          plan.addWriteStat(group.partition, stat);
        });
    return plan;
  }

  private static void locate(HoodieRecord record, String instant, String file) {
    record.unseal();
    record.setCurrentLocation(new HoodieRecordLocation(instant, file));
    record.seal();
  }

  /** A writer that was shut out cannot: its files stay, and its successor removes them. */
  private void undo(String instant, HoodieHeartbeatClient heart, Exception why) {
    try {
      heart.stop(instant);
      try (SparkRDDWriteClient<?> client = new SparkRDDWriteClient<>(context, config)) {
        client.rollback(instant);
      }
    } catch (RuntimeException error) {
      why.addSuppressed(error);
    }
  }

  /** Appends to one file group, and reads nothing that a small block does not need. */
  private HoodieAppendHandle handleFor(Begun begun, Group group, List<HoodieRecord> records) {
    long bytesOfRow = begun.bytesOfRow;
    return new HoodieAppendHandle(
        config,
        begun.instant,
        begun.table,
        group.partition,
        group.file,
        records.iterator(),
        context.getTaskContextSupplier()) {
      /** Positions are not written, and whoever asks for theirs lists the partition. */
      @Override
      protected Option<String> getBaseFileInstantTimeOfPositions() {
        return Option.empty();
      }

      /** Bounds the blocks of a log file. Hudi's own walks each record with its schema. */
      @Override
      protected SizeEstimator getSizeEstimator() {
        return record -> bytesOfRow;
      }
    };
  }
}
