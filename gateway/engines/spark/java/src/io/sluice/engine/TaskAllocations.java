package io.sluice.engine;

import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/**
 * What tasks allocated, by stage. A thread runs one task after another, and keeps the name of the
 * last while it has none: what it allocated for one is never counted for the next.
 */
final class TaskAllocations {
  private static final Pattern TASK = Pattern.compile("in stage (\\d{1,9})");
  private Map<Long, Task> running = Map.of();
  private final Map<Integer, Long> allStages = new HashMap<>();

  /** A thread as it is now: `allocated` bytes in its life. */
  record Worker(long id, String name, long allocated) {}

  private record Task(String name, int stage, long before, long allocated) {
    long took() {
      return allocated - before;
    }
  }

  /** Takes in what threads that are at a task allocated since the last call. */
  void update(Collection<Worker> workers) {
    Map<Long, Task> now = new HashMap<>();
    for (Worker worker : workers) {
      Matcher stage = TASK.matcher(worker.name());
      if (stage.find()) {
        now.put(worker.id(), taskOf(worker, Integer.parseInt(stage.group(1))));
      }
    }
    running = now;
  }

  private Task taskOf(Worker worker, int stage) {
    Task last = running.get(worker.id());
    if (last == null || !last.name().equals(worker.name())) {
      return new Task(worker.name(), stage, worker.allocated(), worker.allocated());
    }
    allStages.merge(stage, worker.allocated() - last.allocated(), Long::sum);
    return new Task(last.name(), stage, last.before(), worker.allocated());
  }

  void forget() {
    running = Map.of();
    allStages.clear();
  }

  int stages() {
    return allStages.size();
  }

  Set<Integer> runningStages() {
    return running.values().stream().map(Task::stage).collect(Collectors.toSet());
  }

  /** Of tasks that run: what a task took goes with it. */
  long heldBy(Set<Integer> stages) {
    return running.values().stream()
        .filter(task -> stages.contains(task.stage()))
        .mapToLong(Task::took)
        .sum();
  }

  /** Of all tasks, those that are done as well: their results may be held. */
  long tookBy(Set<Integer> stages) {
    return stages.stream().mapToLong(stage -> allStages.getOrDefault(stage, 0L)).sum();
  }
}
