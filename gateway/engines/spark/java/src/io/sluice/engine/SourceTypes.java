package io.sluice.engine;

import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Types;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;

/**
 * Whether a source's column still has a type whose values come as they are. Sources convert in
 * silence: a text becomes 0, a fraction is rounded, an hour is cut off.
 */
final class SourceTypes {
  private static final Set<Integer> WHOLE =
      Set.of(Types.TINYINT, Types.SMALLINT, Types.INTEGER, Types.BIGINT, Types.BIT, Types.BOOLEAN);
  private static final int DIGITS_OF_BIGINT = 20;
  private static final int MOST_PLACES = 1023;

  /** PostgreSQL's names of elements whose texts are values of a type. */
  private static final Map<String, Set<String>> ELEMENTS =
      Map.of(
          "boolean", Set.of("bool"),
          "integer", Set.of("int2", "int4"),
          "long", Set.of("int2", "int4", "int8", "oid"),
          "float", Set.of("float4"),
          "double", Set.of("float4", "float8"),
          "binary", Set.of("bytea"),
          "date", Set.of("date"),
          "timestamp", Set.of("timestamptz"),
          "timestamp_ntz", Set.of("timestamp"));

  private static final Set<String> BUILT_IN =
      Words.of(
          """
          bool int2 int4 int8 oid float4 float8 numeric money bytea date time timetz timestamp
          timestamptz interval text varchar bpchar json jsonb uuid
          """);

  private SourceTypes() {}

  /** {@code at}: the place of a column, as it is stored, in an answer of the source. */
  static boolean isExact(DataType planned, ResultSetMetaData now, int at) throws SQLException {
    int type = now.getColumnType(at);
    String name = now.getColumnTypeName(at);
    if (planned instanceof IntegerType || planned instanceof LongType) {
      boolean isOfBigint = now.isSigned(at) || name.equals("oid");
      return isWhole(type, name) && (type != Types.BIGINT || isOfBigint);
    } else if (planned instanceof BooleanType) {
      return type == Types.BIT || type == Types.BOOLEAN;
    } else if (planned instanceof DecimalType decimal) {
      return isWhole(type, name)
          ? decimal.precision() - decimal.scale() >= DIGITS_OF_BIGINT
          : isWithin(decimal, type, now.getPrecision(at), now.getScale(at));
    } else if (planned instanceof FloatType || planned instanceof DoubleType) {
      boolean isNarrow = type == Types.REAL || type == Types.FLOAT;
      return isNarrow || planned instanceof DoubleType && type == Types.DOUBLE;
    } else if (planned instanceof DateType) {
      return type == Types.DATE;
    } else if (planned instanceof TimestampType) {
      return name.equals("timestamptz") || name.equals("TIMESTAMP");
    } else if (planned instanceof TimestampNTZType) {
      return name.equals("timestamp") || name.equals("DATETIME");
    } else if (planned instanceof ArrayType array) {
      return type == Types.ARRAY && isExactElement(array.elementType(), now, at);
    }
    return true; // texts and bytes say what there is
  }

  /** Of a domain, as of any type that was made there, nothing tells what it stands for. */
  private static boolean isExactElement(DataType planned, ResultSetMetaData now, int at)
      throws SQLException {
    String name = now.getColumnTypeName(at).substring(1); // PostgreSQL's, as _int4
    if (planned instanceof StringType || !BUILT_IN.contains(name)) {
      return true;
    } else if (planned instanceof DecimalType decimal) {
      return name.equals("numeric")
          && isWithin(decimal, Types.NUMERIC, now.getPrecision(at), now.getScale(at));
    }
    return ELEMENTS.get(planned.typeName()).contains(name);
  }

  private static boolean isWhole(int type, String name) {
    return WHOLE.contains(type) || name.equals("BIT") || name.equals("YEAR");
  }

  private static boolean isWithin(DecimalType planned, int type, int precision, int scale) {
    boolean isDecimal = type == Types.NUMERIC || type == Types.DECIMAL;
    // a negative one, of eleven bits, which PostgreSQL's driver takes for a positive one
    int places = scale > MOST_PLACES ? scale - 2 * (MOST_PLACES + 1) : scale;
    // PostgreSQL's numeric without limits has precision 0
    return isDecimal
        && precision > 0
        && places <= planned.scale()
        && precision - places <= planned.precision() - planned.scale();
  }
}
