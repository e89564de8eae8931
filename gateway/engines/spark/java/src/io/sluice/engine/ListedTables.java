package io.sluice.engine;

import java.io.IOException;
import java.lang.reflect.Field;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hudi.HoodieFileIndex;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.QualifiedTableName;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.ExternalCatalog;
import org.apache.spark.sql.catalyst.catalog.SessionCatalog;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.DataSource;
import org.apache.spark.sql.execution.datasources.DataSourceUtils;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation$;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.parquet.ParquetUtils;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.sparkproject.guava.cache.Cache;
import org.sparkproject.guava.cache.ForwardingCache;
import org.sparkproject.guava.util.concurrent.ExecutionError;
import org.sparkproject.guava.util.concurrent.UncheckedExecutionException;
import scala.Option;

/**
 * The tables as Hudi read them for planning: timeline, schema and files, which takes longer than a
 * small query. Files come and go by instants only, so what was read holds for as long as the
 * table's timeline is what it was; that is looked at, at each reference. All sessions share it:
 * nothing that a user may set has a part in it, and rights are judged above it.
 *
 * <p>References that were read alike are one relation, of which Spark computes equal parts once.
 */
final class ListedTables extends ForwardingCache<QualifiedTableName, LogicalPlan> {
  private static final long MOST_BYTES = 32L << 20;
  private static final long BYTES_EACH = 400_000; // most of it a configuration of Hadoop
  private static final long BYTES_OF_A_FILE = 1_000;

  /** By its name, too: rights are those of the name. */
  private record Key(String database, String table, String path) {}

  /**
   * @param state taken before the table was read, so that it is never newer than that
   * @param relation null for a table that each statement reads for itself
   */
  private record Listed(Set<String> state, LogicalRelation relation) {
    boolean holds(Set<String> now) {
      return relation == null || state.equals(now);
    }

    long bytes() {
      return BYTES_OF_A_FILE * (state.size() + files()) + (relation == null ? 0 : BYTES_EACH);
    }

    private int files() {
      return relation == null ? 0 : ((HadoopFsRelation) relation.relation()).inputFiles().length;
    }
  }

  private static final WeighedCache<Key, Listed> LISTED = new WeighedCache<>(MOST_BYTES);

  private final SparkSession session;
  private final Cache<QualifiedTableName, LogicalPlan> own;

  private ListedTables(SparkSession session, Cache<QualifiedTableName, LogicalPlan> own) {
    this.session = session;
    this.own = own;
  }

  /** Takes the place of the session catalog's cache, which keeps nothing. */
  @SuppressWarnings("unchecked")
  static void installIn(SparkSession session) {
    SessionCatalog catalog = session.sessionState().catalog();
    try {
      Field field = SessionCatalog.class.getDeclaredField("tableRelationCache");
      field.setAccessible(true);
      field.set(
          catalog,
          new ListedTables(
              session, (Cache<QualifiedTableName, LogicalPlan>) field.get(catalog)));
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException("this Spark keeps its relations elsewhere", e);
    }
  }

  @Override
  protected Cache<QualifiedTableName, LogicalPlan> delegate() {
    return own;
  }

  @Override
  public LogicalPlan get(QualifiedTableName name, Callable<? extends LogicalPlan> read)
      throws ExecutionException {
    CatalogTable table = now(() -> definitionOf(name));
    Set<String> state = table == null ? null : stateOf(new Path(table.location()));
    if (state == null) {
      return now(read);
    }
    Key key = new Key(name.database(), name.name(), table.location().toString());
    Listed known = LISTED.get(key);
    if (known == null || !known.holds(state)) {
      known = new Listed(state, now(() -> listed(table)));
      LISTED.put(key, known, known.bytes());
    }
    return known.relation == null ? now(read) : ofSession(known.relation);
  }

  /** Null for a table of a live source. */
  private CatalogTable definitionOf(QualifiedTableName name) throws AnalysisException {
    ExternalCatalog tables = session.sharedState().externalCatalog();
    boolean isKnown =
        tables.databaseExists(name.database())
            && tables.tableExists(name.database(), name.name());
    TableIdentifier place = new TableIdentifier(name.name(), Option.apply(name.database()));
    return isKnown ? session.sessionState().catalog().getTableMetadata(place) : null;
  }

  /** As Spark does it for a statement, in a session that stays; null for one that is not kept. */
  private static LogicalRelation listed(CatalogTable table) {
    SparkSession neutral = Engine.get().neutral();
    DataSource source =
        new DataSource(
            neutral,
            table.provider().get(),
            Functions.seq(List.of()),
            Option.empty(),
            Functions.seq(List.of()),
            Option.empty(),
            DataSourceUtils.generateDatasourceOptions(CaseInsensitiveStringMap.empty(), table),
            Option.apply(table));
    BaseRelation found = BoundRules.inside(neutral, () -> source.resolveRelation(false));
    return isKept(found) ? LogicalRelation$.MODULE$.apply(found, table) : null;
  }

  /** Instants and properties; null where they cannot be read, or are kept in an older way. */
  private Set<String> stateOf(Path table) {
    Path hudi = new Path(table, ".hoodie");
    try {
      FileSystem files = table.getFileSystem(session.sparkContext().hadoopConfiguration());
      Set<String> state = new HashSet<>();
      state.add(textOf(files.getFileStatus(new Path(hudi, "hoodie.properties"))));
      for (FileStatus instant : files.listStatus(new Path(hudi, "timeline"))) {
        state.add(textOf(instant));
      }
      return state;
    } catch (IOException e) {
      return null;
    }
  }

  private static String textOf(FileStatus file) {
    return file.getPath().getName() + " " + file.getLen() + " " + file.getModificationTime();
  }

  /** As Guava does it, but each asks for itself: who waits for another's would get older files. */
  private static <T> T now(Callable<? extends T> read) throws ExecutionException {
    try {
      return read.call();
    } catch (RuntimeException e) {
      throw new UncheckedExecutionException(e);
    } catch (Exception e) {
      throw new ExecutionException(e);
    } catch (Error e) {
      throw new ExecutionError(e);
    }
  }

  /**
   * Of a table in partitions Hudi's own relation changes as it is planned; so does one with a type
   * that cannot be decoded in batches.
   */
  private static boolean isKept(BaseRelation found) {
    return found instanceof HadoopFsRelation files
        && files.location().getClass() == HoodieFileIndex.class
        && files.partitionSchema().isEmpty()
        && ParquetUtils.isBatchReadSupportedForSchema(
            files.sparkSession().sessionState().conf(), files.schema());
  }

  private LogicalRelation ofSession(LogicalRelation relation) {
    HadoopFsRelation files = (HadoopFsRelation) relation.relation();
    HadoopFsRelation own =
        new HadoopFsRelation(
            files.location(),
            files.partitionSchema(),
            files.dataSchema(),
            files.bucketSpec(),
            files.fileFormat(),
            files.options(),
            session);
    return new LogicalRelation(own, relation.output(), relation.catalogTable(), false)
        .newInstance();
  }
}
