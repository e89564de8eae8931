package io.sluice.engine;

import java.lang.management.ManagementFactory;
import java.lang.management.MemoryPoolMXBean;
import java.lang.management.MemoryType;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.SparkStatusTracker;

/**
 * Ends the statement that allocates most once little memory is left after a collection, before
 * everybody's statements fail. Allocation is what threads of Spark's tasks are seen to do: near
 * enough to what is held, and known without asking each object.
 */
final class MemoryGuard {
  private static final double FULL = 0.85;
  static final long LOOK_MILLIS = 100;
  private static final long SETTLE_MILLIS = 1500;
  private static final long MUCH = 8; // of the heap, the least that makes a culprit
  private static final int PATIENCE = 3;
  private static final int MOST_STAGES = 10_000;
  private static final Pattern TASK = Pattern.compile("in stage (\\d{1,9})");
  private final com.sun.management.ThreadMXBean threads =
      (com.sun.management.ThreadMXBean) ManagementFactory.getThreadMXBean();
  private final MemoryPoolMXBean old = oldGeneration();
  private final Statements statements;
  private final SparkStatusTracker tracker;
  private Map<Long, Long> seen = Map.of();
  private int rounds;
  private EndingStatement ending = EndingStatement.NONE;
  private final Map<Integer, Long> allocatedByStage = new HashMap<>();

  MemoryGuard(Statements statements, SparkStatusTracker tracker) {
    this.statements = statements;
    this.tracker = tracker;
  }

  void look() throws InterruptedException {
    List<Statement> open = statements.open();
    if (open.isEmpty() || allocatedByStage.size() > MOST_STAGES) {
      seen = Map.of();
      allocatedByStage.clear();
      return;
    }
    Set<Integer> running = watchThreads();
    if (ending.isUnderWay(running, System.nanoTime())) {
      return;
    }
    if (isFull() && isFullAfterCollection()) {
      end(open);
      TimeUnit.MILLISECONDS.sleep(SETTLE_MILLIS);
    } else {
      rounds = 0;
    }
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
   * Ends who took much. Memory that nobody's tasks took is the driver's own, for some statement:
   * if it stays taken, the one that runs and took most is ended.
   */
  private void end(List<Statement> open) {
    rounds++;
    long much = Runtime.getRuntime().maxMemory() / MUCH;
    Comparator<Statement> byTaken = Comparator.comparingLong(this::allocatedBy);
    Optional<Statement> worst = open.stream().filter(s -> allocatedBy(s) > much).max(byTaken);
    if (worst.isEmpty() && rounds > PATIENCE) {
      worst = open.stream().filter(Statement::isRunning).max(byTaken);
    }
    worst.ifPresent(
        statement -> {
          System.err.println("memory is short: statement " + statement.statementId() + " ends");
          ending = new EndingStatement(stagesOf(statement), System.nanoTime());
          statement.end(TooLarge.memory(Runtime.getRuntime().maxMemory()));
        });
  }

  private long allocatedBy(Statement statement) {
    return stagesOf(statement).stream()
        .mapToLong(stage -> allocatedByStage.getOrDefault(stage, 0L))
        .sum();
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

  /** Adds what each task allocated since the last look; returns the stages that have tasks. */
  private Set<Integer> watchThreads() {
    Thread[] all = new Thread[Thread.activeCount() * 2 + 16];
    int count = Thread.currentThread().getThreadGroup().enumerate(all, true);
    Map<Long, Long> now = new HashMap<>();
    Set<Integer> running = new HashSet<>();
    for (int i = 0; i < count; i++) {
      Matcher task = TASK.matcher(all[i].getName());
      if (task.find()) {
        long total = threads.getThreadAllocatedBytes(all[i].getId());
        now.put(all[i].getId(), total);
        long fresh = total - seen.getOrDefault(all[i].getId(), total);
        int stage = Integer.parseInt(task.group(1));
        allocatedByStage.merge(stage, fresh, Long::sum);
        running.add(stage);
      }
    }
    seen = now;
    return running;
  }

  private static MemoryPoolMXBean oldGeneration() {
    return ManagementFactory.getMemoryPoolMXBeans().stream()
        .filter(pool -> pool.getType() == MemoryType.HEAP && pool.isUsageThresholdSupported())
        .findFirst()
        .orElseThrow();
  }
}
