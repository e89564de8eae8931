package io.sluice.lake;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.paths.SparkPath;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.execution.LogicalRDD;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import scala.Function1;
import scala.collection.Iterator;
import scala.collection.JavaConverters;
import scala.collection.Seq;
import scala.reflect.ClassTag;

/**
 * Spark's own expressions over the rows of small files, compiled once and run in the calling thread
 * without a job.
 *
 * <p>What a row becomes is said once, by columns of a DataFrame, for small and for large batches:
 * planning that DataFrame and running it as a job costs a hundred times what its expressions do.
 */
public final class RowPlan {
  private final SparkSession session;
  private final StructType source;
  private final StructType target;
  private final List<UnsafeProjection> steps = new ArrayList<>();
  private final UnsafeProjection rows;
  private final UnsafeProjection signs;
  private final int countOfSigns;
  private final String ordering;
  private final List<String> key;

  private RowPlan(
      Dataset<Row> columns, StructType source, int signs, String ordering, List<String> key) {
    this.session = columns.sparkSession();
    this.source = source;
    List<Project> projects = projectsOf(columns.queryExecution().optimizedPlan());
    for (int i = projects.size() - 1; i > 0; i--) {
      steps.add(projection(projects.get(i), 0, projects.get(i).projectList().size()));
    }
    Project last = projects.get(0);
    int all = last.projectList().size();
    this.target = new StructType(Arrays.copyOf(columns.schema().fields(), all - signs));
    this.rows = projection(last, 0, all - signs);
    this.signs = projection(last, all - signs, all);
    this.countOfSigns = signs;
    this.ordering = ordering;
    this.key = key;
  }

  /** A DataFrame without rows, of whose columns others are made for {@link #of}. */
  public static Dataset<Row> source(SparkSession session, String schema) {
    ClassTag<InternalRow> tag = scala.reflect.ClassTag$.MODULE$.apply(InternalRow.class);
    return session.internalCreateDataFrame(
        session.sparkContext().emptyRDD(tag), (StructType) DataType.fromJson(schema), false);
  }

  /**
   * @param columns what rows become, made of {@link #source} by selecting alone; the last ones are
   *     signs: BOOLEAN columns that are counted, and belong to no row
   * @param ordering the BIGINT column that says which of two writes is the later one
   * @param key the record key, and the columns of the partition behind it
   */
  public static RowPlan of(
      Dataset<Row> columns, String source, int signs, String ordering, List<String> key) {
    StructType schema = (StructType) DataType.fromJson(source);
    List<String> names = List.copyOf(key);
    return columns
        .sparkSession()
        .withActive(() -> new RowPlan(columns, schema, signs, ordering, names));
  }

  private static List<Project> projectsOf(LogicalPlan plan) {
    List<Project> found = new ArrayList<>();
    LogicalPlan node = plan;
    while (node instanceof Project project) {
      found.add(project);
      node = project.child();
    }
    if (found.isEmpty() || !(node instanceof LogicalRDD)) {
      throw new IllegalArgumentException("these columns are not made row by row: " + plan);
    }
    return found;
  }

  private static UnsafeProjection projection(Project project, int from, int to) {
    List<NamedExpression> all = JavaConverters.seqAsJavaList(project.projectList());
    List<Expression> some = new ArrayList<>();
    all.subList(from, to).forEach(one -> some.add((Expression) one));
    Seq<Attribute> input = project.child().output();
    return UnsafeProjection.create(JavaConverters.asScalaBuffer(some).toSeq(), input);
  }

  /** No rows yet; {@link #read} adds those of a file. */
  public LightRows begin() {
    return new LightRows(session, target, ordering, key);
  }

  /**
   * Adds the rows of one Parquet file, and returns how many have which sign, divided by spaces;
   * null when the rows take too much memory, however many were added.
   *
   * @param base what is added to the ordering column of each
   */
  public synchronized String read(LightRows into, String file, long bytes, long base) {
    // settings of what runs are those of the thread's session, which nobody has set here
    return session.withActive(() -> readWithin(into, file, bytes, base));
  }

  private String readWithin(LightRows into, String file, long bytes, long base) {
    long[] counts = new long[countOfSigns];
    Iterator<InternalRow> found = open(file, bytes);
    while (found.hasNext()) {
      InternalRow row = found.next();
      for (UnsafeProjection step : steps) {
        row = step.apply(row);
      }
      UnsafeRow seen = signs.apply(row);
      for (int i = 0; i < counts.length; i++) {
        counts[i] += !seen.isNullAt(i) && seen.getBoolean(i) ? 1 : 0;
      }
      into.add(rows.apply(row), base);
      if (into.isFull()) {
        close(found);
        return null;
      }
    }
    return Arrays.stream(counts).mapToObj(Long::toString).collect(Collectors.joining(" "));
  }

  private static void close(Iterator<InternalRow> found) {
    if (found instanceof AutoCloseable reader) {
      try {
        reader.close();
      } catch (Exception error) {
        throw new IllegalStateException("a file of staged rows could not be closed", error);
      }
    }
  }

  private Iterator<InternalRow> open(String file, long bytes) {
    Configuration hadoop = session.sessionState().newHadoopConf();
    scala.collection.immutable.Map<String, String> options =
        new scala.collection.immutable.Map.Map1<>("returning_batch", "false");
    Function1<PartitionedFile, Iterator<InternalRow>> reader =
        new ParquetFileFormat()
            .buildReaderWithPartitionValues(
                session, source, new StructType(), source, none(), options, hadoop);
    return reader.apply(
        PartitionedFile.apply(
            InternalRow.empty(),
            SparkPath.fromPathString(file),
            0,
            bytes,
            new String[0],
            0,
            bytes,
            PartitionedFile.apply$default$8()));
  }

  private static <T> Seq<T> none() {
    return JavaConverters.asScalaBuffer(List.<T>of()).toSeq();
  }
}
