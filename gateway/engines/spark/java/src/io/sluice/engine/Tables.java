package io.sluice.engine;

import java.net.URI;
import java.util.List;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.catalog.CatalogStorageFormat;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.CatalogTableType;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.immutable.Map;
import scala.collection.immutable.Map$;

/**
 * How a Hudi table stands in Spark's catalogue. Built by hand, because CREATE TABLE would write
 * into the table's own properties; without a schema, because Hudi then reads the table's current
 * one at every reference, so that an added column shows at once.
 */
final class Tables {
  private Tables() {}

  @SuppressWarnings({"unchecked", "rawtypes"})
  static Map<String, String> emptyMap() {
    return (Map<String, String>) (Map) Map$.MODULE$.empty();
  }

  static CatalogTable hudi(TableIdentifier name, String path) {
    URI place = path.contains(":/") ? URI.create(path) : java.nio.file.Path.of(path).toUri();
    Map<String, String> options = emptyMap().$plus(new scala.Tuple2<>("path", place.toString()));
    return table(name, "hudi", Option.apply(place), options);
  }

  /** A table of a live source, for one statement: Spark's catalogue never has it. */
  static CatalogTable live(SourceTable found) {
    String database = SourceTable.nameOf(found.parts().subList(0, 2));
    TableIdentifier name =
        new TableIdentifier(
            found.parts().get(2), Option.apply(database), Option.apply("spark_catalog"));
    Map<String, String> options =
        emptyMap().$plus(new scala.Tuple2<>(SourceRelation.Provider.TABLE, Sources.keep(found)));
    return table(name, SourceRelation.Provider.class.getName(), Option.empty(), options);
  }

  private static CatalogTable table(
      TableIdentifier name, String provider, Option<URI> place, Map<String, String> options) {
    CatalogStorageFormat storage =
        new CatalogStorageFormat(
            place, Option.empty(), Option.empty(), Option.empty(), false, options);
    return new CatalogTable(
        name,
        CatalogTableType.EXTERNAL(),
        storage,
        new StructType(),
        Option.apply(provider),
        Functions.seq(List.<String>of()),
        Option.empty(),
        "",
        0L,
        -1L,
        "",
        emptyMap(),
        Option.empty(),
        Option.empty(),
        Option.empty(),
        Functions.seq(List.<String>of()),
        false,
        true,
        emptyMap(),
        Option.empty());
  }
}
