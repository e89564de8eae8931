package io.sluice.engine;

import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.Map;
import java.util.function.Supplier;
import org.apache.hive.service.cli.HiveSQLException;

/**
 * Bytes that results have on the engine's disk: of each user, and of all. Who has less than others
 * is given room: it is taken from whoever has most.
 */
final class SpoolRoom {
  /** A result with rows on the disk. */
  interface Held {
    String userName();

    long spooled();

    /** Whether its client was here a moment ago. */
    boolean isBeingRead();

    /** When its client asked last, of one clock for all. */
    long lastRead();

    void end(HiveSQLException reason);
  }

  private final long most;
  private final long mostEach;
  private final Supplier<? extends Collection<? extends Held>> results;
  private final Map<String, Long> held = new HashMap<>(); // by user
  private long total;

  SpoolRoom(
      long most, long mostEach, Supplier<? extends Collection<? extends Held>> results) {
    this.most = most;
    this.mostEach = mostEach;
    this.results = results;
  }

  /**
   * Refuses, in words for the user, what is beyond their share: while all is taken, as much as
   * anybody else has. Below that, results of those who have more end. The caller holds no
   * lock: ending a result takes those of that result.
   */
  void take(String user, long bytes) {
    while (!takeIfFree(user, bytes)) {
      largestLeft(user, bytes).end(TooLarge.madeRoom(most));
    }
  }

  private synchronized boolean takeIfFree(String user, long bytes) {
    long each = held.getOrDefault(user, 0L) + bytes;
    if (each > mostEach) {
      throw TooLarge.results(mostEach, true);
    }
    if (total + bytes > most) {
      return false;
    }
    held.put(user, each);
    total += bytes;
    return true;
  }

  /** Of whoever has most: a result that nobody reads, rather than another; the oldest. */
  private Held largestLeft(String user, long bytes) {
    Map<String, Long> now = copy();
    long own = now.getOrDefault(user, 0L) + bytes;
    Comparator<Held> order = Comparator.comparing(one -> -now.get(one.userName()));
    return results.get().stream()
        .filter(one -> one.spooled() > 0 && now.getOrDefault(one.userName(), 0L) > own)
        .map(Held.class::cast)
        .min(order.thenComparing(Held::isBeingRead).thenComparing(Held::lastRead))
        .orElseThrow(() -> TooLarge.results(most, false));
  }

  private synchronized Map<String, Long> copy() {
    return new HashMap<>(held);
  }

  synchronized void giveBack(String user, long bytes) {
    held.computeIfPresent(user, (name, has) -> has <= bytes ? null : has - bytes);
    total -= bytes;
  }

  /** More than half of an equal share: from then on a result goes on only as fast as it is read. */
  synchronized boolean isHalfFull(String user) {
    long share = Math.min(mostEach, most / Math.max(1, held.size()));
    return held.getOrDefault(user, 0L) > share / 2;
  }
}
