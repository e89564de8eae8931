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
    CatalogStorageFormat storage =
        new CatalogStorageFormat(
            Option.apply(place), Option.empty(), Option.empty(), Option.empty(), false, options);
    return new CatalogTable(
        name,
        CatalogTableType.EXTERNAL(),
        storage,
        new StructType(),
        Option.apply("hudi"),
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
