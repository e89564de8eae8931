package io.sluice.engine;

import java.util.Collections;
import java.util.Set;
import java.util.concurrent.TimeUnit;

/**
 * Statements that were ended for their memory, or left by their clients: the memory goes only with
 * their tasks, and until then the heap is full for their sake and no other's. Tasks that do not end
 * are waited for so long.
 */
record EndingStatement(Set<String> statements, long endedNanos) {
  static final EndingStatement NONE = new EndingStatement(Set.of(), 0);
  private static final long LONGEST_SECONDS = 15;

  boolean isUnderWay(Set<String> running, long nowNanos) {
    return nowNanos - endedNanos < TimeUnit.SECONDS.toNanos(LONGEST_SECONDS)
        && !Collections.disjoint(statements, running);
  }
}
