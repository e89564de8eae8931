package io.sluice.lake;

import java.io.ByteArrayOutputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What is printed instead of logged, stack traces above all, as lines of the log: texts of users
 * stand in them, and the log is read line by line.
 */
public final class LogLines extends OutputStream {
  private static final int LONGEST = 64 * 1024;
  private final ByteArrayOutputStream line = new ByteArrayOutputStream();
  private final Logger log;

  private LogLines(Logger log) {
    this.log = log;
  }

  /** From now on; log4j goes on writing to the stream that was there before. */
  public static void takeOver() {
    System.setErr(printing("System.err"));
    System.setOut(printing("System.out"));
  }

  private static PrintStream printing(String name) {
    LogLines lines = new LogLines(LoggerFactory.getLogger(name));
    return new PrintStream(lines, false, StandardCharsets.UTF_8);
  }

  @Override
  public synchronized void write(int single) {
    if (single != '\n') {
      line.write(single);
    }
    if (single == '\n' || line.size() >= LONGEST) {
      String text = line.toString(StandardCharsets.UTF_8);
      line.reset();
      if (!text.isBlank()) {
        log.warn("{}", text);
      }
    }
  }
}
