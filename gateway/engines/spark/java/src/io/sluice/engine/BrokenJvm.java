package io.sluice.engine;

import java.util.regex.Pattern;

/**
 * Tells the errors after which this JVM is not whole. A class whose initialisation met an error of
 * the JVM stays unusable until the JVM ends: each later statement that needs it would fail. Memory
 * and stack that end in a statement are no such error, as long as they end there: that statement
 * alone has failed.
 */
final class BrokenJvm {
  private static final int MOST_CAUSES = 100; // they may go round in a circle
  // How the JVM tells, from the second use on, why a class could not be initialised.
  private static final Pattern INITIALISATION =
      Pattern.compile(
          "Exception java\\.lang\\."
              + "(VirtualMachine|Internal|Unknown|OutOfMemory|StackOverflow)Error\\b.*",
          Pattern.DOTALL);

  private BrokenJvm() {}

  /** Ends the engine when the error says that this JVM is broken. */
  static void endIfMetIn(Throwable error) {
    Throwable sign = signIn(error);
    if (sign != null) {
      Engine.end("the Java virtual machine is broken: " + sign);
    }
  }

  /** The cause that says so; null for none. By its class: texts may be those of users. */
  static Throwable signIn(Throwable error) {
    Throwable at = error;
    for (int depth = 0; at != null && depth < MOST_CAUSES; depth++) {
      if (isSign(at)) {
        return at;
      }
      at = at.getCause();
    }
    return null;
  }

  private static boolean isSign(Throwable error) {
    if (error instanceof OutOfMemoryError || error instanceof StackOverflowError) {
      return false;
    }
    return error instanceof VirtualMachineError
        || error instanceof ExceptionInInitializerError
            && INITIALISATION.matcher(String.valueOf(error.getMessage())).matches();
  }
}
