package io.sluice.engine;

import java.io.File;
import java.io.IOException;
import java.io.Serializable;
import java.util.BitSet;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executor;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.hive.service.cli.HiveSQLException;
import org.apache.spark.FutureAction;
import org.apache.spark.SparkContext;
import org.apache.spark.TaskContext;
import org.apache.spark.io.CompressionCodec;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.util.Utils;
import scala.collection.Iterator;
import scala.concurrent.ExecutionContext;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;
import scala.util.Failure;
import scala.util.Try;

/**
 * A result's parts, made by tasks of their own and read in their order. The first one is made
 * alone: most results are read no further. Once the client reads on, or leaves the rest for a
 * while, several are made at a time, until all are there and the lake's files are not needed.
 *
 * <p>A part is shown only when it is whole: a task that gives way to others begins anew. What was
 * read is removed. Half of its user's room is taken: parts are made only as they are read.
 */
final class Spool {
  static final long LOOK_MILLIS = 1000;
  private static final long ALONE_NANOS = TimeUnit.SECONDS.toNanos(30);
  // removed with the engine's folder, also behind one that was killed
  private static final File FOLDER = new File(System.getProperty("java.io.tmpdir"));
  private static final Map<Long, Spool> OPEN = new ConcurrentHashMap<>();
  private static final AtomicLong LAST = new AtomicLong();
  private static final Executor ENDS =
      Executors.newSingleThreadExecutor(work -> Engine.daemon(work, "sluice-spool"));
  private final long id = LAST.incrementAndGet();
  private final long begun = System.nanoTime();
  private final SparkContext context;
  private final Properties properties;
  private final RDD<InternalRow> rows;
  private final int columns;
  private final String user;
  private final SpoolRoom room;
  private final CompressionCodec codec;
  private final SpoolFile[] parts; // made and not read yet; guarded by this, as all below
  private final Set<SpoolFile> unmade = new HashSet<>(); // parts that tasks write now
  private final BitSet made = new BitSet();
  private Throwable failure;
  private int failed = Integer.MAX_VALUE; // the first part that was not made for it
  private int started;
  private int running;
  private int next; // to be read
  private boolean isWide;
  private boolean isClosed;
  private SpoolFile.Reader reader;

  /** On the thread that reads it, whose properties its jobs get. */
  Spool(RDD<InternalRow> rows, int columns, String user) {
    this.context = rows.sparkContext();
    this.properties = Utils.cloneProperties(context.getLocalProperties());
    this.rows = rows;
    this.columns = columns;
    this.user = user;
    this.room = Engine.get().spools();
    this.codec = codecOf(context);
    this.parts = new SpoolFile[rows.partitions().length];
    OPEN.put(id, this);
  }

  /**
   * Unpacks the library that compresses them, while there is room for it. At the first spool the
   * disk may be full, and a class that could not be loaded once is never tried again.
   */
  static void load(SparkContext context) {
    codecOf(context);
  }

  private static CompressionCodec codecOf(SparkContext context) {
    return CompressionCodec.createCodec(context.getConf(), "zstd");
  }

  /** True when nothing is read from the lake any more. */
  synchronized boolean isWhole() {
    return made.cardinality() == parts.length;
  }

  /** True when all that was made is still there. */
  synchronized boolean isUnread() {
    return next == 0;
  }

  /** Bytes on the disk. */
  synchronized long size() {
    long size = 0;
    for (SpoolFile part : parts) {
      size += part == null ? 0 : part.size();
    }
    for (SpoolFile part : unmade) {
      size += part.size();
    }
    return size;
  }

  /** Makes several parts at a time from now on. */
  synchronized void widen() {
    if (!isWide) {
      isWide = true;
      ENDS.execute(this::start);
    }
  }

  /** Called again and again, while it is open. */
  void look() {
    if (System.nanoTime() - begun > ALONE_NANOS) {
      widen();
      ENDS.execute(this::start); // others may have left room
    }
  }

  /** The next part's rows, once it is whole; null behind the last one. */
  Iterator<UnsafeRow> next() throws InterruptedException, IOException {
    release();
    if (next == parts.length) {
      return null;
    }
    if (next > 0) {
      widen();
    }
    start();
    synchronized (this) {
      while (!isClosed && parts[next] == null && next < failed) {
        wait();
      }
      if (!isClosed && parts[next] != null) {
        reader = parts[next].read(columns);
        return reader;
      }
      throw Functions.<RuntimeException>raise(isClosed ? closed() : failure);
    }
  }

  /** Reads from the first row again; only what is unread can be. */
  synchronized void rewind() throws IOException {
    if (reader != null) {
      reader.close();
      reader = null;
    }
  }

  private synchronized void release() throws IOException {
    if (reader != null) {
      reader.close();
      reader = null;
      if (!isClosed) {
        parts[next].remove();
        parts[next] = null;
      }
      next++;
    }
  }

  /** Removes what was made and is to be made. Its jobs are ended by who closes it. Idempotent. */
  synchronized void close() {
    isClosed = true;
    OPEN.remove(id);
    for (int part = 0; part < parts.length; part++) {
      if (parts[part] != null) {
        parts[part].remove();
        parts[part] = null;
      }
    }
    unmade.forEach(SpoolFile::remove); // their tasks fail when they go on
    notifyAll();
  }

  private void start() {
    for (int part = claim(); part >= 0; part = claim()) {
      context.setLocalProperties(Utils.cloneProperties(properties));
      FutureAction<Object> job =
          context.submitJob(
              rows,
              new Write(id),
              Functions.seq(List.<Object>of(part)),
              (number, result) -> BoxedUnit.UNIT, // tasks show what they made by themselves
              () -> Boolean.TRUE);
      int one = part;
      job.onComplete(Functions.of(end -> ended(one, end)), ExecutionContext.fromExecutor(ENDS));
      synchronized (this) {
        if (isClosed) {
          job.cancel(); // what was running before, its statement has ended
        }
      }
    }
  }

  /** The next part to be made; -1 when none may be now. */
  private synchronized int claim() {
    boolean isEnough = running >= (isWide ? context.defaultParallelism() : 1);
    if (isClosed || failure != null || isEnough || started == parts.length) {
      return -1;
    }
    boolean mayGoAhead = isWide && !room.isHalfFull(user);
    if (started > next && !mayGoAhead) {
      return -1;
    }
    running++;
    return started++;
  }

  private void ended(int part, Try<Object> end) {
    if (end.isFailure()) {
      fail(part, ((Failure<Object>) end).exception());
    }
    synchronized (this) {
      running--;
    }
    start();
  }

  private synchronized void fail(int part, Throwable error) {
    if (!made.get(part) && part < failed) {
      failure = failure instanceof HiveSQLException ? failure : error;
      failed = part;
      notifyAll();
    }
  }

  private void write(Iterator<InternalRow> from) throws IOException {
    TaskContext task = TaskContext.get();
    File file = new File(FOLDER, "result-" + id + "-" + task.taskAttemptId());
    SpoolFile part = new SpoolFile(file, room, user, codec);
    begin(part);
    try {
      try (SpoolFile.Writer writer = part.writer()) {
        while (from.hasNext()) {
          writer.add((UnsafeRow) from.next());
          if (task.isInterrupted() || isClosed) {
            throw closed();
          }
        }
      }
      show(task.partitionId(), part);
    } catch (Throwable error) {
      part.remove();
      if (error instanceof HiveSQLException) {
        fail(task.partitionId(), error); // Spark would make a text of it
      }
      throw error;
    } finally {
      finish(part);
    }
  }

  private synchronized void begin(SpoolFile part) {
    if (isClosed) {
      throw closed();
    }
    unmade.add(part);
  }

  private synchronized void finish(SpoolFile part) {
    unmade.remove(part);
  }

  private synchronized void show(int number, SpoolFile part) {
    if (isClosed || made.get(number)) {
      part.remove();
      return;
    }
    unmade.remove(part); // it is counted once
    parts[number] = part;
    made.set(number);
    notifyAll();
  }

  private static IllegalStateException closed() {
    return new IllegalStateException("the result is closed");
  }

  /** What a task does; it finds its spool by number, as tasks are copied. */
  private static final class Write extends AbstractFunction1<Iterator<InternalRow>, Object>
      implements Serializable {
    private final long id;

    Write(long id) {
      this.id = id;
    }

    @Override
    public Object apply(Iterator<InternalRow> rows) {
      Spool spool = OPEN.get(id);
      if (spool == null) {
        throw closed();
      }
      try {
        spool.write(rows);
        return Boolean.TRUE;
      } catch (IOException e) {
        throw Functions.<RuntimeException>raise(e);
      }
    }
  }
}
