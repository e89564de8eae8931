package io.sluice.engine;

import java.util.Map;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.analysis.NoSuchFunctionException;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.FunctionCatalog;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The name {@code lake} for the session catalog, so that {@code lake.db.table} and
 * {@code db.table} are one table. Read-only. Its own name is the session catalog's, which makes
 * Spark treat the tables alike.
 */
public final class LakeCatalog implements TableCatalog, SupportsNamespaces, FunctionCatalog {
  private CatalogPlugin session;

  @Override
  public void initialize(String name, CaseInsensitiveStringMap options) {
    session = SparkSession.active().sessionState().catalogManager().v2SessionCatalog();
  }

  @Override
  public String name() {
    return "spark_catalog";
  }

  @Override
  public String[] defaultNamespace() {
    return session.defaultNamespace();
  }

  @Override
  public Table loadTable(Identifier name) throws NoSuchTableException {
    if (name.namespace().length > 1) {
      throw new NoSuchTableException(name); // a live source's is not the lake's
    }
    return ((TableCatalog) session).loadTable(name);
  }

  @Override
  public Table loadTable(Identifier name, String version) throws NoSuchTableException {
    return ((TableCatalog) session).loadTable(name, version);
  }

  @Override
  public Table loadTable(Identifier name, long timestamp) throws NoSuchTableException {
    return ((TableCatalog) session).loadTable(name, timestamp);
  }

  @Override
  public boolean tableExists(Identifier name) {
    return ((TableCatalog) session).tableExists(name);
  }

  @Override
  public Identifier[] listTables(String[] namespace) throws NoSuchNamespaceException {
    return ((TableCatalog) session).listTables(namespace);
  }

  @Override
  public String[][] listNamespaces() throws NoSuchNamespaceException {
    return ((SupportsNamespaces) session).listNamespaces();
  }

  @Override
  public String[][] listNamespaces(String[] namespace) throws NoSuchNamespaceException {
    return ((SupportsNamespaces) session).listNamespaces(namespace);
  }

  @Override
  public boolean namespaceExists(String[] namespace) {
    return ((SupportsNamespaces) session).namespaceExists(namespace);
  }

  @Override
  public Map<String, String> loadNamespaceMetadata(String[] namespace) {
    throw readOnly();
  }

  @Override
  public Identifier[] listFunctions(String[] namespace) throws NoSuchNamespaceException {
    return ((FunctionCatalog) session).listFunctions(namespace);
  }

  @Override
  public UnboundFunction loadFunction(Identifier name) throws NoSuchFunctionException {
    return ((FunctionCatalog) session).loadFunction(name);
  }

  @Override
  public Table createTable(
      Identifier name, StructType schema, Transform[] partitions, Map<String, String> options) {
    throw readOnly();
  }

  @Override
  public Table alterTable(Identifier name, TableChange... changes) {
    throw readOnly();
  }

  @Override
  public boolean dropTable(Identifier name) {
    throw readOnly();
  }

  @Override
  public void renameTable(Identifier from, Identifier to) {
    throw readOnly();
  }

  @Override
  public void createNamespace(String[] namespace, Map<String, String> metadata) {
    throw readOnly();
  }

  @Override
  public void alterNamespace(String[] namespace, NamespaceChange... changes) {
    throw readOnly();
  }

  @Override
  public boolean dropNamespace(String[] namespace, boolean cascade) {
    throw readOnly();
  }

  private static Denied readOnly() {
    return Denied.forbidden("Lake tables are read-only for SQL.");
  }
}
