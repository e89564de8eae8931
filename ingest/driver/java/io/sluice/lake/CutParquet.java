package io.sluice.lake;

import java.util.function.IntFunction;
import org.apache.hadoop.mapreduce.Job;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.execution.datasources.OutputWriter;
import org.apache.spark.sql.execution.datasources.OutputWriterFactory;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Map;

/**
 * Spark's Parquet, whose files end where {@link #ROWS} or fewer take {@link #BYTES} in memory.
 *
 * <p>Whoever writes or reads a file holds so many of its rows at once. Spark cuts files by their
 * number only, and how wide rows are is known when they come. Files of narrow rows do not end.
 */
public final class CutParquet extends ParquetFileFormat {
  private static final int ROWS = 4096;
  private static final long BYTES = 8 << 20;

  @Override
  public OutputWriterFactory prepareWrite(
      SparkSession spark, Job job, Map<String, String> options, StructType schema) {
    return new Factory(super.prepareWrite(spark, job, options, schema));
  }

  private static final class Factory extends OutputWriterFactory {
    private final OutputWriterFactory files;

    Factory(OutputWriterFactory files) {
      this.files = files;
    }

    @Override
    public String getFileExtension(TaskAttemptContext context) {
      return files.getFileExtension(context);
    }

    @Override
    public OutputWriter newInstance(String path, StructType schema, TaskAttemptContext context) {
      return new Writer(path, number -> files.newInstance(numbered(path, number), schema, context));
    }

    /** All lie in the folder of the task's attempt, which is committed as a whole. */
    private static String numbered(String path, int number) {
      int name = path.lastIndexOf('/') + 1;
      return path.substring(0, name) + "cut-" + number + "-" + path.substring(name);
    }
  }

  private static final class Writer extends OutputWriter {
    private final String path;
    private final IntFunction<OutputWriter> files;
    private int number = 0;
    private OutputWriter file;
    // of those that would be held now
    private int rows = 0;
    private long bytes = 0;

    Writer(String path, IntFunction<OutputWriter> files) {
      this.path = path;
      this.files = files;
      this.file = files.apply(number);
    }

    @Override
    public void write(InternalRow row) {
      if (bytes >= BYTES) {
        file.close();
        file = files.apply(++number);
        rows = 0;
      }
      if (rows++ % ROWS == 0) {
        bytes = 0;
      }
      file.write(row);
      bytes += ((UnsafeRow) row).getSizeInBytes();
    }

    @Override
    public void close() {
      file.close();
    }

    @Override
    public String path() {
      return path;
    }
  }
}
