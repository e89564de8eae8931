package io.sluice.engine;

import java.util.Set;
import org.apache.spark.InterruptibleIterator;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskKilledException;
import org.apache.spark.sql.catalyst.InternalRow;
import scala.collection.Iterator;

/**
 * The stages of the statement that was ended last for its memory. Spark tells tasks of a cancel by
 * way of several threads; on a full heap each of them waits for one collection after the other, for
 * half a minute and more, while the tasks take what is freed. Tasks look here by themselves.
 */
final class EndedStages {
  private static volatile Set<Integer> stages = Set.of();

  private EndedStages() {}

  static void are(Set<Integer> ended) {
    stages = Set.copyOf(ended);
  }

  private static void requireNotIn(TaskContext task) {
    Set<Integer> ended = stages;
    if (!ended.isEmpty() && ended.contains(task.stageId())) {
      throw new TaskKilledException("its statement was ended for its memory");
    }
  }

  /** A task's rows; before each, the task ends if it has been killed, or its statement ended. */
  static final class Rows extends InterruptibleIterator<InternalRow> {
    private final TaskContext task;

    Rows(TaskContext task, Iterator<InternalRow> rows) {
      super(task, rows);
      this.task = task;
    }

    @Override
    public boolean hasNext() {
      requireNotIn(task);
      return super.hasNext();
    }
  }
}
