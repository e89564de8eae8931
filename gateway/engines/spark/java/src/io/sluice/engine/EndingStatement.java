package io.sluice.engine;

import java.util.Set;
import java.util.concurrent.TimeUnit;

/**
 * A statement that was ended for its memory, or left by its client: the memory goes only with its
 * tasks, and until then the heap is full for its sake and no other's. Tasks that do not end are
 * waited for so long.
 */
record EndingStatement(Set<Integer> stages, long endedNanos) {
  static final EndingStatement NONE = new EndingStatement(Set.of(), 0);
  private static final long LONGEST_SECONDS = 15;

  boolean isUnderWay(Set<Integer> runningStages, long nowNanos) {
    return nowNanos - endedNanos < TimeUnit.SECONDS.toNanos(LONGEST_SECONDS)
        && stages.stream().anyMatch(runningStages::contains);
  }
}
