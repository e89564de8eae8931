package io.sluice.engine;

import java.util.HashMap;
import java.util.Map;

/** Bytes that results have on the engine's disk: of each user, and of all. */
final class SpoolRoom {
  private final long most;
  private final long mostEach;
  private final Map<String, Long> held = new HashMap<>(); // by user
  private long total;

  SpoolRoom(long most, long mostEach) {
    this.most = most;
    this.mostEach = mostEach;
  }

  /** Refuses what does not fit, in words for the user. */
  synchronized void take(String user, long bytes) {
    long each = held.getOrDefault(user, 0L) + bytes;
    if (each > mostEach || total + bytes > most) {
      throw TooLarge.results(each > mostEach ? mostEach : most, each > mostEach);
    }
    held.put(user, each);
    total += bytes;
  }

  synchronized void giveBack(String user, long bytes) {
    held.computeIfPresent(user, (name, has) -> has <= bytes ? null : has - bytes);
    total -= bytes;
  }

  /** From then on a result goes on only as fast as it is read. */
  synchronized boolean isHalfFull(String user) {
    return held.getOrDefault(user, 0L) > mostEach / 2 || total > most / 2;
  }
}
