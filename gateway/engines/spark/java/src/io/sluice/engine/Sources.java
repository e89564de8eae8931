package io.sluice.engine;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskKilledException;

/**
 * The live sources that statements of this engine have named: how each is reached, how many
 * connections it may get, and which of its statements run now.
 */
final class Sources {
  static final long LOOK_MILLIS = 200;
  private static final int KEPT_TABLES = 10_000;
  private static final long WAIT_STEP_MILLIS = 100;

  private record Known(SourceAccess access, Semaphore places) {}

  private static final Map<String, Known> KNOWN = new ConcurrentHashMap<>();
  private static final Set<SourceStatement> RUNNING = ConcurrentHashMap.newKeySet();

  /** By what the catalogue's entry says, for the moment between its two readings by Spark. */
  private static final Map<String, SourceTable> TABLES =
      Collections.synchronizedMap(
          new LinkedHashMap<>() {
            @Override
            protected boolean removeEldestEntry(Map.Entry<String, SourceTable> eldest) {
              return size() > KEPT_TABLES;
            }
          });

  private static final ExecutorService CANCELLING =
      Executors.newCachedThreadPool(
          work -> {
            Thread thread = new Thread(work, "sluice-source-cancel");
            thread.setDaemon(true);
            return thread;
          });

  private Sources() {}

  /** Keeps how the source is reached from now on; its budget stays when it is the same. */
  static void store(String datasource, JsonNode given) {
    SourceAccess access = SourceAccess.of(given);
    KNOWN.compute(
        datasource,
        (name, old) -> {
          boolean isSame = old != null && old.access.connections() == access.connections();
          return new Known(access, isSame ? old.places : new Semaphore(access.connections()));
        });
  }

  static String keep(SourceTable table) {
    String key = table.name() + "#" + Integer.toHexString(table.hashCode());
    TABLES.put(key, table);
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

  /** The source's connections that are not in use: one is taken before it is opened. */
  static Semaphore places(String datasource) {
    return known(datasource).places;
  }

  /**
   * Waits for a connection's place, as long as the task is wanted; null for a task that has one,
   * and would wait for itself.
   */
  static Semaphore place(String datasource, TaskContext task) {
    if (RUNNING.stream().anyMatch(each -> each.isOf(task, datasource))) {
      return null;
    }
    Semaphore places = places(datasource);
    try {
      while (!places.tryAcquire(WAIT_STEP_MILLIS, TimeUnit.MILLISECONDS)) {
        if (task != null && task.isInterrupted()) {
          throw new TaskKilledException("its statement was ended");
        }
      }
      return places;
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new TaskKilledException("its statement was ended");
    }
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
}
