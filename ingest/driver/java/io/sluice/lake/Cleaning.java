package io.sluice.lake;

import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.hudi.avro.model.HoodieActionInstant;
import org.apache.hudi.avro.model.HoodieCleanFileInfo;
import org.apache.hudi.avro.model.HoodieCleanerPlan;
import org.apache.hudi.client.SparkRDDWriteClient;
import org.apache.hudi.client.transaction.TransactionManager;
import org.apache.hudi.common.engine.HoodieEngineContext;
import org.apache.hudi.common.model.CleanFileInfo;
import org.apache.hudi.common.model.HoodieCleaningPolicy;
import org.apache.hudi.common.table.HoodieTableMetaClient;
import org.apache.hudi.common.table.timeline.HoodieInstant;
import org.apache.hudi.common.table.timeline.HoodieTimeline;
import org.apache.hudi.common.util.CleanerUtils;
import org.apache.hudi.common.util.Option;
import org.apache.hudi.common.util.collection.Pair;
import org.apache.hudi.config.HoodieWriteConfig;
import org.apache.hudi.exception.HoodieException;
import org.apache.hudi.table.HoodieSparkTable;
import org.apache.hudi.table.HoodieTable;
import org.apache.hudi.table.action.clean.CleanPlanner;

/**
 * Cleans a table down to an instant that it is given, which may be archived.
 *
 * <p>Which files go is Hudi's planner's to say, and its executor deletes them. Its client would
 * choose the instant itself, by a count of active commits, and would leave no instant where no file
 * goes: but time travel's refusal, and what keeps a replacement from being archived, go by the
 * newest clean on the active timeline.
 */
public final class Cleaning {
  private Cleaning() {}

  /** Writes that died are rolled back, and a cleaning that was begun is completed. */
  public static void finishBegun(SparkRDDWriteClient<?> client) {
    HoodieTable<?, ?, ?, ?> table = tableOf(client);
    client.rollbackFailedWrites(table.getMetaClient());
    if (!table.getCleanTimeline().filterInflightsAndRequested().empty()) {
      table.clean(client.getEngineContext(), "");
    }
  }

  /**
   * @param first of each file group what was asked for from it on stays, and the version before
   * @param looks whether partitions are looked into; else no file goes
   * @param extra what the clean's metadata carry
   */
  public static void clean(
      SparkRDDWriteClient<?> client, String first, boolean looks, Map<String, String> extra)
      throws IOException {
    HoodieTable<?, ?, ?, ?> table = tableOf(client);
    HoodieTableMetaClient meta = table.getMetaClient();
    HoodieCleanerPlan plan = planOf(client, table, first, looks);
    plan.setExtraMetadata(new HashMap<>(extra));
    String instant = request(client, meta, plan);
    meta.reloadActiveTimeline();
    table.clean(client.getEngineContext(), instant);
    if (!meta.reloadActiveTimeline()
        .getCleanerTimeline()
        .filterCompletedInstants()
        .containsInstant(instant)) {
      throw new HoodieException("the cleaning " + instant + " was not completed");
    }
  }

  private static HoodieTable<?, ?, ?, ?> tableOf(SparkRDDWriteClient<?> client) {
    return HoodieSparkTable.create(client.getConfig(), client.getEngineContext());
  }

  /** Under the lock, where the fence is read. */
  private static String request(
      SparkRDDWriteClient<?> client, HoodieTableMetaClient meta, HoodieCleanerPlan plan) {
    HoodieInstant asked = null;
    TransactionManager locks = client.getTransactionManager();
    locks.beginStateChange(Option.empty(), Option.empty());
    try {
      String instant = client.createNewInstantTime(false);
      asked =
          meta.createNewInstant(
              HoodieInstant.State.REQUESTED, HoodieTimeline.CLEAN_ACTION, instant);
      meta.getActiveTimeline().saveToCleanRequested(asked, Option.of(plan));
      return instant;
    } finally {
      locks.endStateChange(Option.ofNullable(asked));
    }
  }

  private static <T, I, K, O> HoodieCleanerPlan planOf(
      SparkRDDWriteClient<?> client, HoodieTable<T, I, K, O> table, String first, boolean looks)
      throws IOException {
    HoodieWriteConfig config = client.getConfig();
    HoodieEngineContext context = client.getEngineContext();
    CleanPlanner<T, I, K, O> planner = new CleanPlanner<>(context, table, config);
    Option<HoodieInstant> limit =
        Option.of(
            table
                .getMetaClient()
                .createNewInstant(
                    HoodieInstant.State.COMPLETED, HoodieTimeline.DELTA_COMMIT_ACTION, first));
    Map<String, List<HoodieCleanFileInfo>> files = new TreeMap<>();
    List<String> empty = new ArrayList<>();
    List<String> partitions = looks ? planner.getPartitionPathsToClean(limit) : List.of();
    if (!partitions.isEmpty()) {
      int tasks = Math.min(partitions.size(), config.getCleanerParallelism());
      List<Pair<String, Pair<Boolean, List<CleanFileInfo>>>> found =
          context.map(
              partitions, one -> Pair.of(one, planner.getDeletePaths(one, limit)), tasks);
      for (Pair<String, Pair<Boolean, List<CleanFileInfo>>> one : found) {
        if (!one.getRight().getRight().isEmpty()) {
          files.put(
              one.getLeft(),
              CleanerUtils.convertToHoodieCleanFileInfoList(one.getRight().getRight()));
        }
        if (one.getRight().getLeft()) {
          empty.add(one.getLeft());
        }
      }
    }
    return HoodieCleanerPlan.newBuilder()
        .setEarliestInstantToRetain(
            new HoodieActionInstant(
                first, HoodieTimeline.DELTA_COMMIT_ACTION, HoodieInstant.State.COMPLETED.name()))
        .setLastCompletedCommitTimestamp(planner.getLastCompletedCommitTimestamp())
        .setPolicy(HoodieCleaningPolicy.KEEP_LATEST_COMMITS.name())
        .setFilesToBeDeletedPerPartition(Map.of())
        .setVersion(CleanPlanner.LATEST_CLEAN_PLAN_VERSION)
        .setFilePathsToBeDeletedPerPartition(files)
        .setPartitionsToBeDeleted(empty)
        .build();
  }
}
