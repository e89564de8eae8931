package io.sluice.engine;

import java.util.Set;
import org.apache.spark.InterruptibleIterator;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskKilledException;
import org.apache.spark.sql.catalyst.InternalRow;
import scala.collection.Iterator;

/**
 * The statements that were ended for their memory, or left by their clients, and whose tasks run
 * on. Spark tells tasks of a cancel by way of several threads; on a full heap each of them waits
 * for one collection after the other, for half a minute and more, while the tasks take what is
 * freed. Tasks look here by themselves.
 */
final class EndedStatements {
  private static volatile Set<String> ended = Set.of();

  private EndedStatements() {}

  static void are(Set<String> statements) {
    if (!ended.equals(statements)) {
      ended = Set.copyOf(statements);
    }
  }

  /** A task's rows; before each, the task ends if it has been killed, or its statement ended. */
  static final class Rows extends InterruptibleIterator<InternalRow> {
    private final String statement;

    Rows(TaskContext task, Iterator<InternalRow> rows) {
      super(task, rows);
      this.statement = TaskWatch.statementOf(task);
    }

    @Override
    public boolean hasNext() {
      Set<String> now = ended;
      if (!now.isEmpty() && now.contains(statement)) {
        throw new TaskKilledException("its statement was ended");
      }
      return super.hasNext();
    }
  }
}
