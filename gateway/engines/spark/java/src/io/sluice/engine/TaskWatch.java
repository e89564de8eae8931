package io.sluice.engine;

import com.sun.management.ThreadMXBean;
import java.lang.management.ManagementFactory;
import org.apache.spark.SparkContext;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskFailedReason;
import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.SparkPlugin;
import org.apache.spark.executor.TaskMetrics;

/**
 * Notes which statement each task works for, on the task's own thread. Spark's status tracker
 * learns it by way of a queue, which lags by seconds when the heap is full: just then it must be
 * known whose tasks have filled it.
 */
public final class TaskWatch implements SparkPlugin, ExecutorPlugin {
  static final TaskAllocations TASKS = new TaskAllocations();
  static final TaskDisk DISK = new TaskDisk();
  private static final String GROUP = "spark.jobGroup.id";
  private static final ThreadMXBean THREADS =
      (ThreadMXBean) ManagementFactory.getThreadMXBean();

  @Override
  public DriverPlugin driverPlugin() {
    return null;
  }

  @Override
  public ExecutorPlugin executorPlugin() {
    return this;
  }

  @Override
  public void onTaskStart() {
    TaskContext task = TaskContext.get();
    TaskMetrics metrics = task.taskMetrics();
    begin(statementOf(task));
    DISK.start(
        Thread.currentThread().getId(),
        statementOf(task),
        metrics::diskBytesSpilled,
        () -> metrics.shuffleWriteMetrics().bytesWritten());
  }

  @Override
  public void onTaskSucceeded() {
    ended(true);
  }

  @Override
  public void onTaskFailed(TaskFailedReason reason) {
    ended(false);
  }

  private static void ended(boolean isDone) {
    end();
    DISK.end(Thread.currentThread().getId(), isDone);
  }

  /** What this thread allocates from now on is that statement's. */
  static void begin(String statement) {
    TASKS.start(Thread.currentThread().getId(), statement, allocated());
  }

  static void end() {
    TASKS.end(Thread.currentThread().getId(), allocated());
  }

  /** Bytes that a thread allocated in its life; -1 when it is gone. */
  static long allocatedBy(long thread) {
    return THREADS.getThreadAllocatedBytes(thread);
  }

  /** The statement's identifier, which is its job group; empty for the engine's own work. */
  static String statementOf(TaskContext task) {
    String group = task.getLocalProperty(GROUP);
    return group == null ? "" : group;
  }

  /** That of the thread, which plans it or reads its rows; empty for the engine's own work. */
  static String statementHere() {
    String group = SparkContext.getOrCreate().getLocalProperty(GROUP);
    return group == null ? "" : group;
  }

  private static long allocated() {
    return allocatedBy(Thread.currentThread().getId());
  }
}
