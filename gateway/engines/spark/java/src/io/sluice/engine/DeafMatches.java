package io.sluice.engine;

import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;
import java.util.concurrent.TimeUnit;

/**
 * Ends matches of regular expressions whose statement was cancelled. {@code java.util.regex} tries
 * all ways and looks at no interrupt, so that one row of {@code x RLIKE '(.*a){25}$'} kept its
 * core for ever. A match only computes: it holds no lock and changes nothing that others see, so
 * its thread can be stopped in the midst of it. Everything else hears the interrupt by itself.
 */
final class DeafMatches implements Runnable {
  private static final long LOOK_MILLIS = 500;
  private static final int NEAR_THE_TOP = 8; // frames of String and the like may lie above
  private static final String MATCHER = "java.util.regex.";
  private Set<Thread> deaf = Set.of();

  @Override
  public void run() {
    try {
      while (true) {
        TimeUnit.MILLISECONDS.sleep(LOOK_MILLIS);
        look();
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  /** A thread seen deaf twice in a row is stopped: most matches end between two looks. */
  private void look() {
    Set<Thread> now = new HashSet<>();
    for (Thread thread : interrupted()) {
      if (isMatching(thread)) {
        if (deaf.contains(thread)) {
          stop(thread);
        }
        now.add(thread);
      }
    }
    deaf = now;
  }

  private static Set<Thread> interrupted() {
    Thread[] all = new Thread[Thread.activeCount() * 2 + 16];
    int count = Thread.currentThread().getThreadGroup().enumerate(all, true);
    Set<Thread> found = new HashSet<>(Arrays.asList(all).subList(0, count));
    found.removeIf(thread -> !thread.isInterrupted());
    return found;
  }

  private static boolean isMatching(Thread thread) {
    return Arrays.stream(thread.getStackTrace())
        .limit(NEAR_THE_TOP)
        .anyMatch(frame -> frame.getClassName().startsWith(MATCHER));
  }

  /** Spark takes the ThreadDeath of a task for the failure of that task, see main.py. */
  @SuppressWarnings({"deprecation", "removal"})
  private static void stop(Thread thread) {
    System.err.println("a cancelled match of a regular expression ends: " + thread.getName());
    thread.stop();
  }
}
