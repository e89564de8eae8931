package io.sluice.engine;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.types.DataType;

/**
 * A column of a live source as SQL users see it: the name and the type of its copy in the lake.
 *
 * @param stored the column itself in the source's SQL
 * @param read the source's expression for the value in the form that a load reads
 * @param fits the source's condition for values that have such a form, others are NULL; "" for all
 * @param compared what may be compared there, and the form of a parameter; all must be equal; empty
 *     when the source compares otherwise than Spark does
 * @param isOrdered whether less and greater mean the same there, too
 */
record SourceColumn(
    String name,
    DataType type,
    boolean isNullable,
    String stored,
    String read,
    String fits,
    List<Compared> compared,
    boolean isOrdered)
    implements Serializable {

  /** {@code value} has one place for a parameter, {@code ?}. */
  record Compared(String raw, String value) implements Serializable {}

  static SourceColumn of(JsonNode column) {
    List<Compared> compared = new ArrayList<>();
    for (JsonNode pair : column.required("compared")) {
      compared.add(new Compared(pair.get(0).asText(), pair.get(1).asText()));
    }
    return new SourceColumn(
        column.required("name").asText(),
        DataType.fromDDL(column.required("type").asText()),
        column.required("nullable").asBoolean(),
        column.required("stored").asText(),
        column.required("read").asText(),
        column.required("fits").asText(),
        List.copyOf(compared),
        column.required("ordered").asBoolean());
  }
}
