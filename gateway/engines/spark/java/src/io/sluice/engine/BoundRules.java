package io.sluice.engine;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.function.Supplier;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.TryEval;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Option;

/**
 * The conditions and masks of rules as expressions over one table. Each is analysed once per
 * schema in a session that nobody can set: its time zone is UTC, and what cannot be computed is
 * NULL, which hides the row or the value, and is no error that would tell of them.
 */
final class BoundRules {
  /** Characters of expressions, and as many of a schema as it may have. */
  private static final long KEPT = 8L << 20;

  private static final int OF_A_COLUMN = 50;

  private record Key(String text, DataType type, StructType schema) {}

  private static final WeighedCache<Key, Expression> BOUND = new WeighedCache<>(KEPT);
  private final SparkSession neutral;
  private final LogicalRelation relation;

  BoundRules(SparkSession neutral, LogicalRelation relation) {
    this.neutral = neutral;
    this.relation = relation;
  }

  Expression condition(String text) {
    Expression found = onRelation(bound(text, null));
    if (!(found.dataType() instanceof BooleanType)) {
      throw undecided();
    }
    return found;
  }

  /** Of the type of its column. */
  Expression mask(Attribute column, TableRights.Mask mask) {
    return onRelation(bound(maskText(column, mask), column.dataType()));
  }

  /** The names of a table's columns as they are now. */
  static List<String> columnsOf(SparkSession neutral, TableIdentifier table) {
    List<String> name = List.of(table.database().get(), table.table());
    LogicalPlan read =
        new UnresolvedRelation(Functions.seq(name), CaseInsensitiveStringMap.empty(), false);
    return inside(
        neutral, () -> List.of(StatementGate.analyse(neutral, read).analyzed().schema().names()));
  }

  private static String maskText(Attribute column, TableRights.Mask mask) {
    String name = "`" + column.name().replace("`", "``") + "`";
    DataType type = column.dataType();
    boolean isText = type instanceof StringType;
    return switch (mask.kind()) {
      case "expression" -> mask.text();
      case "redact" -> isText ? "if(" + name + " is null, null, '***')" : "null";
      case "hash" -> isText ? "sha2(concat('" + mask.text() + "', " + name + "), 256)" : "null";
      case "partial" -> isText ? partial(name) : "null";
      case "year" -> year(name, type);
      default -> "null";
    };
  }

  /** The last four characters of eight and more. */
  private static String partial(String name) {
    return "case when " + name + " is null then null when length(" + name
        + ") >= 8 then concat('****', right(" + name + ", 4)) else '****' end";
  }

  private static String year(String name, DataType type) {
    if (type instanceof DateType) {
      return "trunc(" + name + ", 'YEAR')";
    }
    boolean isTime = type instanceof TimestampType || type instanceof TimestampNTZType;
    return isTime ? "date_trunc('YEAR', " + name + ")" : "null";
  }

  private Expression bound(String text, DataType type) {
    Key key = new Key(text, type, relation.schema());
    Expression known = BOUND.get(key);
    if (known != null) {
      return known;
    }
    Expression made = inside(neutral, () -> analysed(text, type));
    BOUND.put(key, made, text.length() + (long) OF_A_COLUMN * relation.schema().length());
    return made;
  }

  private Expression analysed(String text, DataType type) {
    try {
      StatementBounds.require(text);
      Expression parsed = neutral.sessionState().sqlParser().parseExpression(text);
      Expression typed = type == null ? parsed : new Column(parsed).cast(type).expr();
      List<Attribute> columns = new ArrayList<>();
      Functions.list(relation.output()).forEach(column -> columns.add(column.newInstance()));
      LogicalPlan table =
          new LocalRelation(Functions.seq(columns), Functions.seq(List.of()), false);
      LogicalPlan plan = new Project(Functions.seq(List.of(named(typed))), table);
      new ParsedCheck().walk(plan);
      LogicalPlan analysed = StatementGate.analyse(neutral, plan).analyzed();
      Expression value = ((Alias) ((Project) analysed).projectList().apply(0)).child();
      boolean isOfOneRow = ((Project) analysed).child() instanceof LocalRelation;
      if (!isOfOneRow || !value.deterministic() || hasSubquery(value)) {
        throw undecided();
      }
      return NeverFails.inside(value) ? value : new TryEval(value);
    } catch (Exception e) {
      throw undecided();
    }
  }

  private static boolean hasSubquery(Expression value) {
    return value.containsAnyPattern(
        Functions.seq(
            List.of(
                org.apache.spark.sql.catalyst.trees.TreePattern.PLAN_EXPRESSION(),
                org.apache.spark.sql.catalyst.trees.TreePattern.OUTER_REFERENCE())));
  }

  private static NamedExpression named(Expression value) {
    return new Alias(
        value,
        "rule",
        NamedExpression.newExprId(),
        Functions.seq(List.of()),
        Option.empty(),
        Functions.seq(List.of()));
  }

  /** The columns of a bound expression exchanged for those of this relation. */
  private Expression onRelation(Expression bound) {
    Map<String, AttributeReference> here = new HashMap<>();
    for (AttributeReference column : Functions.list(relation.output())) {
      here.put(Words.lower(column.name()), column);
    }
    return (Expression)
        bound.transform(
            Functions.partial(
                (Expression one) ->
                    one instanceof AttributeReference column
                        ? Objects.requireNonNull(here.get(Words.lower(column.name())))
                        : null));
  }

  /** Runs with the neutral session's settings, whatever the statement's session has. */
  static <T> T inside(SparkSession neutral, Supplier<T> work) {
    Option<SparkSession> before = SparkSession.getActiveSession();
    SparkSession.setActiveSession(neutral);
    try {
      return work.get();
    } finally {
      if (before.isDefined()) {
        SparkSession.setActiveSession(before.get());
      } else {
        SparkSession.clearActiveSession();
      }
    }
  }

  Denied undecided() {
    SourceTable live = SourceRelation.in(relation);
    TableIdentifier name = relation.catalogTable().get().identifier();
    return Denied.undecided(
        live == null ? name.database().get() + "." + name.table() : live.name());
  }
}
