package io.sluice.engine;

import java.lang.reflect.Field;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CancellationException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.hive.service.cli.FetchOrientation;
import org.apache.hive.service.cli.HiveSQLException;
import org.apache.hive.service.cli.OperationState;
import org.apache.hive.service.cli.OperationStatus;
import org.apache.hive.service.cli.session.HiveSession;
import org.apache.hive.service.rpc.thrift.TRowSet;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.hive.thriftserver.SparkExecuteStatementOperation;
import org.apache.thrift.TException;
import org.apache.thrift.TSerializer;
import scala.Function1;

/**
 * A client's statement, whose batches are bounded in bytes and which can be ended with a reason
 * that its user gets to read.
 */
final class Statement extends SparkExecuteStatementOperation implements SpoolRoom.Held {
  private static final Field ROWS = field("iter");
  private static final Field TYPES = field("dataTypes");
  private static final Field RESULT =
      field("org$apache$spark$sql$hive$thriftserver$SparkExecuteStatementOperation$$result");
  private static final Map<Thread, Statement> PLANNED = new ConcurrentHashMap<>();
  private static final HiveSQLException WHOLE = new HiveSQLException("[WHOLE]");
  private static final long SOON_NANOS = TimeUnit.SECONDS.toNanos(30);
  private static final long POLL_SECONDS = 5; // as long as a question for its status waits
  private volatile HiveSQLException ended;
  private volatile Thread ender;
  private volatile String wait;
  private final Object reading = new Object();
  private Thread reader; // of a batch; guarded by `reading`, as is the next
  private boolean isLeft;
  private long lastRead = System.nanoTime();
  private volatile Spool spool;
  private volatile boolean isTold; // which columns it has
  private boolean isQuery; // its own thread's, as is the next
  private Map<String, Set<String>> read;

  Statement(
      SQLContext context,
      HiveSession session,
      String text,
      Map<String, String> overlay,
      boolean isAsync) {
    super(context, session, text, overlay, isAsync, 0L);
  }

  /** The one that this thread plans or computes; null for the engine's own work. */
  static Statement here() {
    Identity identity = Engine.get().identity();
    return identity.statements() == null
        ? null
        : identity.statements().running(TaskWatch.statementHere());
  }

  /** The one whose own thread this is, until its plan is made; null for none. */
  static Statement on(Thread thread) {
    return PLANNED.get(thread);
  }

  /** Its rows are those of tables: what an answer to SHOW or DESCRIBE is made of is not told. */
  void isQuery() {
    isQuery = true;
  }

  /** Tells the gateway which tables and columns it reads, before it has any row of them. */
  void reads(LogicalPlan analysed, long version) {
    if (!isQuery) {
      return;
    }
    Map<String, Set<String>> all = read == null ? new TreeMap<>() : new TreeMap<>(read);
    ReadTables.of(analysed).forEach((table, columns) ->
        all.merge(table, columns, (one, other) -> {
          one.addAll(other);
          return one;
        }));
    if (!all.equals(read)) {
      read = all;
      Engine.get().control().reads(Progress.nameOf(getHandle()), version, all);
    }
  }

  /**
   * Spark's own, on the statement's thread. What it allocates is the statement's, as what its
   * tasks do: plans of a few long statements fill the heap, and stay until they are closed.
   */
  @Override
  public void org$apache$spark$sql$hive$thriftserver$SparkExecuteStatementOperation$$execute() {
    TaskWatch.begin(statementId());
    PLANNED.put(Thread.currentThread(), this);
    try {
      super.org$apache$spark$sql$hive$thriftserver$SparkExecuteStatementOperation$$execute();
    } finally {
      PLANNED.remove(Thread.currentThread());
      TaskWatch.end();
      if (isEnded()) {
        forgetResult(); // it was planned to its end meanwhile
      }
    }
  }

  /** Stops it, whatever it does now; status and fetches tell the reason. */
  @Override
  public void end(HiveSQLException reason) {
    ender = Thread.currentThread(); // Spark stops only what its own status calls alive
    ended = reason;
    cancel();
    stopReading();
    cleanup();
    forgetResult();
    ender = null;
  }

  @Override
  public void close() {
    stopReading();
    super.close();
  }

  /** Whose it is: all their statements count together, in whatever session they run. */
  @Override
  public String userName() {
    return getParentSession().getUserName();
  }

  boolean isEnded() {
    return ended != null;
  }

  /** True when it was cancelled, ended or closed, and its result with it. */
  boolean isLeft() {
    synchronized (reading) {
      return isLeft || isEnded() || super.getStatus().getState() == OperationState.CANCELED;
    }
  }

  /** Its status tells the reason from now on; null when it does not wait any more. */
  void waitsFor(String reason) {
    wait = reason;
  }

  /** True while tasks may run for it, those of the rows that its client reads among them. */
  boolean isUnderWay() {
    OperationState state = super.getStatus().getState();
    boolean isReading = state == OperationState.FINISHED && !isWhole() && isBeingRead();
    return isReading || !state.isTerminal();
  }

  /** Null when it does not wait. */
  String waitsFor() {
    return wait;
  }

  @Override
  public OperationStatus getStatus() {
    boolean wasDone = isThreadDone(); // before its state is read, which it tells earlier
    OperationStatus status = super.getStatus();
    if (Thread.currentThread() == ender) {
      return status;
    }
    BrokenJvm.endIfMetIn(status.getOperationException());
    HiveSQLException reason = ended;
    if (reason == null && TooLarge.isMemory(status.getOperationException())) {
      reason = TooLarge.ranShort(Runtime.getRuntime().maxMemory());
    }
    boolean isLost = status.getState() == OperationState.RUNNING && wasDone;
    if (reason == null && (isLost || TooLarge.isStopped(status.getOperationException()))) {
      reason = TooLarge.planning(RunawayThreads.LONGEST_PLANNING);
    }
    if (reason == null) {
      reason = Denied.inTask(status.getOperationException());
    }
    if (reason != null) {
      return new OperationStatus(OperationState.ERROR, reason);
    }
    if (status.getState() == OperationState.FINISHED && isWhole()) {
      return new OperationStatus(OperationState.FINISHED, WHOLE);
    }
    String waits = wait;
    boolean isWaiting = waits != null && status.getState() == OperationState.RUNNING;
    return isWaiting
        ? new OperationStatus(OperationState.RUNNING, new HiveSQLException("INFO  : " + waits))
        : status;
  }

  /** Its thread tells how it ended as its last act; one that was stopped then told nothing. */
  boolean isThreadDone() {
    Future<?> thread = getBackgroundHandle();
    return thread != null && thread.isDone();
  }

  /**
   * The first batch tells the columns, too, in a last field that Hive uses for nothing else, of so
   * many bytes as the offset says, negated. It may be asked for at once: without columns, the
   * statement runs on or came to nothing, which its status tells.
   */
  @Override
  public TRowSet getNextRowSet(FetchOrientation order, long maxRows) {
    beginReading();
    try {
      requireNotEnded();
      if (isTold) {
        bound();
        return super.getNextRowSet(order, maxRows);
      }
      TRowSet rows = new TRowSet(0, List.of());
      if (hasFinished()) {
        bound();
        rows = maxRows > 0 ? super.getNextRowSet(order, maxRows) : rows;
        byte[] columns = new TSerializer().serialize(getResultSetSchema());
        rows.setBinaryColumns(columns);
        rows.setStartRowOffset(-columns.length);
        isTold = true;
      }
      return rows;
    } catch (TException e) {
      throw new IllegalStateException(e);
    } catch (Throwable error) {
      BrokenJvm.endIfMetIn(error);
      if (TooLarge.isMemory(error)) {
        end(TooLarge.ranShort(Runtime.getRuntime().maxMemory()));
      }
      requireNotEnded();
      HiveSQLException refused = Denied.inTask(error);
      if (refused != null) {
        throw Functions.<RuntimeException>raise(refused);
      }
      throw error;
    } finally {
      endReading();
    }
  }

  /** Waits a while for its thread. */
  private boolean hasFinished() {
    Future<?> thread = getBackgroundHandle();
    try {
      if (thread != null) {
        thread.get(POLL_SECONDS, TimeUnit.SECONDS);
      }
    } catch (CancellationException | ExecutionException | TimeoutException e) {
      return false;
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt(); // it was left: see `endReading`
      return false;
    }
    return super.getStatus().getState() == OperationState.FINISHED;
  }

  private void beginReading() {
    synchronized (reading) {
      if (!isLeft) {
        reader = Thread.currentThread();
        return;
      }
    }
    requireNotEnded();
    throw new IllegalStateException("the statement is closed");
  }

  /**
   * A batch may take a job for each partition, thousands of them. Before the first and between two
   * there is none that Spark could cancel, and the next would begin: its thread is told, too.
   */
  private void stopReading() {
    synchronized (reading) {
      isLeft = true;
      if (reader != null) {
        reader.interrupt();
      }
    }
    Spool rows = spool;
    if (rows != null) {
      rows.close();
    }
  }

  private void endReading() {
    synchronized (reading) {
      reader = null;
      lastRead = System.nanoTime();
      if (!isLeft) {
        return;
      }
      Thread.interrupted(); // it was told to this statement: the thread serves others after it
    }
    cleanup(); // the job that began right after the cancel
  }

  private void requireNotEnded() {
    if (ended != null) {
      throw Functions.<RuntimeException>raise(ended);
    }
  }

  /** Spark's own iterator, of which nothing was read, would make one part after the other. */
  private void bound() {
    try {
      Object rows = ROWS.get(this);
      if (rows != null && !(rows instanceof BoundedRows)) {
        SpooledRows own = new SpooledRows(this::openSpool, decoder());
        boolean isArrow = Settings.isInArrow(result().sparkSession());
        if (isArrow) {
          TYPES.set(this, ArrowRows.TYPES);
        }
        ROWS.set(this, new BoundedRows(isArrow ? new ArrowRows(own, result().schema()) : own));
      }
    } catch (IllegalAccessException e) {
      throw new IllegalStateException(e);
    }
  }

  private Function1<InternalRow, Row> decoder() {
    return result().org$apache$spark$sql$Dataset$$resolvedEnc().createDeserializer();
  }

  private Dataset<Row> result() {
    return org$apache$spark$sql$hive$thriftserver$SparkExecuteStatementOperation$$result();
  }

  private Spool openSpool() {
    int columns = result().schema().length();
    Spool made = new Spool(result().queryExecution().toRdd(), columns, userName());
    synchronized (reading) {
      if (!isLeft) {
        spool = made;
        return made;
      }
    }
    made.close();
    throw new IllegalStateException("the statement is closed");
  }

  /** True when its result needs the lake's files no more. */
  private boolean isWhole() {
    Spool rows = spool;
    return rows != null && rows.isWhole();
  }

  @Override
  public boolean isBeingRead() {
    synchronized (reading) {
      return reader != null || System.nanoTime() - lastRead < SOON_NANOS;
    }
  }

  @Override
  public long lastRead() {
    synchronized (reading) {
      return lastRead;
    }
  }

  /** Bytes of its result on the engine's disk. */
  @Override
  public long spooled() {
    Spool rows = spool;
    return rows == null ? 0 : rows.size();
  }

  /** Called again and again, while it is open. */
  void look() {
    Spool rows = spool;
    if (rows != null) {
      rows.look();
    }
  }

  /** Rows and plan: its client may leave it open for long. */
  private void forgetResult() {
    spool = null;
    try {
      ROWS.set(this, null);
      RESULT.set(this, null);
    } catch (IllegalAccessException e) {
      throw new IllegalStateException(e);
    }
  }

  private static Field field(String name) {
    try {
      Field found = SparkExecuteStatementOperation.class.getDeclaredField(name);
      found.setAccessible(true);
      return found;
    } catch (NoSuchFieldException e) {
      throw new ExceptionInInitializerError(e);
    }
  }
}
