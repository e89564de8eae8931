package io.sluice.engine;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.MissingNode;
import java.util.List;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/**
 * What SHOW TABLE EXTENDED tells of each table, in Spark's words: other programs read them. Columns
 * come from the catalogue and not from the files, so that many tables are no work for the engine.
 */
record TableFacts(String database, JsonNode columns) {
  /** Of so many tables the columns are told; beyond that they would be most of the answer. */
  private static final int MOST_WITH_COLUMNS = 500;

  static TableFacts of(Policy policy, String database, List<String> tables) {
    JsonNode none = MissingNode.getInstance();
    if (tables.isEmpty() || tables.size() > MOST_WITH_COLUMNS) {
      return new TableFacts(database, none);
    }
    String only = tables.size() == 1 ? tables.get(0) : null;
    return new TableFacts(database, Engine.get().catalogue().columns(policy, database, only));
  }

  String of(String table) {
    return "Catalog: lake\nDatabase: "
        + database
        + "\nTable: "
        + table
        + "\nOwner: sluice\nType: EXTERNAL\nProvider: hudi\n"
        + schemaOf(columns.path(table));
  }

  private static String schemaOf(JsonNode columns) {
    if (columns.isEmpty()) {
      return "";
    }
    StructType schema = new StructType();
    for (JsonNode column : columns) {
      DataType type = DataType.fromDDL(column.get(1).asText());
      schema = schema.add(column.get(0).asText(), type, column.get(2).asBoolean());
    }
    return "Schema: " + schema.treeString();
  }
}
