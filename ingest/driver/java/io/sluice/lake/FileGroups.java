package io.sluice.lake;

import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;
import org.apache.hudi.common.model.FileSlice;
import org.apache.hudi.common.table.timeline.HoodieInstant;
import org.apache.hudi.exception.HoodieCommitException;
import org.apache.hudi.index.HoodieIndexUtils;
import org.apache.hudi.index.bucket.BucketIdentifier;
import org.apache.hudi.table.HoodieTable;

/**
 * Which file group each bucket of a table has, as one light commit sees it.
 *
 * <p>A listing costs as much as the partition has files, and those of all commits stay there until
 * readers no longer need them. File groups come and go by completed instants only, and a light
 * commit makes none and takes none away. So what was listed holds for as long as the table's
 * completed instants are exactly those of the listing and the light commits behind it. One more or
 * one less, whoever made or removed it, asks for a listing.
 */
public final class FileGroups {
  /** Instants and files that are kept, of all tables: each takes about 150 bytes. */
  private static final int MOST = 100_000;

  private static final AtomicLong LISTINGS = new AtomicLong();
  private static final Map<String, Known> KNOWN = new LinkedHashMap<>(16, 0.75f, true);

  /** A fact that stays true: where these instants are complete and no others, these are the files. */
  private record Known(Set<HoodieInstant> completed, Map<String, Map<Integer, String>> files) {
    int size() {
      return completed.size() + files.values().stream().mapToInt(Map::size).sum();
    }
  }

  private final HoodieTable table;
  private final Set<HoodieInstant> completed;
  private final Map<String, Map<Integer, String>> files;

  /** @param table whose timeline was read under the table's lock */
  FileGroups(HoodieTable table) {
    this.table = table;
    this.completed =
        table
            .getActiveTimeline()
            .filterCompletedInstants()
            .getInstantsAsStream()
            .collect(Collectors.toSet());
    Known known = of(nameOf(table));
    boolean holds = known != null && known.completed.equals(completed);
    this.files = holds ? new HashMap<>(known.files) : new HashMap<>();
  }

  /** Partitions that were listed since this process began. */
  public static long listings() {
    return LISTINGS.get();
  }

  /** null when the bucket has none. */
  String fileOf(String partition, int bucket) {
    return files.computeIfAbsent(partition, this::list).get(bucket);
  }

  /** @param commit a light commit that was begun with these file groups, and is complete */
  void keepBehind(HoodieInstant commit) {
    Set<HoodieInstant> now = new HashSet<>(completed);
    now.add(commit);
    keep(nameOf(table), new Known(now, files));
  }

  private static Known of(String name) {
    synchronized (KNOWN) {
      return KNOWN.get(name);
    }
  }

  private static void keep(String name, Known known) {
    synchronized (KNOWN) {
      KNOWN.put(name, known);
      int size = KNOWN.values().stream().mapToInt(Known::size).sum();
      Iterator<Known> eldest = KNOWN.values().iterator();
      while (size > MOST) {
        size -= eldest.next().size();
        eldest.remove();
      }
    }
  }

  /** As Hudi's index does it, but for reading the timeline again, partition by partition. */
  private Map<Integer, String> list(String partition) {
    LISTINGS.incrementAndGet();
    Map<Integer, String> found = new HashMap<>();
    for (FileSlice slice : HoodieIndexUtils.getLatestFileSlicesForPartition(partition, table)) {
      String file = slice.getFileId();
      String other = found.put(BucketIdentifier.bucketIdFromFileId(file), file);
      if (other != null) {
        throw new HoodieCommitException(
            other + " and " + file + " belong to the same bucket id in '" + partition + "'");
      }
    }
    return found;
  }

  private static String nameOf(HoodieTable table) {
    return table.getMetaClient().getBasePath().toString();
  }
}
