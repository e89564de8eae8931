package io.sluice.engine;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;

/**
 * Meets a thread in the midst of a task that was told to end and does not. Spark takes it for the
 * end that was asked for; the {@link ThreadDeath} of {@code Thread.stop()} is a task's failure, and
 * would fail the statement of a task that only gave way to others. No Exception, which expressions
 * like {@code try_divide} would answer with NULL.
 */
final class StoppedTask extends Error {
  private static final Method STOP = stop();

  private StoppedTask() {
    super("the task was told to end", null, false, false);
  }

  static void in(Thread thread) {
    try {
      STOP.invoke(thread, new StoppedTask());
    } catch (IllegalAccessException | InvocationTargetException e) {
      throw new IllegalStateException(e);
    }
  }

  /** What `Thread.stop()` calls; Spark has its package opened to all. */
  private static Method stop() {
    try {
      Method stop = Thread.class.getDeclaredMethod("stop0", Object.class);
      stop.setAccessible(true);
      return stop;
    } catch (NoSuchMethodException e) {
      throw new ExceptionInInitializerError(e);
    }
  }
}
