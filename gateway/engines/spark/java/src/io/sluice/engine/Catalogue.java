package io.sluice.engine;

import com.fasterxml.jackson.databind.JsonNode;
import java.net.URI;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.catalog.CatalogDatabase;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.ExternalCatalog;

/**
 * The lake's tables as the gateway's catalogue knows them. Asked at every reference; what Spark
 * has registered follows the answer: new, moved, evolved and dropped tables alike.
 */
final class Catalogue {
  /** Where a table lies, in which version of its schema. */
  record Location(String path, long schemaVersion) {}

  private final SparkSession root;
  private final ControlChannel control;
  private final Map<String, Location> registered = new ConcurrentHashMap<>();

  Catalogue(SparkSession root, ControlChannel control) {
    this.root = root;
    this.control = control;
  }

  /** Registers the table as it is now; false when the lake has no such table. */
  boolean refresh(String database, String table) {
    JsonNode answer = control.ask("lookup", Map.of("database", database, "table", table));
    String key = database + "." + table;
    if (!answer.path("found").asBoolean()) {
      if (registered.remove(key) != null) {
        external().dropTable(database, table, true, false); // EXTERNAL: files stay
      }
      return false;
    }
    Location now =
        new Location(
            answer.required("path").asText(), answer.path("schema_version").asLong());
    registered.compute(key, (k, old) -> now.equals(old) ? old : register(database, table, now));
    return true;
  }

  /** The lake name of a live source's table, or null. */
  String lakeNameOf(String datasource, String database, String table) {
    JsonNode answer =
        control.ask("lookup", Map.of("database", datasource + "." + database, "table", table));
    return answer.hasNonNull("lake_name") ? answer.get("lake_name").asText() : null;
  }

  /**
   * A live source's table as it is now, or null when there is none that the principal may see. If
   * they may read it, the engine knows how to reach the source from here on.
   */
  SourceTable source(Policy policy, String datasource, String database, String table) {
    JsonNode answer =
        control.ask(
            "source",
            Map.of(
                "principal", policy.principal(),
                "datasource", datasource,
                "database", database,
                "table", table));
    if (answer.hasNonNull("refused")) {
      throw Denied.sourceRefused(datasource, answer.get("refused").asText());
    }
    if (!answer.hasNonNull("found")) {
      return null;
    }
    SourceTable found = SourceTable.of(answer.get("found"));
    if (answer.hasNonNull("access")) {
      Sources.store(found.datasource(), answer.get("access"));
    }
    if (!policy.maySee(found)) {
      return null;
    }
    if (found.hasTwins()) {
      throw Denied.twins(found.name());
    }
    return found;
  }

  /**
   * Names that the principal may see, sorted: of live sources; of the databases of one; of the
   * tables in one of these. {@code above} has the names above.
   */
  List<String> liveNames(Policy policy, List<String> above) {
    Map<String, String> question =
        Map.of(
            "principal", policy.principal(),
            "datasource", above.isEmpty() ? "" : above.get(0),
            "database", above.size() < 2 ? "" : above.get(1));
    TreeSet<String> names = new TreeSet<>();
    for (JsonNode name : control.ask("live_names", question).path("names")) {
      names.add(name.asText());
    }
    return new ArrayList<>(names);
  }

  /** Names of the tables of a database that the principal may see, sorted. */
  List<String> tables(Policy policy, String database) {
    TreeSet<String> names = new TreeSet<>();
    for (JsonNode pair : list(policy, database)) {
      if (pair.get(0).asText().equals(database)
          && policy.maySee(database, pair.get(1).asText())) {
        names.add(pair.get(1).asText());
      }
    }
    return new ArrayList<>(names);
  }

  /** Names of the databases in which the principal may see at least one table, sorted. */
  List<String> databases(Policy policy) {
    TreeSet<String> names = new TreeSet<>();
    for (JsonNode pair : list(policy, "*")) {
      if (policy.maySee(pair.get(0).asText(), pair.get(1).asText())) {
        names.add(pair.get(0).asText());
      }
    }
    return new ArrayList<>(names);
  }

  /**
   * Names, types and whether they may be NULL of the columns that the principal may see, by table
   * of a database; of all tables, or of the one that is named.
   */
  JsonNode columns(Policy policy, String database, String table) {
    String pattern = table == null ? "%" : table.replaceAll("([\\\\%_])", "\\\\$1");
    Map<String, String> question =
        Map.of("principal", policy.principal(), "database", database, "pattern", pattern);
    return control.ask("columns", question).path("tables");
  }

  private JsonNode list(Policy policy, String database) {
    Map<String, String> question =
        Map.of("principal", policy.principal(), "database", database, "pattern", "*");
    return control.ask("list", question).path("names");
  }

  /** Makes a database known to Spark, so that it can be used before any table of it was. */
  void ensureDatabase(String database) {
    if (!external().databaseExists(database)) {
      URI place = Path.of(root.conf().get("spark.sql.warehouse.dir").replaceFirst("^file:", ""),
          database).toUri();
      external()
          .createDatabase(
              new CatalogDatabase(database, "", place, Tables.emptyMap()), true);
    }
  }

  private Location register(String database, String table, Location location) {
    ensureDatabase(database);
    CatalogTable definition =
        Tables.hudi(new TableIdentifier(table, scala.Option.apply(database)), location.path());
    if (external().tableExists(database, table)) {
      external().alterTable(definition);
    } else {
      external().createTable(definition, true);
    }
    return location;
  }

  private ExternalCatalog external() {
    return root.sharedState().externalCatalog();
  }
}
