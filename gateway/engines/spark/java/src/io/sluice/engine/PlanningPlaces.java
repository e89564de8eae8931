package io.sluice.engine;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Lets each user plan so many statements at once; more of theirs wait, in their order. Planning
 * only computes, for up to {@link RunawayThreads#LONGEST_PLANNING} seconds: two dozen statements of one
 * user would take every core from the others for minutes. Nobody waits for another user.
 */
final class PlanningPlaces {
  static final int FEWEST_EACH = 2;
  private static final long LOOK_MILLIS = 50;
  private final int each;
  private final Map<Thread, Place> taken = new HashMap<>();
  private final List<Place> waiting = new ArrayList<>();

  private record Place(Statement statement, String user) {}

  /** As many places of each user as there are cores. */
  PlanningPlaces(int cores) {
    this.each = Math.max(cores, FEWEST_EACH);
  }

  /** Returns when this thread may plan the user's statement; a cancel ends the wait. */
  synchronized void enter(Statement statement, String user) {
    Thread here = Thread.currentThread();
    Place mine = new Place(statement, user);
    if (mine.equals(taken.get(here))) {
      return;
    }
    taken.remove(here);
    waiting.add(mine);
    try {
      while (!isNext(mine)) {
        statement.waitsFor(reason());
        wait(LOOK_MILLIS);
      }
      taken.put(here, mine);
    } catch (InterruptedException e) {
      here.interrupt();
      throw Denied.cancelledBeforePlanning();
    } finally {
      waiting.remove(mine);
      statement.waitsFor(null);
      notifyAll();
    }
  }

  /** This thread has planned its statement. One that fails before leaves when it ends. */
  synchronized void leave() {
    if (taken.remove(Thread.currentThread()) != null) {
      notifyAll();
    }
  }

  private boolean isNext(Place mine) {
    taken.entrySet().removeIf(entry -> isOver(entry.getKey(), entry.getValue()));
    long before =
        waiting.stream().takeWhile(place -> place != mine).filter(p -> isOf(p, mine)).count();
    return before + taken.values().stream().filter(p -> isOf(p, mine)).count() < each;
  }

  /** A cancelled statement is done at once, its thread only when it notices. */
  private static boolean isOver(Thread thread, Place place) {
    return Statement.on(thread) != place.statement();
  }

  private static boolean isOf(Place one, Place other) {
    return one.user().equals(other.user());
  }

  private String reason() {
    return "waits to be planned: "
        + each
        + " other statements of this user are being planned, and so many may be at once";
  }
}
