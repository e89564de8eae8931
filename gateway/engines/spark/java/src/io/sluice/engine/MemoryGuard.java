package io.sluice.engine;

import java.lang.management.ManagementFactory;
import java.lang.management.MemoryPoolMXBean;
import java.lang.management.MemoryType;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.apache.spark.SparkStatusTracker;

/**
 * Ends the statement whose tasks allocated most once little memory is left after a collection,
 * before everybody's statements fail. What running tasks allocated is near enough to what is held,
 * and known without asking each object. A statement that took little is never ended: where nobody
 * is known to have taken much and the heap stays full, the engine's successor takes over.
 */
final class MemoryGuard {
  private static final double FULL = 0.85;
  static final long LOOK_MILLIS = 100;
  private static final long SETTLE_NANOS = TimeUnit.MILLISECONDS.toNanos(1500);
  private static final long MUCH = 4; // of the heap, the least that makes a culprit
  private static final int PATIENCE = 3;
  private static final int LAST_ROUND = 15;
  private static final int MOST_STAGES = 10_000;
  private static final String WORKER = "Executor task launch worker";
  private static final String AT_TASK = "org.apache.spark.executor.Executor$TaskRunner";
  private final com.sun.management.ThreadMXBean threads =
      (com.sun.management.ThreadMXBean) ManagementFactory.getThreadMXBean();
  private final MemoryPoolMXBean old = oldGeneration();
  private final long heap = Runtime.getRuntime().maxMemory();
  private final Statements statements;
  private final SparkStatusTracker tracker;
  private final TaskAllocations tasks = new TaskAllocations();
  private EndingStatement ending = EndingStatement.NONE;
  private long decidedNanos = System.nanoTime();
  private int rounds;

  MemoryGuard(Statements statements, SparkStatusTracker tracker) {
    this.statements = statements;
    this.tracker = tracker;
  }

  void look() {
    List<Statement> open = statements.open();
    if (open.isEmpty() || tasks.stages() > MOST_STAGES) {
      tasks.forget();
      return;
    }
    tasks.update(workers());
    if (System.nanoTime() - decidedNanos < SETTLE_NANOS) {
      return;
    }
    if (isFull() && isGoing(open)) {
      return;
    }
    if (!isFull() || !isFullAfterCollection()) {
      rounds = 0;
      return;
    }
    decide(open);
    decidedNanos = System.nanoTime();
  }

  /**
   * Tells whether tasks of statements that were ended, or whose clients left, hold much: it goes
   * with these tasks, and until then the heap is full for their sake and no other's.
   */
  private boolean isGoing(List<Statement> open) {
    Set<Integer> left = tasks.runningStages();
    open.forEach(statement -> left.removeAll(stagesOf(statement)));
    if (tasks.heldBy(left) <= heap / MUCH) {
      return false;
    }
    if (Collections.disjoint(ending.stages(), left)) {
      ending = new EndingStatement(left, System.nanoTime());
    }
    return ending.isUnderWay(left, System.nanoTime());
  }

  /** What was measured may have been let go of since, by a statement that just ended. */
  private boolean isFullAfterCollection() {
    System.gc();
    return isFull();
  }

  /** Full is what the last collection could not free: garbage does not count. */
  private boolean isFull() {
    var left = old.getCollectionUsage();
    return left != null && left.getMax() > 0 && left.getUsed() > FULL * left.getMax();
  }

  /**
   * Ends whose tasks took much. Memory that no running task took is the driver's own: if it stays
   * taken, it is the result of whoever took most before.
   */
  private void decide(List<Statement> open) {
    rounds++;
    Optional<Statement> worst = worst(open, tasks::heldBy);
    if (worst.isEmpty() && rounds > PATIENCE) {
      worst = worst(open, tasks::tookBy);
    }
    worst.ifPresent(this::end);
    if (worst.isEmpty() && rounds > LAST_ROUND) {
      Engine.end("its memory stays full, and no statement is known to have taken it");
    }
  }

  private Optional<Statement> worst(List<Statement> open, Function<Set<Integer>, Long> taken) {
    return mostAbove(
        heap / MUCH,
        open.stream().collect(Collectors.toMap(s -> s, s -> taken.apply(stagesOf(s)))));
  }

  static <T> Optional<T> mostAbove(long much, Map<T, Long> taken) {
    return taken.entrySet().stream()
        .filter(one -> one.getValue() > much)
        .max(Comparator.comparingLong(Map.Entry::getValue))
        .map(Map.Entry::getKey);
  }

  private void end(Statement statement) {
    Set<Integer> stages = stagesOf(statement);
    System.err.printf(
        "memory is short (%d MiB kept): statement %s ends, its tasks took %d MiB, %d MiB in all%n",
        old.getCollectionUsage().getUsed() >> 20,
        statement.statementId(),
        tasks.heldBy(stages) >> 20,
        tasks.tookBy(stages) >> 20);
    EndedStages.are(stages);
    statement.end(TooLarge.memory(heap));
  }

  private Set<Integer> stagesOf(Statement statement) {
    Set<Integer> stages = new HashSet<>();
    for (int job : tracker.getJobIdsForGroup(statement.statementId())) {
      var info = tracker.getJobInfo(job);
      if (info.isDefined()) {
        Arrays.stream(info.get().stageIds()).forEach(stages::add);
      }
    }
    return stages;
  }

  private Collection<TaskAllocations.Worker> workers() {
    Thread[] all = new Thread[Thread.activeCount() * 2 + 16];
    int count = Thread.currentThread().getThreadGroup().enumerate(all, true);
    List<TaskAllocations.Worker> found = new ArrayList<>();
    for (Thread thread : Arrays.copyOf(all, count)) {
      String name = thread.getName();
      if (name.startsWith(WORKER) && isAtTask(thread)) {
        long allocated = threads.getThreadAllocatedBytes(thread.getId());
        found.add(new TaskAllocations.Worker(thread.getId(), name, allocated));
      }
    }
    return found;
  }

  /** A thread without a task waits for one, under the name of its last. */
  private static boolean isAtTask(Thread thread) {
    return thread.getState() == Thread.State.RUNNABLE
        || Arrays.stream(thread.getStackTrace())
            .anyMatch(frame -> frame.getClassName().equals(AT_TASK));
  }

  private static MemoryPoolMXBean oldGeneration() {
    return ManagementFactory.getMemoryPoolMXBeans().stream()
        .filter(pool -> pool.getType() == MemoryType.HEAP && pool.isUsageThresholdSupported())
        .findFirst()
        .orElseThrow();
  }
}
