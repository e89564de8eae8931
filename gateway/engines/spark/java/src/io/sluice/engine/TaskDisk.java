package io.sluice.engine;

import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.LongSupplier;

/**
 * What tasks wrote to the engine's disk, by the statement that they work for: what a task spilled
 * goes with it, what it wrote for later stages stays with its statement.
 */
final class TaskDisk {
  private final Map<Long, Task> running = new ConcurrentHashMap<>(); // by thread
  private final Map<String, Long> kept = new ConcurrentHashMap<>(); // by statement

  private record Task(String statement, LongSupplier spilled, LongSupplier forLater) {}

  void start(long thread, String statement, LongSupplier spilled, LongSupplier forLater) {
    running.put(thread, new Task(statement, spilled, forLater));
  }

  void end(long thread, boolean isDone) {
    Task task = running.remove(thread);
    if (task != null && isDone) {
      kept.merge(task.statement(), task.forLater().getAsLong(), Long::sum);
    }
  }

  /** Bytes by statement. */
  Map<String, Long> written() {
    Map<String, Long> written = new HashMap<>(kept);
    for (Task task : running.values()) {
      long bytes = task.spilled().getAsLong() + task.forLater().getAsLong();
      written.merge(task.statement(), bytes, Long::sum);
    }
    return written;
  }

  /** Forgets what was written for other statements. */
  void keep(Set<String> statements) {
    kept.keySet().retainAll(statements);
  }
}
