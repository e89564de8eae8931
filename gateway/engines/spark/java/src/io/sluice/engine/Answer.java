package io.sluice.engine;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
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

  /** Name, type and comment of each column, as DESCRIBE shows them. */
  static LogicalPlan columns(Seq<? extends Attribute> output, StructType schema) {
    return of(output, columnRows(schema));
  }

  static List<Object[]> columnRows(StructType schema) {
    List<Object[]> rows = new ArrayList<>();
    for (StructField field : schema.fields()) {
      String comment = field.getComment().isDefined() ? field.getComment().get() : null;
      rows.add(new Object[] {field.name(), field.dataType().simpleString(), comment});
    }
    return rows;
  }
}
