package io.sluice.engine;

import java.io.File;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Ends the statement that wrote most once little is left of the engine's disk, which may be the
 * lake's and the metadata database's, too. Files of statements that are over go with the garbage:
 * it is collected before.
 */
final class DiskGuard {
  private static final Logger LOG = LoggerFactory.getLogger(DiskGuard.class);
  static final long LOOK_MILLIS = 250;
  private static final long SETTLE_NANOS = TimeUnit.SECONDS.toNanos(3);
  private static final long MOST_LEFT = 4L << 30;
  private static final long PART_LEFT = 20; // of the disk
  private static final long MUCH = 64L << 20; // the least that ever makes a culprit
  private static final long PART_MUCH = 16;
  private final Statements statements;
  private final TaskDisk tasks;
  private final File scratch;
  private long decidedNanos = System.nanoTime() - SETTLE_NANOS;
  private boolean isCollected;

  DiskGuard(Statements statements, TaskDisk tasks, File scratch) {
    this.statements = statements;
    this.tasks = tasks;
    this.scratch = scratch;
  }

  void look() {
    Map<String, Statement> open = statements.open();
    tasks.keep(open.keySet());
    long least = least(scratch.getTotalSpace());
    long left = scratch.getUsableSpace();
    if (left >= 2 * least) {
      isCollected = false;
      return;
    }
    if (System.nanoTime() - decidedNanos < SETTLE_NANOS) {
      return;
    }
    if (!isCollected) {
      isCollected = true;
      System.gc();
    }
    if (left < least) {
      endLargest(open, left);
    }
  }

  private void endLargest(Map<String, Statement> open, long left) {
    Map<String, Long> written = tasks.written();
    written.keySet().retainAll(open.keySet());
    open.forEach((id, statement) -> written.merge(id, statement.spooled(), Long::sum));
    Optional<String> worst =
        MemoryGuard.largestOfHoarder(
            much(scratch.getTotalSpace()), written, one -> open.get(one).userName());
    if (worst.isEmpty()) {
      return; // others fill this disk
    }
    LOG.warn(
        "the disk is short ({} MiB left): statement {} ends, it wrote {} MiB",
        left >> 20,
        worst.get(),
        written.get(worst.get()) >> 20);
    open.get(worst.get()).end(TooLarge.disk(written.get(worst.get())));
    isCollected = false;
    decidedNanos = System.nanoTime();
  }

  /** Below so many bytes left, statements end. */
  static long least(long total) {
    return Math.min(MOST_LEFT, total / PART_LEFT);
  }

  static long much(long total) {
    return Math.min(MUCH, total / PART_MUCH);
  }
}
