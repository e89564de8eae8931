package io.sluice.engine;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkContext;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskKilledException;

/**
 * The live sources that statements of this engine have named: how each is reached, how many
 * connections it may get, and which of its statements run now.
 */
final class Sources {
  static final long LOOK_MILLIS = 200;

  /** Characters of descriptions. */
  private static final long KEPT_TABLES = 16L << 20;

  private static final long WAIT_STEP_MILLIS = 100;
  private static final int PATIENT_STEPS = 20;
  private static final long END_SECONDS = 2;

  private record Known(SourceAccess access, SourcePlaces places) {}

  private static final Map<String, Known> KNOWN = new ConcurrentHashMap<>();
  private static final Set<SourceStatement> RUNNING = ConcurrentHashMap.newKeySet();

  /** By what the catalogue's entry says, for the moment between its two readings by Spark. */
  private static final WeighedCache<String, SourceTable> TABLES = new WeighedCache<>(KEPT_TABLES);

  private static final ExecutorService CANCELLING =
      Executors.newCachedThreadPool(work -> Engine.daemon(work, "sluice-source-cancel"));

  private static final SourceLocks LOCKS = new SourceLocks(RUNNING, CANCELLING);

  private Sources() {}

  static void lookAtLocks() {
    LOCKS.look();
  }

  /** Keeps how the source is reached from now on; its budget stays when it is the same. */
  static void store(String datasource, JsonNode given) {
    SourceAccess access = SourceAccess.of(given);
    KNOWN.compute(
        datasource,
        (name, old) -> {
          boolean isSame = old != null && old.places.most() == access.connections();
          return new Known(access, isSame ? old.places : new SourcePlaces(access.connections()));
        });
  }

  /** The source is gone, or reached in another way: who may read it brings that along. */
  static void forget(String datasource) {
    KNOWN.remove(datasource);
  }

  static String keep(SourceTable table) {
    String key = table.name() + "#" + Integer.toHexString(table.hashCode());
    TABLES.put(key, table, table.weight());
    return key;
  }

  static SourceTable kept(String key) {
    SourceTable found = TABLES.get(key);
    if (found == null) {
      throw Denied.noCatalogue("The table of a source was named too long ago.");
    }
    return found;
  }

  static SourceAccess accessOf(String datasource) {
    return known(datasource).access;
  }

  private static Known known(String datasource) {
    Known known = KNOWN.get(datasource);
    if (known == null) {
      throw Denied.noCatalogue("The engine does not know how to reach " + datasource + ".");
    }
    return known;
  }

  /** One at once for a statement that is planned; null when its user can have none now. */
  static SourcePlaces.Place placeNow(String datasource, String statement) {
    return known(datasource).places.tryTake(userOf(statement), SourcePlaces.NO_TASK);
  }

  /**
   * Waits for a connection's place, as long as the task is wanted; null for a task that has one,
   * and would wait for itself.
   */
  static SourcePlaces.Place place(String datasource, TaskContext task) {
    if (RUNNING.stream().anyMatch(each -> each.isOf(task, datasource))) {
      return null;
    }
    SourcePlaces places = known(datasource).places;
    String name = task == null ? TaskWatch.statementHere() : TaskWatch.statementOf(task);
    String user = userOf(name);
    Statement statement = Engine.get().identity().statements().running(name);
    long id = task == null ? SourcePlaces.NO_TASK : task.taskAttemptId();
    try {
      SourcePlaces.Place found = places.tryTake(user, id);
      for (int step = 1; found == null; step++) {
        tell(statement, places.reason(datasource, user));
        if (step % PATIENT_STEPS == 0) {
          makeRoom(places, user);
        }
        Thread.sleep(WAIT_STEP_MILLIS);
        if (task != null && task.isInterrupted()) {
          throw new TaskKilledException("its statement was ended");
        }
        found = places.tryTake(user, id);
      }
      return found;
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new TaskKilledException("its statement was ended");
    } finally {
      tell(statement, null);
    }
  }

  /** Else statements that several users leave unread, or slow ones, held all of them. */
  private static void makeRoom(SourcePlaces places, String user) {
    Long task = places.givingWayTo(user);
    if (task != null) {
      SparkContext.getOrCreate().killTaskAttempt(task, true, "it gives way to other users");
    }
  }

  private static void tell(Statement statement, String reason) {
    if (statement != null) {
      statement.waitsFor(reason);
    }
  }

  /** Empty for the engine's own work. */
  private static String userOf(String statement) {
    Statement found = Engine.get().identity().statements().running(statement);
    return found == null ? "" : found.userName();
  }

  static void running(SourceStatement statement) {
    RUNNING.add(statement);
  }

  static void ended(SourceStatement statement) {
    RUNNING.remove(statement);
  }

  /**
   * Cancels at the source what nobody waits for any more: a thread that waits for a source's answer
   * does not look whether it should.
   */
  static void look() {
    for (SourceStatement statement : RUNNING) {
      if (statement.isLeft()) {
        CANCELLING.execute(statement::cancel);
      }
    }
  }

  /** Before the engine ends: MariaDB would go on with what nobody reads. */
  static void endAll() {
    RUNNING.forEach(statement -> CANCELLING.execute(statement::cancel));
    CANCELLING.shutdown();
    try {
      CANCELLING.awaitTermination(END_SECONDS, TimeUnit.SECONDS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }
}
