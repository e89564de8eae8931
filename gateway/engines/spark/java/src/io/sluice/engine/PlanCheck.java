package io.sluice.engine;

import java.util.Arrays;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.Set;
import java.util.function.Supplier;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.RuntimeReplaceable;
import org.apache.spark.sql.catalyst.expressions.objects.Invoke;
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke;
import org.apache.spark.sql.catalyst.plans.logical.Command;
import org.apache.spark.sql.catalyst.plans.logical.DeserializeToObject;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.CommandResult;
import org.apache.spark.sql.execution.command.SetCommand;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructType;

/**
 * The authority: judges the analysed plan of one statement by allow-lists, default deny. A table
 * may be read if the catalogue gave it a name and the policy grants select on that name; one with
 * rules, or of which only some columns are granted, only below a {@link Guarded}.
 */
final class PlanCheck extends PlanWalk {
  /** Set while the Guard itself asks for a table's columns: seeing is then enough. */
  private static final ThreadLocal<Boolean> DESCRIBING = ThreadLocal.withInitial(() -> false);

  private final Policy policy;

  /** The tables met below a node that leaves of them what the rights of now allow. */
  private final Set<LogicalPlan> limited = Collections.newSetFromMap(new IdentityHashMap<>());

  PlanCheck(Policy policy) {
    this.policy = policy;
  }

  static <T> T describing(Supplier<T> analysis) {
    DESCRIBING.set(true);
    try {
      return analysis.get();
    } finally {
      DESCRIBING.set(false);
    }
  }

  void check(LogicalPlan plan) {
    walk(plan);
    plan.output().foreach(Functions.of(PlanCheck::requireFields));
    Statement statement = Statement.here();
    if (statement != null && !DESCRIBING.get()) {
      statement.reads(plan, policy.version());
    }
  }

  @Override
  boolean enter(LogicalPlan node) {
    if (node instanceof CommandResult) {
      return false; // Holds rows of a command that was checked before it ran.
    }
    if (isDecoder(node)) {
      return false;
    }
    if (node instanceof Guarded guarded) {
      enterGuarded(guarded);
      return true;
    }
    if (node instanceof LogicalRelation relation) {
      requireReadable(relation);
      return false;
    }
    if (node instanceof Command) {
      return enterCommand(node);
    }
    if (!AllowedPlans.isQuery(node.getClass())) {
      throw ParsedCheck.refused(node);
    }
    PartBounds.require(node);
    return true;
  }

  /** Spark turns result rows into objects through a plan over a relation without rows. */
  private static boolean isDecoder(LogicalPlan node) {
    return node instanceof DeserializeToObject decoder
        && decoder.child() instanceof LocalRelation relation
        && relation.data().isEmpty();
  }

  private static boolean enterCommand(LogicalPlan node) {
    if (!AllowedPlans.isCommand(node.getClass())) {
      throw ParsedCheck.refused(node);
    }
    if (node instanceof SetCommand set) {
      CommandGate.requireSettable(set);
    }
    return false; // Their children are names, not data.
  }

  /** The rights that it was made by must still be its reader's. */
  private void enterGuarded(Guarded guarded) {
    LogicalRelation relation = guarded.relation();
    if (relation == null) {
      throw ParsedCheck.refused(guarded);
    }
    if (guarded.rights().equals(TableRules.rightsOn(relation, policy))) {
      limited.add(relation);
    }
  }

  private void requireReadable(LogicalRelation relation) {
    if (relation.catalogTable().isEmpty()) {
      throw Denied.forbidden("Only tables of the catalogue can be read.");
    }
    SourceTable live = SourceRelation.in(relation);
    String name = live == null ? requireOpen(relation) : requireOpen(live);
    if (!TableRules.rightsOn(relation, policy).isWhole() && !limited.contains(relation)) {
      throw Denied.noPolicy("Your rights on " + name + " have just changed.");
    }
    relation.output().foreach(Functions.of(PlanCheck::requireData));
  }

  private String requireOpen(LogicalRelation relation) {
    TableIdentifier name = relation.catalogTable().get().identifier();
    String database = Words.lower(name.database().isDefined() ? name.database().get() : "");
    String table = Words.lower(name.table());
    boolean isOpen =
        DESCRIBING.get() ? policy.maySee(database, table) : policy.maySelect(database, table);
    if (!isOpen) {
      throw Denied.privilege("select", database + "." + table);
    }
    return database + "." + table;
  }

  private String requireOpen(SourceTable live) {
    if (!(DESCRIBING.get() ? policy.maySee(live) : policy.maySelect(live))) {
      throw Denied.privilege("select", live.name());
    }
    return live.name();
  }

  @Override
  void judge(Expression expression, Expression parent) {
    requireData(expression);
    boolean isReplacement =
        parent instanceof RuntimeReplaceable
            && (expression instanceof StaticInvoke || expression instanceof Invoke);
    if (!isReplacement && !AllowedExpressions.isAllowed(expression.getClass())) {
      throw Denied.forbidden(
          "Expression " + Denied.words(expression) + " is not open to SQL users.");
    }
  }

  /** Spark finds no way to hand such a column out, and says so in words of its own. */
  private static void requireFields(Attribute column) {
    if (!hasField(column.dataType())) {
      throw Denied.unsupported(
          "A result cannot have " + column.name() + ", which is a struct without fields.");
    }
  }

  private static boolean hasField(DataType type) {
    return !(type instanceof StructType struct)
        || Arrays.stream(struct.fields()).anyMatch(field -> hasField(field.dataType()));
  }

  /** Hidden metadata columns tell where files lie. */
  private static void requireData(Expression expression) {
    if (expression instanceof AttributeReference column) {
      Metadata metadata = column.metadata();
      boolean isSparkMetadata =
          metadata.contains("__metadata_col") && !column.name().startsWith("_hoodie_");
      if (isSparkMetadata || metadata.contains("__file_source_metadata_col")) {
        throw Denied.forbidden("Column " + column.name() + " is not open to SQL users.");
      }
    }
  }
}
