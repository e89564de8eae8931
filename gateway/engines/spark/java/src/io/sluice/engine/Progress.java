package io.sluice.engine;

import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.Map;
import java.util.UUID;
import java.util.function.Supplier;
import org.apache.hive.service.cli.OperationHandle;
import org.apache.hive.service.cli.operation.Operation;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkStatusTracker;
import org.apache.spark.status.AppStatusStore;
import org.apache.spark.status.api.v1.StageData;
import org.apache.spark.status.api.v1.StageStatus;

/**
 * Tells the gateway once a second how many stages and tasks of each running statement are done,
 * and how much they have read. Spark counts all of it anyway.
 */
final class Progress {
  static final long PAUSE_MILLIS = 1000;
  private final Supplier<Map<OperationHandle, Operation>> operations;
  private final SparkStatusTracker tracker;
  private final AppStatusStore store;
  private final ControlChannel control;

  /** How far a statement is; rows and bytes of what it reads from tables. */
  static final class Counts {
    int tasksDone;
    int tasks;
    int stagesDone;
    int stages;
    long rows;
    long bytes;

    private void add(StageData stage) {
      tasksDone += stage.numCompleteTasks();
      tasks += stage.numTasks();
      stages++;
      if (stage.status() == StageStatus.COMPLETE || stage.status() == StageStatus.SKIPPED) {
        stagesDone++;
      }
      rows += stage.inputRecords();
      bytes += stage.inputBytes();
    }
  }

  Progress(
      Supplier<Map<OperationHandle, Operation>> operations,
      SparkContext context,
      ControlChannel control) {
    this.operations = operations;
    this.tracker = context.statusTracker();
    this.store = context.statusStore();
    this.control = control;
  }

  void tellAll() {
    operations
        .get()
        .forEach(
            (handle, operation) -> {
              if (operation instanceof Statement statement && statement.isUnderWay()) {
                tell(handle, statement);
              }
            });
  }

  private void tell(OperationHandle handle, Statement statement) {
    Counts counts = new Counts();
    for (int job : tracker.getJobIdsForGroup(statement.statementId())) {
      var info = tracker.getJobInfo(job);
      if (info.isEmpty()) {
        continue;
      }
      for (int stage : info.get().stageIds()) {
        scala.Option<StageData> found = store.asOption(() -> store.lastStageAttempt(stage));
        if (found.isDefined()) {
          counts.add(found.get());
        }
      }
    }
    if (counts.tasks > 0) {
      control.progress(nameOf(handle), counts, statement.waitsFor());
    }
  }

  /** The operation's public identifier as it travels in Thrift, in hexadecimal. */
  static String nameOf(OperationHandle handle) {
    UUID id = handle.getHandleIdentifier().getPublicId();
    ByteBuffer bytes = ByteBuffer.allocate(16);
    bytes.putLong(id.getMostSignificantBits()).putLong(id.getLeastSignificantBits());
    return HexFormat.of().formatHex(bytes.array());
  }
}
