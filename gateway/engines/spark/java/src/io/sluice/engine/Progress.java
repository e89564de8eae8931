package io.sluice.engine;

import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.Map;
import java.util.UUID;
import java.util.function.Supplier;
import org.apache.hive.service.cli.OperationHandle;
import org.apache.hive.service.cli.operation.Operation;
import org.apache.spark.SparkStageInfo;
import org.apache.spark.SparkStatusTracker;
import org.apache.spark.sql.hive.thriftserver.SparkExecuteStatementOperation;

/**
 * Tells the gateway once a second how many tasks of each running statement are done. Read from
 * Spark's status tracker, so nothing is counted twice.
 */
final class Progress {
  static final long PAUSE_MILLIS = 1000;
  private final Supplier<Map<OperationHandle, Operation>> operations;
  private final SparkStatusTracker tracker;
  private final ControlChannel control;

  Progress(
      Supplier<Map<OperationHandle, Operation>> operations,
      SparkStatusTracker tracker,
      ControlChannel control) {
    this.operations = operations;
    this.tracker = tracker;
    this.control = control;
  }

  void tellAll() {
    operations
        .get()
        .forEach(
            (handle, operation) -> {
              if (operation instanceof SparkExecuteStatementOperation statement
                  && !operation.getStatus().getState().isTerminal()) {
                tell(handle, statement.statementId());
              }
            });
  }

  private void tell(OperationHandle handle, String jobGroup) {
    int done = 0;
    int total = 0;
    for (int job : tracker.getJobIdsForGroup(jobGroup)) {
      var info = tracker.getJobInfo(job);
      if (info.isEmpty()) {
        continue;
      }
      for (int stage : info.get().stageIds()) {
        scala.Option<SparkStageInfo> tasks = tracker.getStageInfo(stage);
        if (tasks.isDefined()) {
          done += tasks.get().numCompletedTasks();
          total += tasks.get().numTasks();
        }
      }
    }
    if (total > 0) {
      control.progress(nameOf(handle), done, total);
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
