package io.sluice.engine;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import scala.collection.Seq;

/** A statement's answer as a constant table in the shape that Spark's own command has. */
final class Answer {
  private Answer() {}

  @SuppressWarnings("unchecked")
  static LogicalPlan of(Seq<? extends Attribute> output, Object[]... rows) {
    return of(output, List.of(rows));
  }

  @SuppressWarnings("unchecked")
  static LogicalPlan of(Seq<? extends Attribute> output, List<Object[]> rows) {
    List<Row> made = new ArrayList<>();
    rows.forEach(row -> made.add(RowFactory.create(row)));
    return LocalRelation.fromExternalRows((Seq<Attribute>) output, Functions.seq(made));
  }

  /** Name, type and comment of each column, as DESCRIBE shows them to this session. */
  static List<Object[]> columnRows(SparkSession session, StructType schema) {
    List<Object[]> rows = new ArrayList<>();
    for (StructField field : schema.fields()) {
      String comment = field.getComment().isDefined() ? field.getComment().get() : null;
      rows.add(new Object[] {field.name(), typeName(session, field.dataType()), comment});
    }
    return rows;
  }

  static String typeName(SparkSession session, DataType type) {
    return (Settings.isForSpark(session) ? type : inHive(type)).simpleString();
  }

  /** Hive has one kind of timestamp; its clients know no type of another name. */
  private static DataType inHive(DataType type) {
    if (type instanceof TimestampNTZType) {
      return DataTypes.TimestampType;
    } else if (type instanceof ArrayType array) {
      return new ArrayType(inHive(array.elementType()), array.containsNull());
    } else if (type instanceof MapType map) {
      return new MapType(inHive(map.keyType()), inHive(map.valueType()), map.valueContainsNull());
    } else if (type instanceof StructType struct) {
      StructType made = new StructType();
      for (StructField field : struct.fields()) {
        made = made.add(field.name(), inHive(field.dataType()), field.nullable());
      }
      return made;
    }
    return type;
  }
}
