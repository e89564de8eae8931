package io.sluice.engine;

import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.V1Table;
import org.apache.spark.sql.hudi.catalog.HoodieCatalog;

/**
 * The session catalog that asks the gateway at each reference to a table. A table the session's
 * user has no privilege on is absent here, so Spark answers as for one that never was.
 */
public final class LazyCatalog extends HoodieCatalog {
  private boolean isFirst = true;

  @Override
  public Table loadTable(Identifier name) {
    if (!Engine.owns(spark())) {
      keepListings();
      Policy policy = Engine.get().policyOf(spark());
      if (name.namespace().length == 2) {
        return liveTable(policy, name);
      }
      require(policy, name);
    }
    return super.loadTable(name);
  }

  private synchronized void keepListings() {
    if (isFirst) {
      ListedTables.installIn(spark());
      isFirst = false;
    }
  }

  /** Hudi's catalog would drop the version, and answer with the rows of now. */
  @Override
  public Table loadTable(Identifier name, String version) {
    loadTable(name);
    throw olderState(name);
  }

  /**
   * As for a version. Hudi's parser keeps the time, so that it never gets here; but it takes a
   * statement only if its text has the words with nothing but blanks between them.
   */
  @Override
  public Table loadTable(Identifier name, long timestamp) {
    loadTable(name);
    throw olderState(name);
  }

  @Override
  public boolean tableExists(Identifier name) {
    try {
      loadTable(name);
      return true;
    } catch (Exception e) {
      if (e instanceof NoSuchTableException) {
        return false;
      }
      throw Functions.<RuntimeException>raise(e);
    }
  }

  /** A source's own name is the live source, for those who may see it. */
  private static Table liveTable(Policy policy, Identifier name) {
    String[] source = name.namespace();
    SourceTable found =
        Engine.get().catalogue().source(policy, source[0], source[1], name.name());
    if (found == null) {
      refuseLiveSource(policy, name);
      throw absent(name);
    }
    return new V1Table(Tables.live(found));
  }

  private static void require(Policy policy, Identifier name) {
    String[] namespace = name.namespace();
    if (namespace.length != 1) {
      throw absent(name);
    }
    String database = Words.lower(namespace[0]);
    String table = Words.lower(name.name());
    if (!policy.maySee(database, table)
        || !Engine.get().catalogue().refresh(database, table)) {
      throw absent(name);
    }
  }

  private static void refuseLiveSource(Policy policy, Identifier name) {
    String[] source = name.namespace();
    String lakeName =
        Engine.get().catalogue().lakeNameOf(Words.lower(source[0]), source[1], name.name());
    if (lakeName == null) {
      return;
    }
    String[] parts = lakeName.split("\\.", 2);
    if (parts.length == 2 && policy.maySee(parts[0], parts[1])) {
      throw Denied.liveSource(
          String.join(".", source) + "." + name.name(), "lake." + lakeName);
    }
  }

  private static Denied olderState(Identifier visible) {
    if (visible.namespace().length > 1) {
      return Denied.olderSource();
    }
    return Denied.unsupported(
        "An older state of "
            + String.join(".", visible.namespace())
            + "."
            + visible.name()
            + " is read by TIMESTAMP AS OF '<instant or time in UTC>', with blanks only between"
            + " these three words.");
  }

  private static RuntimeException absent(Identifier name) {
    return Functions.<RuntimeException>raise(new NoSuchTableException(name));
  }
}
