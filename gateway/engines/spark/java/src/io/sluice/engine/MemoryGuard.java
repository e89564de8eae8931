package io.sluice.engine;

import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.lang.management.MemoryPoolMXBean;
import java.lang.management.MemoryType;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.function.UnaryOperator;
import org.apache.spark.memory.MemoryManager;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Ends the statement that allocated most, for its tasks and its plan, once little memory is left
 * after a collection, before everybody's statements fail. What these allocated is near enough to
 * what is held, and known without asking each object. A statement that took little is never ended:
 * where nobody is known to have taken much and the heap stays full, the engine's successor takes
 * over.
 */
final class MemoryGuard {
  private static final Logger LOG = LoggerFactory.getLogger(MemoryGuard.class);
  private static final double FULL = 0.85;
  static final long LOOK_MILLIS = 100;
  private static final long SETTLE_NANOS = TimeUnit.MILLISECONDS.toNanos(1500);
  private static final long MOST = 2; // of the heap: whoever took more than that is to blame
  private static final long MUCH = 4; // the least that ever makes a culprit
  private static final int PATIENCE = 3;
  private static final int LAST_ROUND = 15;
  private final MemoryPoolMXBean old = oldGeneration();
  private final GarbageCollectorMXBean collector = collectorOf(old);
  private final long heap = Runtime.getRuntime().maxMemory();
  private final Statements statements;
  private final TaskAllocations tasks;
  private final MemoryManager pages;
  private final Set<String> known = new HashSet<>();
  private EndingStatement ending = EndingStatement.NONE;
  private long decidedNanos = System.nanoTime();
  private long collections;
  private int rounds;

  MemoryGuard(Statements statements, TaskAllocations tasks, MemoryManager pages) {
    this.statements = statements;
    this.tasks = tasks;
    this.pages = pages;
  }

  void look() {
    Map<String, Statement> open = statements.open();
    Map<String, Long> held = tasks.held(TaskWatch::allocatedBy);
    tasks.keep(open.keySet());
    Set<String> left = leftBehind(open.keySet(), held.keySet());
    EndedStatements.are(left);
    if (open.isEmpty()) {
      return; // nobody could be ended, and an engine at rest is not collected
    }
    boolean isMeasuredNow = isCollectedSince();
    if (System.nanoTime() - decidedNanos < SETTLE_NANOS || isFull() && isGoing(left, held)) {
      return;
    }
    if (!isFull() || !isMeasuredNow && !isFullAfterCollection()) {
      rounds = 0;
      return;
    }
    decide(open, held);
    decidedNanos = System.nanoTime();
  }

  /** Statements that were ended, or whose clients left, and whose tasks run on. */
  private Set<String> leftBehind(Set<String> open, Set<String> running) {
    known.retainAll(running);
    Set<String> left = new HashSet<>(known);
    left.removeAll(open);
    known.addAll(open);
    return left;
  }

  /**
   * Tells whether tasks of statements that are left behind hold much: it goes with these tasks, and
   * until then the heap is full for their sake and no other's.
   */
  private boolean isGoing(Set<String> left, Map<String, Long> held) {
    if (left.stream().mapToLong(held::get).sum() <= heap / MUCH) {
      return false;
    }
    if (Collections.disjoint(ending.statements(), left)) {
      ending = new EndingStatement(left, System.nanoTime());
    }
    return ending.isUnderWay(left, System.nanoTime());
  }

  /** Whether the old part was collected since the last look: what it kept is what is held now. */
  private boolean isCollectedSince() {
    long before = collections;
    collections = collector.getCollectionCount();
    return collections != before;
  }

  /** What was measured may have been let go of since, by a statement that just ended. */
  private boolean isFullAfterCollection() {
    System.gc();
    return isFull();
  }

  /** Full is what the last collection could not free: garbage does not count. */
  private boolean isFull() {
    var left = old.getCollectionUsage();
    if (left == null) {
      return false;
    }
    long given = pages.executionMemoryUsed() + pages.storageMemoryUsed();
    long most = pages.executionMemoryUsed() + pages.maxOnHeapStorageMemory();
    return isShort(left.getUsed(), left.getMax(), given, most);
  }

  /**
   * Tells whether little of the heap is left. What Spark gave to sorts, joins and broadcasts is not
   * what fills it: Spark never gives more than its most, and has the rest spilled.
   */
  static boolean isShort(long held, long heap, long given, long mostGiven) {
    return heap > 0 && held > FULL * heap && held - given > FULL * (heap - mostGiven);
  }

  /**
   * Ends whose tasks took most. Memory that no running task took is the driver's own: if it stays
   * taken, it is the result of whoever took most before. At first only what took half of the heap
   * is ended: what is allocated is not all kept, and a smaller one may have been beside the cause.
   */
  private void decide(Map<String, Statement> open, Map<String, Long> held) {
    rounds++;
    held.keySet().retainAll(open.keySet());
    Optional<String> worst = mostAbove(heap / MOST, held);
    if (worst.isEmpty() && rounds > PATIENCE) {
      open.keySet().forEach(one -> held.merge(one, tasks.doneBy(one), Long::sum));
      worst = mostAbove(heap / MUCH, held);
    }
    if (worst.isEmpty() && rounds > PATIENCE) {
      worst = largestOfHoarder(heap / MOST, held, one -> open.get(one).userName());
    }
    worst.ifPresent(one -> end(open.get(one), held.get(one)));
    if (worst.isEmpty() && rounds > LAST_ROUND) {
      Engine.end("its memory stays full, and no statement is known to have taken it");
    }
  }

  /** The largest statement of the user whose statements took more than `much` together. */
  static Optional<String> largestOfHoarder(
      long much, Map<String, Long> taken, UnaryOperator<String> userOf) {
    Map<String, Long> sums = new HashMap<>();
    taken.forEach((one, bytes) -> sums.merge(userOf.apply(one), bytes, Long::sum));
    return mostAbove(much, sums)
        .flatMap(
            user ->
                taken.keySet().stream()
                    .filter(one -> userOf.apply(one).equals(user))
                    .max(Comparator.comparing(taken::get)));
  }

  static <T> Optional<T> mostAbove(long much, Map<T, Long> taken) {
    return taken.entrySet().stream()
        .filter(one -> one.getValue() > much)
        .max(Comparator.comparingLong(Map.Entry::getValue))
        .map(Map.Entry::getKey);
  }

  private void end(Statement statement, long took) {
    EndedStatements.are(Set.of(statement.statementId()));
    LOG.warn(
        "memory is short ({} MiB kept): statement {} ends, it took {} MiB",
        old.getCollectionUsage().getUsed() >> 20,
        statement.statementId(),
        took >> 20);
    statement.end(TooLarge.memory(heap));
  }

  private static MemoryPoolMXBean oldGeneration() {
    return ManagementFactory.getMemoryPoolMXBeans().stream()
        .filter(pool -> pool.getType() == MemoryType.HEAP && pool.isUsageThresholdSupported())
        .findFirst()
        .orElseThrow();
  }

  private static GarbageCollectorMXBean collectorOf(MemoryPoolMXBean pool) {
    return ManagementFactory.getGarbageCollectorMXBeans().stream()
        .filter(one -> List.of(one.getMemoryPoolNames()).contains(pool.getName()))
        .findFirst()
        .orElseThrow();
  }
}
