package io.sluice.engine;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;
import org.apache.spark.sql.types.StructType;

/**
 * A table of a live source as the gateway's catalogue knows it. Has no password: see {@link
 * Sources}.
 *
 * @param parts the names of datasource, database and table as the catalogue spells them
 * @param kind which kind of source it is
 * @param relation the table's name in the source's SQL
 * @param weight characters of its description
 * @param splitBy the integer column by whose ranges several tasks read; "" = one task reads all
 */
record SourceTable(
    List<String> parts,
    String kind,
    String relation,
    List<SourceColumn> columns,
    String splitBy,
    long rows,
    long bytes,
    long weight)
    implements Serializable {

  static SourceTable of(JsonNode found) {
    List<String> parts = new ArrayList<>();
    found.required("parts").forEach(part -> parts.add(part.asText()));
    List<SourceColumn> columns = new ArrayList<>();
    found.required("columns").forEach(column -> columns.add(SourceColumn.of(column)));
    return new SourceTable(
        List.copyOf(parts),
        found.required("kind").asText(),
        found.required("relation").asText(),
        List.copyOf(columns),
        found.required("split_by").asText(),
        found.required("rows").asLong(),
        found.required("bytes").asLong(),
        found.toString().length());
  }

  String datasource() {
    return parts.get(0);
  }

  /** As policies and messages name it. */
  String name() {
    return nameOf(parts);
  }

  /** Those that a grant may name to cover the table: the source, its database, itself. */
  List<String> covering() {
    return List.of(nameOf(parts.subList(0, 1)), nameOf(parts.subList(0, 2)), name());
  }

  StructType schema() {
    StructType schema = new StructType();
    for (SourceColumn column : columns) {
      schema = schema.add(column.name(), column.type(), true);
    }
    return schema;
  }

  /** True when SQL here, to which case is nothing, cannot tell two of its columns apart. */
  boolean hasTwins() {
    return columns.stream().map(column -> Words.lower(column.name())).distinct().count()
        < columns.size();
  }

  SourceColumn column(String name) {
    for (SourceColumn column : columns) {
      if (Words.lower(column.name()).equals(Words.lower(name))) {
        return column;
      }
    }
    throw new IllegalArgumentException(name);
  }

  /** As the catalogue writes names: quoted where a part has a dot or a quote in it. */
  static String nameOf(List<String> parts) {
    return parts.stream().map(SourceTable::quoted).collect(Collectors.joining("."));
  }

  private static String quoted(String part) {
    boolean isPlain = part.indexOf('.') < 0 && part.indexOf('`') < 0;
    return isPlain ? part : "`" + part.replace("`", "``") + "`";
  }
}
