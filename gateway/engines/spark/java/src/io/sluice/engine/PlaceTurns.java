package io.sluice.engine;

import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import java.util.stream.Stream;

/**
 * Which tasks give their places to users who wait for one and have none. The youngest tasks of
 * those who have most give way, as little of their work is lost. Everybody keeps their share, in
 * their oldest tasks, which so come to their ends. Made of looks at regular times, no clock.
 */
final class PlaceTurns {
  static final int PATIENT_LOOKS = 4;
  static final int SPARED_LOOKS = 20;
  private final Map<String, Wait> waits = new HashMap<>();
  private final Map<Long, Integer> told = new HashMap<>(); // tasks; looks in which they may end
  private final Map<Long, Integer> spared = new HashMap<>(); // tasks; looks to come

  /** A task that runs; those that began earlier have smaller numbers. */
  record Task(long id, long begun) {}

  /**
   * One user's tasks: how many wait, those that run, the oldest stage that waits, and how many
   * tasks of their stages were begun by now.
   */
  record User(String name, int waiting, List<Task> running, int oldestStage, int begun) {}

  /** Goes on as long as the same stage waits and none of the user's tasks begins. */
  private record Wait(int oldestStage, int begun, int looks) {}

  /** A task that its user has beyond the share; the rank is its place among theirs, by age. */
  private record Beyond(long task, int rank) {}

  /** The identifiers of tasks that are to end now; each is named once in a while. */
  List<Long> taken(int places, List<User> users) {
    age(told);
    age(spared);
    List<User> now = users.stream().map(this::withoutTold).filter(PlaceTurns::hasWork).toList();
    List<User> starving = starving(now);
    if (starving.isEmpty()) {
      return List.of();
    }
    int share = Math.max(1, places / now.size());
    int free = places - now.stream().mapToInt(user -> user.running().size()).sum();
    int wanted = starving.stream().mapToInt(user -> Math.min(user.waiting(), share)).sum();
    List<Long> taken = youngest(Math.max(0, wanted - free), share, now);
    taken.forEach(task -> told.put(task, SPARED_LOOKS));
    now.forEach(user -> spareRest(user, taken));
    return taken;
  }

  private static void age(Map<Long, Integer> looks) {
    looks.replaceAll((task, left) -> left - 1);
    looks.values().removeIf(left -> left == 0);
  }

  /** The place of a task that was told to end is as good as free. */
  private User withoutTold(User user) {
    List<Task> running =
        user.running().stream().filter(task -> !told.containsKey(task.id())).toList();
    return new User(user.name(), user.waiting(), running, user.oldestStage(), user.begun());
  }

  private static boolean hasWork(User user) {
    return user.waiting() > 0 || !user.running().isEmpty();
  }

  private List<User> starving(List<User> users) {
    Map<String, Wait> before = Map.copyOf(waits);
    waits.clear();
    for (User user : users) {
      if (user.waiting() > 0 && user.running().isEmpty()) {
        waits.put(user.name(), next(before.get(user.name()), user));
      }
    }
    return users.stream()
        .filter(user -> waits.containsKey(user.name()))
        .filter(user -> waits.get(user.name()).looks() > PATIENT_LOOKS)
        .toList();
  }

  private static Wait next(Wait before, User user) {
    boolean goesOn =
        before != null
            && before.oldestStage() == user.oldestStage()
            && before.begun() == user.begun();
    return new Wait(user.oldestStage(), user.begun(), goesOn ? before.looks() + 1 : 1);
  }

  private List<Long> youngest(int many, int share, List<User> users) {
    return users.stream()
        .flatMap(user -> beyond(share, user))
        .filter(one -> !spared.containsKey(one.task()))
        .sorted(Comparator.comparingInt(Beyond::rank).reversed())
        .limit(many)
        .map(Beyond::task)
        .toList();
  }

  private static Stream<Beyond> beyond(int share, User user) {
    List<Task> byAge =
        user.running().stream()
            .sorted(Comparator.comparingLong(Task::begun).thenComparingLong(Task::id))
            .toList();
    return IntStream.range(Math.min(share, byAge.size()), byAge.size())
        .mapToObj(rank -> new Beyond(byAge.get(rank).id(), rank));
  }

  /** Nothing more is taken from who gave for a while, but what begins later. */
  private void spareRest(User user, List<Long> taken) {
    List<Long> running = user.running().stream().map(Task::id).toList();
    if (!Collections.disjoint(running, taken)) {
      running.stream()
          .filter(task -> !taken.contains(task))
          .forEach(task -> spared.putIfAbsent(task, SPARED_LOOKS));
    }
  }
}
