package io.sluice.engine;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.Schedulable;
import org.apache.spark.scheduler.TaskSchedulerImpl;
import org.apache.spark.scheduler.TaskSetManager;
import org.apache.spark.scheduler.local.LocalSchedulerBackend;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.collection.Iterator;

/**
 * Takes places from who has most of them when a user waits and has none. Spark's turns are about
 * places that become free: one statement of endless tasks holds all of them, and none ever does. A
 * task that gives way has not failed: it waits for its user's next place and begins anew.
 */
final class FairPlaces {
  private static final Logger LOG = LoggerFactory.getLogger(FairPlaces.class);
  static final long LOOK_MILLIS = 500;
  private final SparkContext context;
  private final TaskSchedulerImpl scheduler;
  private final int places;
  private final PlaceTurns turns = new PlaceTurns();

  FairPlaces(SparkContext context) {
    this.context = context;
    this.scheduler = (TaskSchedulerImpl) context.taskScheduler();
    this.places = ((LocalSchedulerBackend) context.schedulerBackend()).totalCores();
  }

  void look() {
    List<PlaceTurns.User> users = new ArrayList<>();
    int lost = 0;
    synchronized (scheduler) { // as Spark does when it reads and changes these
      for (Schedulable pool : scheduler.rootPool().schedulableQueue()) {
        Tasks tasks = new Tasks();
        pool.schedulableQueue().forEach(tasks::add);
        users.add(tasks.of(pool.name()));
        lost += tasks.lost;
      }
    }
    List<Long> taken = turns.taken(places - lost, users);
    taken.forEach(task -> context.killTaskAttempt(task, true, "it gives way to other users"));
    if (!taken.isEmpty()) {
      LOG.warn("{} tasks give way to users who have no place", taken.size());
    }
  }

  /** Those of one pool, which is one user's, see {@link Statements}. */
  private static final class Tasks {
    private final List<PlaceTurns.Task> running = new ArrayList<>();
    private int waiting;
    private int oldestStage = Integer.MAX_VALUE;
    private int begun;
    private int lost; // places of stages that are over: told to end, or of no use

    private void add(Schedulable one) {
      if (!(one instanceof TaskSetManager stage)) {
        return;
      }
      if (stage.isZombie()) {
        lost += stage.runningTasks();
        return;
      }
      int waitingHere = stage.numTasks() - stage.tasksSuccessful() - stage.runningTasks();
      if (waitingHere > 0) {
        waiting += waitingHere;
        oldestStage = Math.min(oldestStage, stage.stageId());
      }
      begun += stage.taskInfos().size();
      for (Iterator<Object> ids = stage.runningTasksSet().iterator(); ids.hasNext(); ) {
        Object id = ids.next();
        running.add(
            new PlaceTurns.Task((Long) id, stage.taskInfos().apply(id).launchTime()));
      }
    }

    private PlaceTurns.User of(String user) {
      return new PlaceTurns.User(user, waiting, running, oldestStage, begun);
    }
  }
}
