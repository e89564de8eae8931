package io.sluice.engine;

import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Stream;

/**
 * Which tasks give their places to users who wait for one and have none. The youngest tasks of
 * those who have most give way, as little of their work is lost; everybody keeps his share, in his
 * oldest tasks, which so come to their ends. Made of looks at regular times, no clock.
 */
final class PlaceTurns {
  static final int PATIENT_LOOKS = 4;
  static final int SPARED_LOOKS = 20;
  private final Map<String, Wait> waits = new HashMap<>();
  private final Map<String, Spared> spared = new HashMap<>();

  /** A task that runs; those that began earlier have smaller numbers. */
  record Task(long id, long begun) {}

  /**
   * One user's tasks: how many wait, those that run, the oldest stage that waits, and how many
   * tasks of his stages were begun by now.
   */
  record User(String name, int waiting, List<Task> running, int oldestStage, int begun) {}

  /** Goes on as long as the same stage waits and none of the user's tasks begins. */
  private record Wait(int oldestStage, int begun, int looks) {}

  /** What was taken from a user, and for how many looks nothing more is. */
  private record Spared(Set<Long> tasks, int looks) {}

  /** The identifiers of tasks that are to end now, youngest first; each is named once. */
  List<Long> taken(int places, List<User> users) {
    spared.replaceAll((name, one) -> new Spared(one.tasks(), one.looks() - 1));
    spared.values().removeIf(one -> one.looks() == 0);
    List<User> now = users.stream().map(this::withoutEnding).filter(PlaceTurns::hasWork).toList();
    Set<String> starving = starving(now);
    if (starving.isEmpty()) {
      return List.of();
    }
    int share = Math.max(1, places / now.size());
    int free = places - now.stream().mapToInt(user -> user.running().size()).sum();
    int wanted =
        now.stream()
            .filter(user -> starving.contains(user.name()))
            .mapToInt(user -> Math.min(user.waiting(), share))
            .sum();
    return now.stream()
        .filter(user -> !spared.containsKey(user.name()))
        .flatMap(user -> beyond(share, user))
        .sorted(Comparator.comparingInt(Candidate::rank).reversed())
        .limit(Math.max(0, wanted - free))
        .toList() // all candidates are known before anyone is spared
        .stream()
        .map(this::take)
        .toList();
  }

  /** A task that was told to end is as good as a free place. */
  private User withoutEnding(User user) {
    Spared told = spared.get(user.name());
    if (told == null) {
      return user;
    }
    List<Task> running =
        user.running().stream().filter(task -> !told.tasks().contains(task.id())).toList();
    return new User(user.name(), user.waiting(), running, user.oldestStage(), user.begun());
  }

  private static boolean hasWork(User user) {
    return user.waiting() > 0 || !user.running().isEmpty();
  }

  private Set<String> starving(List<User> users) {
    Map<String, Wait> before = Map.copyOf(waits);
    Set<String> starving = new HashSet<>();
    waits.clear();
    for (User user : users) {
      if (user.waiting() == 0 || !user.running().isEmpty()) {
        continue;
      }
      Wait known = before.get(user.name());
      boolean goesOn =
          known != null
              && known.oldestStage() == user.oldestStage()
              && known.begun() == user.begun();
      int looks = goesOn ? known.looks() + 1 : 1;
      waits.put(user.name(), new Wait(user.oldestStage(), user.begun(), looks));
      if (looks > PATIENT_LOOKS) {
        starving.add(user.name());
      }
    }
    return starving;
  }

  /** The rank is the place of a task among its user's, by age: the higher, the more he has. */
  private record Candidate(String user, long task, int rank) {}

  private static Stream<Candidate> beyond(int share, User user) {
    List<Task> byAge =
        user.running().stream()
            .sorted(Comparator.comparingLong(Task::begun).thenComparingLong(Task::id))
            .toList();
    return Stream.iterate(share, rank -> rank < byAge.size(), rank -> rank + 1)
        .map(rank -> new Candidate(user.name(), byAge.get(rank).id(), rank));
  }

  private long take(Candidate one) {
    spared
        .computeIfAbsent(one.user(), name -> new Spared(new HashSet<>(), SPARED_LOOKS))
        .tasks()
        .add(one.task());
    return one.task();
  }
}
