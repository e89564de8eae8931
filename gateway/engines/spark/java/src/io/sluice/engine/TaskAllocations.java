package io.sluice.engine;

import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.ToLongFunction;

/**
 * What tasks and the planning of statements allocated, by the statement that they work for. A
 * thread runs one after another: what it allocated for one is never counted for the next.
 */
final class TaskAllocations {
  private final Map<Long, Task> running = new ConcurrentHashMap<>(); // by thread
  private final Map<String, Long> done = new ConcurrentHashMap<>(); // by statement

  /** `before` is what its thread had allocated when it began. */
  private record Task(String statement, long before) {}

  /** A thread that allocated so many bytes in its life begins a task. */
  void start(long thread, String statement, long allocated) {
    running.put(thread, new Task(statement, allocated));
  }

  void end(long thread, long allocated) {
    Task task = running.remove(thread);
    if (task != null) {
      done.merge(task.statement(), allocated - task.before(), Long::sum);
    }
  }

  /** Bytes of tasks that run, by statement: what a task took goes with it. */
  Map<String, Long> held(ToLongFunction<Long> allocated) {
    Map<String, Long> held = new HashMap<>();
    running.forEach(
        (thread, task) ->
            held.merge(
                task.statement(),
                Math.max(0, allocated.applyAsLong(thread) - task.before()),
                Long::sum));
    return held;
  }

  /** Bytes of tasks that are done: their results may be held. */
  long doneBy(String statement) {
    return done.getOrDefault(statement, 0L);
  }

  /** Forgets what tasks of other statements took. */
  void keep(Set<String> statements) {
    done.keySet().retainAll(statements);
  }
}
