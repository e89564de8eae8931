package io.sluice.engine;

import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Checks something every so many milliseconds for the life of the engine. A check that fails is
 * written to the log, the same failure once, and the next one is made all the same: a guard that
 * ended at its first failure would be missed only when it is needed.
 */
final class PeriodicCheck implements Runnable {
  private static final Logger LOG = LoggerFactory.getLogger(PeriodicCheck.class);
  private final long pauseMillis;
  private final Check check;
  private String lastFailure = "";

  /** One check; an interrupt ends the thread. */
  interface Check {
    void run() throws InterruptedException;
  }

  PeriodicCheck(long pauseMillis, Check check) {
    this.pauseMillis = pauseMillis;
    this.check = check;
  }

  @Override
  public void run() {
    try {
      while (true) {
        TimeUnit.MILLISECONDS.sleep(pauseMillis);
        checkOnce();
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  private void checkOnce() throws InterruptedException {
    try {
      check.run();
    } catch (InterruptedException | VirtualMachineError e) {
      throw e; // the second is for Engine.lost
    } catch (Throwable failure) {
      if (!failure.toString().equals(lastFailure)) {
        lastFailure = failure.toString();
        LOG.error("a check of {} failed", Thread.currentThread().getName(), failure);
      }
    }
  }
}
