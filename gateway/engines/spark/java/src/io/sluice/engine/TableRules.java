package io.sluice.engine;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.hudi.HoodieFileIndex;
import org.apache.hudi.common.table.HoodieTableConfig;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.AliasIdentifier;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import scala.Option;

/**
 * Puts each table below what its reader's rights leave of it, before {@code *} and any name above
 * is resolved: a column that is not granted is not there to be found.
 */
final class TableRules extends Rule<LogicalPlan> {
  /** Columns of ours and Hudi's that tell nothing of a row's values. */
  private static final Set<String> WITHOUT_VALUES =
      Set.of("_hoodie_commit_time", "_hoodie_commit_seqno", "_sluice_seq", "_sluice_deleted");

  /** Columns with the values of keys and partitions in them. */
  private static final Set<String> WITH_KEYS =
      Set.of("_hoodie_record_key", "_hoodie_partition_path", "_hoodie_file_name");

  private final SparkSession session;

  TableRules(SparkSession session) {
    this.session = session;
  }

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    if (Engine.owns(session)) {
      return plan;
    }
    return guarded(plan, Engine.get().policyOf(session));
  }

  private static LogicalPlan guarded(LogicalPlan plan, Policy policy) {
    if (plan instanceof Guarded) {
      return plan;
    }
    if (plan instanceof SubqueryAlias alias && SourceRelation.in(alias.child()) != null) {
      List<String> parts = SourceRelation.in(alias.child()).parts();
      AliasIdentifier name =
          new AliasIdentifier(parts.get(2), Functions.seq(parts.subList(0, 2)));
      return new SubqueryAlias(name, guarded(alias.child(), policy));
    }
    if (plan instanceof LogicalRelation relation) {
      TableRights rights = rightsOn(relation, policy);
      return rights.isWhole() ? plan : new Guarded(limited(relation, rights), rights);
    }
    return (LogicalPlan) plan.mapChildren(child -> guarded(child, policy));
  }

  /** What limits the policy's principal on that table. */
  static TableRights rightsOn(LogicalRelation relation, Policy policy) {
    if (relation.catalogTable().isEmpty()) {
      return TableRights.WHOLE; // The check of the plan refuses it.
    }
    SourceTable live = SourceRelation.in(relation);
    if (live != null) {
      return policy.on(live);
    }
    TableIdentifier name = relation.catalogTable().get().identifier();
    return policy.on(Words.lower(name.database().getOrElse(() -> "")), Words.lower(name.table()));
  }

  private static LogicalPlan limited(LogicalRelation relation, TableRights rights) {
    BoundRules bound = new BoundRules(Engine.get().neutral(), relation);
    LogicalPlan rows = relation;
    for (String filter : rights.filters()) {
      rows = new Filter(bound.condition(filter), rows);
    }
    Set<String> known = knownNow(relation, rights);
    if (!(known == null ? namesOf(relation) : known).containsAll(rights.masks().keySet())) {
      throw bound.undecided(); // What it masked may be there under another name.
    }
    boolean showsKeys = showsKeys(relation, rights);
    List<NamedExpression> shown = new ArrayList<>();
    for (AttributeReference column : Functions.list(relation.output())) {
      String name = Words.lower(column.name());
      if (known != null && !known.contains(name) || !isShown(name, rights, showsKeys)) {
        continue;
      }
      TableRights.Mask mask = rights.masks().get(name);
      shown.add(mask == null ? column : masked(column, bound.mask(column, mask)));
    }
    return new Project(Functions.seq(shown), rows);
  }

  private static boolean isShown(String name, TableRights rights, boolean showsKeys) {
    if (WITHOUT_VALUES.contains(name)) {
      return true;
    }
    if (WITH_KEYS.contains(name)) {
      return showsKeys;
    }
    boolean isMadeOfOthers = name.startsWith("_sluice_") || name.startsWith("_hoodie_");
    if (isMadeOfOthers && rights.columns() == null) {
      return rights.masks().isEmpty();
    }
    return !rights.isHidden(name);
  }

  private static boolean showsKeys(LogicalRelation relation, TableRights rights) {
    if (rights.columns() == null && rights.masks().isEmpty()) {
      return true;
    }
    if (!(relation.relation() instanceof HadoopFsRelation files)
        || !(files.location() instanceof HoodieFileIndex index)) {
      return false;
    }
    HoodieTableConfig config = index.metaClient().getTableConfig();
    List<String> fields = new ArrayList<>();
    fields.addAll(List.of(config.getRecordKeyFields().orElse(new String[] {"?"})));
    fields.addAll(List.of(config.getPartitionFields().orElse(new String[0])));
    return fields.stream().allMatch(field -> rights.isPlain(Words.lower(field)));
  }

  /**
   * The table's columns of today, for an older state of a table with masks: under another name a
   * column could show what is masked by now. Null when nothing hangs on it.
   */
  private static Set<String> knownNow(LogicalRelation relation, TableRights rights) {
    boolean isOlder =
        relation.relation() instanceof HadoopFsRelation files
            && files.options().contains("as.of.instant");
    if (rights.masks().isEmpty() || !isOlder) {
      return null;
    }
    TableIdentifier table = relation.catalogTable().get().identifier();
    Set<String> names = new HashSet<>();
    for (String name : BoundRules.columnsOf(Engine.get().neutral(), table)) {
      names.add(Words.lower(name));
    }
    return names;
  }

  private static Set<String> namesOf(LogicalRelation relation) {
    Set<String> names = new HashSet<>();
    for (AttributeReference column : Functions.list(relation.output())) {
      names.add(Words.lower(column.name()));
    }
    return names;
  }

  private static NamedExpression masked(AttributeReference column, Expression value) {
    return new Alias(
        value,
        column.name(),
        NamedExpression.newExprId(),
        column.qualifier(),
        Option.empty(),
        Functions.seq(List.of()));
  }
}
