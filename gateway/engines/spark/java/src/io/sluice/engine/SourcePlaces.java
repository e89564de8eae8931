package io.sluice.engine;

import java.util.HashMap;
import java.util.Map;

/**
 * The connections of this engine to one source, by user. The last one is for a user who has none:
 * statements hold theirs for as long as they like.
 */
final class SourcePlaces {
  private final int most;
  private final Map<String, Integer> held = new HashMap<>();
  private int taken;

  SourcePlaces(int most) {
    this.most = most;
  }

  synchronized boolean tryTake(String user) {
    boolean hasOne = held.containsKey(user);
    int left = most - taken;
    if (left == 0 || hasOne && left == 1) {
      return false;
    }
    taken++;
    held.merge(user, 1, Integer::sum);
    return true;
  }

  synchronized void giveBack(String user) {
    taken--;
    held.computeIfPresent(user, (name, mine) -> mine == 1 ? null : mine - 1);
  }

  /** What a user reads who waits for one. */
  synchronized String reason(String datasource, String user) {
    return "INFO  : waits for a connection to "
        + datasource
        + ": statements of yours have "
        + held.getOrDefault(user, 0)
        + " of "
        + most
        + ", those of others "
        + (taken - held.getOrDefault(user, 0));
  }

  int most() {
    return most;
  }
}
