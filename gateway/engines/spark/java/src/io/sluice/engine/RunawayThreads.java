package io.sluice.engine;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Ends what goes on after it was told to end, for it looks at no interrupt: matches of regular
 * expressions, loops of generated code, the planning of statements; and planning that takes too
 * long without one. One row of {@code x RLIKE '(.*a){25}$'} kept its core for ever, a thousand rows
 * of a cross join for minutes, and so did a plan that grows with each rule. All of them only
 * compute, on a thread of the statement's own, so that the thread can be stopped in the midst of
 * it; not in Spark's parser, which learns for all statements, nor while a class is made ready.
 */
final class RunawayThreads {
  private static final Logger LOG = LoggerFactory.getLogger(RunawayThreads.class);
  static final int LONGEST_PLANNING = 60; // seconds of the processor
  static final long LOOK_MILLIS = 500;
  // A deep stack takes its time to unwind. A second death would meet whoever tells the first.
  private static final int UNWINDING_LOOKS = 60;
  private static final int NEAR_THE_TOP = 8; // frames of String and the like may lie above
  private static final String MATCHER = "java.util.regex.";
  private static final String GENERATED =
      "org.apache.spark.sql.catalyst.expressions.GeneratedClass";
  private static final List<String> VALUES =
      List.of(
          "java.lang.",
          "java.math.",
          "java.time.",
          "jdk.internal.math.",
          "org.apache.spark.sql.catalyst.expressions.",
          "org.apache.spark.sql.catalyst.util.",
          "org.apache.spark.sql.types.",
          "org.apache.spark.unsafe.types.");
  private static final String PLANNER = "org.apache.spark.sql.catalyst.";
  private static final String PARSER = "org.antlr.";
  private static final String STATEMENTS = "HiveServer2-Background-Pool";
  private final ThreadMXBean processor = ManagementFactory.getThreadMXBean();
  private Map<Thread, Seen> seen = Map.of();

  /** A thread at such work at each look: looks since its cancel, processor's time before. */
  private record Seen(int looksDeaf, long tookBefore) {}

  void look() {
    Map<Thread, Seen> now = new HashMap<>();
    Thread[] all = new Thread[Thread.activeCount() * 2 + 16];
    int count = Thread.currentThread().getThreadGroup().enumerate(all, true);
    for (Thread thread : Arrays.copyOf(all, count)) {
      Work work = workOf(thread);
      if (work != null) {
        Seen told = seenNow(thread);
        boolean isDeaf = told.looksDeaf() >= work.looks;
        if (isDeaf || isTooLong(thread, work, told)) {
          String why = isDeaf ? "a cancelled" : "an endless";
          LOG.warn("{} {} ends: {}", why, work.name, thread.getName());
          stop(thread);
          told = new Seen(-UNWINDING_LOOKS, tookBy(thread));
        }
        now.put(thread, told);
      }
    }
    seen = now;
  }

  private static Work workOf(Thread thread) {
    boolean isOfStatement = thread.getName().startsWith(STATEMENTS);
    if (thread.getState() != Thread.State.RUNNABLE
        || !isOfStatement && !isTold(thread)) {
      return null;
    }
    StackTraceElement[] stack = thread.getStackTrace();
    if (isTold(thread) && isIn(stack, NEAR_THE_TOP, MATCHER)) {
      return Work.MATCH;
    }
    if (isTold(thread) && isComputing(stack)) {
      return Work.LOOP;
    }
    boolean isPlanning = isOfStatement && isIn(stack, stack.length, PLANNER);
    return isPlanning && Arrays.stream(stack).noneMatch(RunawayThreads::isShared)
        ? Work.PLANNING
        : null;
  }

  /** To end. The interrupt alone may be lost: Hadoop goes on after it while it lists files. */
  private static boolean isTold(Thread thread) {
    Statement statement = Statement.on(thread);
    return thread.isInterrupted() || statement != null && statement.isLeft();
  }

  private Seen seenNow(Thread thread) {
    Seen before = seen.get(thread);
    int deaf = before == null ? 0 : before.looksDeaf();
    long took = before == null ? tookBy(thread) : before.tookBefore();
    return new Seen(isTold(thread) || deaf < 0 ? deaf + 1 : 0, took);
  }

  private boolean isTooLong(Thread thread, Work work, Seen told) {
    long took = tookBy(thread) - told.tookBefore();
    return work == Work.PLANNING && took > TimeUnit.SECONDS.toNanos(LONGEST_PLANNING);
  }

  private long tookBy(Thread thread) {
    return processor.getThreadCpuTime(thread.getId());
  }

  private static boolean isIn(StackTraceElement[] stack, int frames, String prefix) {
    return Arrays.stream(stack)
        .limit(frames)
        .anyMatch(frame -> frame.getClassName().startsWith(prefix));
  }

  /** In generated code, or in what that calls to compute a value: nothing that others share. */
  private static boolean isComputing(StackTraceElement[] stack) {
    return Arrays.stream(stack)
        .limit(NEAR_THE_TOP)
        .map(StackTraceElement::getClassName)
        .filter(name -> name.startsWith(GENERATED) || !isOfValues(name))
        .findFirst()
        .filter(name -> name.startsWith(GENERATED))
        .isPresent();
  }

  private static boolean isOfValues(String name) {
    return VALUES.stream().anyMatch(name::startsWith);
  }

  private static boolean isShared(StackTraceElement frame) {
    return frame.getClassName().startsWith(PARSER)
        || frame.getClassName().endsWith("ClassLoader")
        || frame.getMethodName().equals("<clinit>");
  }

  @SuppressWarnings({"deprecation", "removal"})
  private static void stop(Thread thread) {
    if (thread.getName().startsWith(STATEMENTS)) {
      thread.stop();
    } else {
      StoppedTask.in(thread);
    }
  }

  /** What a thread may be at, and in how many looks after a cancel: most of it ends by itself. */
  private enum Work {
    MATCH("match of a regular expression", 2),
    LOOP("loop of generated code", 4),
    PLANNING("planning", 6);

    private final String name;
    private final int looks;

    Work(String name, int looks) {
      this.name = name;
      this.looks = looks;
    }
  }
}
