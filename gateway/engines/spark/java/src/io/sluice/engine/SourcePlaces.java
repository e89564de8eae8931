package io.sluice.engine;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Collectors;

/**
 * The connections of this engine to one source, by user. The last one is for a user who has none:
 * statements hold theirs for as long as they like. When several users hold all of them, who has
 * most gives one to a user who has none, as with places for tasks ({@link PlaceTurns}).
 */
final class SourcePlaces {
  static final long NO_TASK = -1;
  private final int most;
  private final List<Place> taken = new ArrayList<>(); // in the order of time

  /** A connection that a user may have; given back by {@link #close}. */
  final class Place implements AutoCloseable {
    private final String user;
    private final long task;
    private boolean givesWay;

    private Place(String user, long task) {
      this.user = user;
      this.task = task;
    }

    @Override
    public void close() {
      giveBack(this);
    }
  }

  SourcePlaces(int most) {
    this.most = most;
  }

  /** Null when that user can have none now. */
  synchronized Place tryTake(String user, long task) {
    int left = most - taken.size();
    if (left == 0 || left == 1 && of(user) > 0) {
      return null;
    }
    Place made = new Place(user, task);
    taken.add(made);
    return made;
  }

  private synchronized void giveBack(Place place) {
    taken.remove(place);
  }

  /**
   * The task that is to begin anew so that this user gets a connection: the youngest of who has
   * most. Null while one is ending, when nobody has two, or for who has one.
   */
  synchronized Long givingWayTo(String user) {
    if (of(user) > 0 || taken.stream().anyMatch(place -> place.givesWay)) {
      return null;
    }
    Collection<List<Place>> all =
        taken.stream()
            .filter(place -> place.task != NO_TASK)
            .collect(Collectors.groupingBy(place -> place.user))
            .values();
    List<Place> largest = all.stream().max(Comparator.comparing(List::size)).orElse(List.of());
    if (largest.size() < 2) {
      return null;
    }
    Place youngest = largest.get(largest.size() - 1);
    youngest.givesWay = true;
    return youngest.task;
  }

  /** What a user reads who waits for one. */
  synchronized String reason(String datasource, String user) {
    long mine = of(user);
    return "waits for a connection to "
        + datasource
        + ": statements of yours have "
        + mine
        + " of "
        + most
        + ", those of others "
        + (taken.size() - mine);
  }

  private long of(String user) {
    return taken.stream().filter(place -> place.user.equals(user)).count();
  }

  int most() {
    return most;
  }
}
