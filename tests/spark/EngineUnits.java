package io.sluice.engine;

import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.hive.service.cli.HiveSQLException;

/** Parts of the engine that need no Spark: each line says what was found. */
public final class EngineUnits {
  private static int checks;

  private EngineUnits() {}

  public static void main(String[] arguments) throws Exception {
    InternalError internal = new InternalError("out of something");
    say("an error of the JVM", internal);
    say("its wrapper", new HiveSQLException("failed", new RuntimeException(internal)));
    say("a class that met it, first", caught(() -> new MeetsInternal()));
    say("a class that met it, later", caught(() -> new MeetsInternal()));
    say("a class that met the stack's end, first", caught(() -> new MeetsStack()));
    say("a class that met the stack's end, later", caught(() -> new MeetsStack()));
    say("a class that met a full code cache, later", fullCodeCache());
    say("a class that met another error, later", caughtTwice(() -> new MeetsOther()));
    say("the end of the stack", new StackOverflowError());
    say("the end of memory", new RuntimeException(new OutOfMemoryError("Java heap space")));
    say("a text of a user", new RuntimeException(fullCodeCache().getCause().getMessage()));
    say("causes in a circle", circle());
    say("nothing", null);
    ending("its tasks run", Set.of(3, 4), 1);
    ending("only tasks of others run", Set.of(3), 1);
    ending("its tasks run after a minute", Set.of(3, 4), 60);
    allocations();
    shares();
    failingCheckGoesOn();
  }

  /** Looks at threads of two tasks: one goes on, the other's thread turns to another stage. */
  private static void allocations() {
    TaskAllocations tasks = new TaskAllocations();
    tasks.update(List.of(worker(1, 7, 100), worker(2, 7, 1000)));
    tasks.update(List.of(worker(1, 7, 150), worker(2, 7, 1200)));
    System.out.println("tasks that go on count: " + (tasks.heldBy(Set.of(7)) == 250));
    tasks.update(List.of(worker(1, 7, 170), worker(2, 8, 900_000)));
    tasks.update(List.of(worker(1, 7, 170), worker(2, 8, 900_003)));
    System.out.println(
        "a task is charged with what its thread took before: " + (tasks.heldBy(Set.of(8)) != 3));
    System.out.println("a task that is done holds: " + (tasks.heldBy(Set.of(7)) != 70));
    tasks.update(List.of());
    System.out.println("idle threads hold: " + (tasks.heldBy(Set.of(7, 8)) != 0));
    System.out.println("results of tasks that are done count: " + (tasks.tookBy(Set.of(7)) == 270));
  }

  private static TaskAllocations.Worker worker(long id, int stage, long allocated) {
    String name = "Executor task launch worker for task 0.0 in stage " + stage + ".0 (TID 1)";
    return new TaskAllocations.Worker(id, name, allocated);
  }

  private static void shares() {
    Map<String, Long> taken = Map.of("a small one", 100L, "a large one", 900L);
    boolean isLarge = MemoryGuard.mostAbove(500, taken).equals(Optional.of("a large one"));
    System.out.println("the largest share ends: " + isLarge);
    System.out.println(
        "a small share ends: " + MemoryGuard.mostAbove(500, Map.of("a small one", 100L)).isPresent());
  }

  private static void ending(String what, Set<Integer> running, long seconds) {
    EndingStatement one = new EndingStatement(Set.of(4, 5), 0);
    boolean isUnderWay = one.isUnderWay(running, TimeUnit.SECONDS.toNanos(seconds));
    System.out.println("an end is waited for while " + what + ": " + isUnderWay);
  }

  private static void say(String what, Throwable error) {
    System.out.println(what + ": " + (BrokenJvm.signIn(error) != null));
  }

  private static void failingCheckGoesOn() throws InterruptedException {
    CountDownLatch third = new CountDownLatch(3);
    Thread thread =
        new Thread(
            new PeriodicCheck(
                1,
                () -> {
                  third.countDown();
                  if (++checks == 1) {
                    throw new IllegalStateException("the first");
                  }
                  throw new NoClassDefFoundError("all others");
                }),
            "failing");
    thread.start();
    third.await();
    System.out.println("a failing check goes on: " + thread.isAlive());
    thread.interrupt();
    thread.join();
  }

  private static Throwable caught(Runnable work) {
    try {
      work.run();
      return null;
    } catch (Throwable error) {
      return error;
    }
  }

  private static Throwable caughtTwice(Runnable work) {
    caught(work);
    return caught(work);
  }

  private static Throwable fullCodeCache() {
    Throwable why =
        new ExceptionInInitializerError(
            "Exception java.lang.VirtualMachineError: Out of space in CodeCache for adapters"
                + " [in thread \"one\"]");
    Throwable error = new NoClassDefFoundError("Could not initialize class a.B");
    error.initCause(why);
    return error;
  }

  private static Throwable circle() {
    Throwable one = new RuntimeException();
    one.initCause(new RuntimeException(one));
    return one;
  }

  private static int deeper(int depth) {
    return deeper(depth + 1) + 1;
  }

  private static final class MeetsInternal {
    static {
      if (checks == 0) {
        throw new InternalError("while a class is made ready");
      }
    }
  }

  private static final class MeetsStack {
    static final int DEPTH = deeper(0);
  }

  private static final class MeetsOther {
    static {
      if (checks == 0) {
        throw new IllegalStateException("java.lang.InternalError");
      }
    }
  }
}
