package io.sluice.lake;

import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.hudi.common.model.FileSlice;
import org.apache.hudi.common.table.timeline.HoodieInstant;
import org.apache.hudi.common.table.timeline.HoodieTimeline;
import org.apache.hudi.exception.HoodieCommitException;
import org.apache.hudi.index.HoodieIndexUtils;
import org.apache.hudi.index.bucket.BucketIdentifier;
import org.apache.hudi.table.HoodieTable;

/**
 * The file groups of a table's buckets, as one commit sees them.
 *
 * <p>A listing costs as much as the partition has files, and those of all commits stay there until
 * readers no longer need them. So what an earlier commit has listed is used for as long as the
 * timeline shows that it holds: appends, compactions and cleanings add file groups and take none
 * away. Whatever else was completed meanwhile, or a timeline without the instant that was its
 * newest, asks for a listing.
 */
final class FileGroups {
  private static final int MOST_PARTITIONS = 2000;
  private static final Set<String> KEEPS_GROUPS =
      Set.of(
          HoodieTimeline.DELTA_COMMIT_ACTION,
          HoodieTimeline.COMMIT_ACTION,
          HoodieTimeline.CLEAN_ACTION);
  private static final Map<String, Listed> LISTED =
      Collections.synchronizedMap(
          new LinkedHashMap<>(16, 0.75f, true) {
            @Override
            protected boolean removeEldestEntry(Map.Entry<String, Listed> eldest) {
              return size() > MOST_PARTITIONS;
            }
          });

  /**
   * @param newest the newest completed instant when it was known to hold
   * @param others completed instants, then, of actions that may take file groups away
   */
  private record Listed(String newest, Set<String> others, Map<Integer, String> files) {}

  private final HoodieTable table;
  private final HoodieTimeline completed;
  private final Set<String> others;
  private final Map<String, Map<Integer, String>> files = new HashMap<>();

  /** @param table with the timeline of a moment at which nobody else completes anything */
  FileGroups(HoodieTable table) {
    this.table = table;
    this.completed = table.getActiveTimeline().filterCompletedInstants();
    this.others =
        completed
            .getInstantsAsStream()
            .filter(one -> !KEEPS_GROUPS.contains(one.getAction()))
            .map(HoodieInstant::requestedTime)
            .collect(Collectors.toSet());
  }

  /** null when the bucket has none. */
  String fileOf(String partition, int bucket) {
    Map<Integer, String> known = files.computeIfAbsent(partition, this::known);
    if (known.containsKey(bucket)) {
      return known.get(bucket);
    }
    files.put(partition, list(partition));
    return files.get(partition).get(bucket);
  }

  private Map<Integer, String> known(String partition) {
    Listed listed = LISTED.get(nameOf(partition));
    if (listed == null
        || !completed.containsInstant(listed.newest)
        || !listed.others.containsAll(others)) {
      return list(partition);
    }
    keep(partition, listed.files);
    return listed.files;
  }

  /** As Hudi's index does it, but for reading the timeline again, partition by partition. */
  private Map<Integer, String> list(String partition) {
    Map<Integer, String> found = new HashMap<>();
    for (FileSlice slice : HoodieIndexUtils.getLatestFileSlicesForPartition(partition, table)) {
      String file = slice.getFileId();
      String other = found.put(BucketIdentifier.bucketIdFromFileId(file), file);
      if (other != null) {
        throw new HoodieCommitException(
            other + " and " + file + " belong to the same bucket id in '" + partition + "'");
      }
    }
    keep(partition, found);
    return found;
  }

  private void keep(String partition, Map<Integer, String> found) {
    completed
        .lastInstant()
        .ifPresent(
            newest ->
                LISTED.put(
                    nameOf(partition), new Listed(newest.requestedTime(), others, found)));
  }

  private String nameOf(String partition) {
    return table.getMetaClient().getBasePath() + "\n" + partition;
  }
}
