package io.sluice.engine;

import java.io.Serializable;
import java.time.DateTimeException;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;

/**
 * A condition in a source's SQL that is true for the very rows for which Spark's own is; {@code
 * values} are its parameters. Made of comparisons with constants only, which fail for no row, so
 * that it may come before a filter that hides rows.
 *
 * @param isNullSafe whether it is NULL where Spark's is, and not false: only then it may be negated
 */
record SourceCondition(String sql, List<String> values, boolean isNullSafe)
    implements Serializable {
  private static final int MOST_IN = 1_000;
  private static final Map<String, String> TURNED =
      Map.of("=", "=", "<>", "<>", "<", ">", ">", "<", "<=", ">=", ">=", "<=");
  private static final DateTimeFormatter TIME =
      DateTimeFormatter.ofPattern("uuuu-MM-dd HH:mm:ss.SSSSSS");

  /** Null when the source may not mean the same. */
  static SourceCondition of(Predicate predicate, SourceTable table) {
    Expression[] parts = predicate.children();
    return switch (predicate.name()) {
      case "AND", "OR" -> joined(predicate, table);
      case "NOT" -> negated(parts[0] instanceof Predicate inner ? of(inner, table) : null);
      case "IS_NULL", "IS_NOT_NULL" -> nullTest(predicate, table);
      case "IN" -> in(parts, table);
      default -> TURNED.containsKey(predicate.name()) ? comparison(predicate, table) : null;
    };
  }

  private static SourceCondition joined(Predicate predicate, SourceTable table) {
    List<SourceCondition> all = new ArrayList<>();
    for (Expression part : predicate.children()) {
      SourceCondition made = part instanceof Predicate inner ? of(inner, table) : null;
      if (made == null) {
        return null;
      }
      all.add(made);
    }
    return join(all, predicate.name());
  }

  private static SourceCondition join(List<SourceCondition> all, String word) {
    List<String> values = new ArrayList<>();
    all.forEach(each -> values.addAll(each.values));
    String sql =
        all.stream().map(SourceCondition::sql).collect(
            Collectors.joining(") " + word + " (", "(", ")"));
    return new SourceCondition(sql, values, all.stream().allMatch(SourceCondition::isNullSafe));
  }

  private static SourceCondition negated(SourceCondition inner) {
    return inner == null || !inner.isNullSafe
        ? null
        : new SourceCondition("NOT (" + inner.sql + ")", inner.values, true);
  }

  private static SourceCondition nullTest(Predicate predicate, SourceTable table) {
    SourceColumn column = columnOf(predicate.children()[0], table);
    if (column == null) {
      return null;
    }
    String word = predicate.name().equals("IS_NULL") ? " IS NULL" : " IS NOT NULL";
    return new SourceCondition("(" + column.read() + ")" + word, List.of(), true);
  }

  private static SourceCondition in(Expression[] parts, SourceTable table) {
    if (parts.length < 2 || parts.length > MOST_IN) {
      return null;
    }
    List<SourceCondition> all = new ArrayList<>();
    for (int i = 1; i < parts.length; i++) {
      SourceCondition one = compared(columnOf(parts[0], table), "=", parts[i]);
      if (one == null) {
        return null;
      }
      all.add(one);
    }
    return join(all, "OR");
  }

  private static SourceCondition comparison(Predicate predicate, SourceTable table) {
    Expression left = predicate.children()[0];
    Expression right = predicate.children()[1];
    return left instanceof Literal<?>
        ? compared(columnOf(right, table), TURNED.get(predicate.name()), left)
        : compared(columnOf(left, table), predicate.name(), right);
  }

  private static SourceCondition compared(SourceColumn column, String sign, Expression constant) {
    boolean isEquality = sign.equals("=") || sign.equals("<>");
    if (column == null
        || column.compared().isEmpty()
        || !(column.isOrdered() || isEquality)
        || !(constant instanceof Literal<?> literal)) {
      return null;
    }
    String value = text(literal, column.type());
    if (value == null) {
      return null;
    }
    String each = column.isOrdered() ? sign : "=";
    String sql =
        column.compared().stream()
            .map(pair -> pair.raw() + " " + each + " " + pair.value())
            .collect(Collectors.joining(" AND "));
    List<String> values = column.compared().stream().map(pair -> value).toList();
    if (!column.isOrdered() && sign.equals("<>")) {
      sql = "NOT (" + sql + ")";
    }
    boolean isWhole = column.fits().isEmpty();
    return new SourceCondition(
        isWhole ? sql : sql + " AND (" + column.fits() + ")", values, isWhole);
  }

  private static SourceColumn columnOf(Expression expression, SourceTable table) {
    return expression instanceof NamedReference name && name.fieldNames().length == 1
        ? table.column(name.fieldNames()[0])
        : null;
  }

  /** A constant as the source reads it; null when it has no such form. */
  private static String text(Literal<?> literal, DataType type) {
    Object value = literal.value();
    boolean isSame =
        literal.dataType().equals(type)
            || literal.dataType() instanceof DecimalType && type instanceof DecimalType;
    if (value == null || !isSame) {
      return null;
    }
    try {
      if (type instanceof DateType) {
        LocalDate day = LocalDate.ofEpochDay(((Number) value).longValue());
        return inCalendar(day.getYear()) ? day.toString() : null;
      }
      if (type instanceof TimestampType || type instanceof TimestampNTZType) {
        return moment(((Number) value).longValue());
      }
    } catch (DateTimeException e) {
      return null;
    }
    String text =
        value instanceof org.apache.spark.sql.types.Decimal decimal
            ? decimal.toJavaBigDecimal().toPlainString()
            : value.toString();
    return text.indexOf('\0') < 0 ? text : null;
  }

  private static String moment(long micros) {
    long seconds = Math.floorDiv(micros, 1_000_000L);
    int nanos = (int) Math.floorMod(micros, 1_000_000L) * 1_000;
    LocalDateTime moment = LocalDateTime.ofEpochSecond(seconds, nanos, ZoneOffset.UTC);
    return inCalendar(moment.getYear()) ? TIME.format(moment) : null;
  }

  private static boolean inCalendar(int year) {
    return year >= 1 && year <= 9999;
  }
}
