package io.sluice.engine;

import java.math.BigDecimal;
import java.sql.ResultSet;
import java.sql.SQLException;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.EvalMode;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Option;

/** Takes a column of a source's answer as a load does: see {@code cast_to_lake} there. */
interface SourceValue {
  /** Spark's own value; null for NULL. */
  Object read(ResultSet rows, int place) throws SQLException;

  static SourceValue of(DataType type) {
    if (type instanceof StringType) {
      return (rows, at) -> UTF8String.fromString(rows.getString(at));
    } else if (type instanceof BinaryType) {
      return ResultSet::getBytes;
    } else if (type instanceof DecimalType decimal) {
      return (rows, at) -> decimal(rows.getBigDecimal(at), decimal);
    } else if (type instanceof ArrayType array) {
      return arrayOf(array.elementType());
    }
    SourceValue plain = plain(type);
    return (rows, at) -> {
      Object value = plain.read(rows, at);
      return rows.wasNull() ? null : value;
    };
  }

  /** Dates travel as days, timestamps as microseconds. */
  private static SourceValue plain(DataType type) {
    if (type instanceof BooleanType) {
      return ResultSet::getBoolean;
    } else if (type instanceof IntegerType || type instanceof DateType) {
      return ResultSet::getInt;
    } else if (type instanceof FloatType) {
      return (rows, at) -> (float) rows.getDouble(at);
    } else if (type instanceof DoubleType) {
      return ResultSet::getDouble;
    }
    return ResultSet::getLong;
  }

  private static Decimal decimal(BigDecimal value, DecimalType type) {
    if (value == null || value.precision() - value.scale() > type.precision() - type.scale()) {
      return null;
    }
    return Decimal.apply(value, type.precision(), type.scale());
  }

  /** Elements travel as text, that of bytes in hexadecimal behind {@code \x}. */
  private static SourceValue arrayOf(DataType element) {
    boolean isBytes = element instanceof BinaryType;
    Expression texts = new BoundReference(0, DataTypes.createArrayType(DataTypes.StringType), true);
    Expression cast =
        new Cast(texts, new ArrayType(element, true), Option.apply("UTC"), EvalMode.TRY());
    return (rows, at) -> {
      java.sql.Array array = rows.getArray(at);
      if (array == null) {
        return null;
      }
      Object[] given = (Object[]) array.getArray();
      Object[] items = new Object[given.length];
      for (int i = 0; i < items.length; i++) {
        String text = (String) given[i];
        items[i] = isBytes ? bytes(text) : UTF8String.fromString(text);
      }
      ArrayData made = new GenericArrayData(items);
      return isBytes ? made : cast.eval(new GenericInternalRow(new Object[] {made}));
    };
  }

  private static byte[] bytes(String text) {
    return text == null ? null : java.util.HexFormat.of().parseHex(text.substring(2));
  }
}
