package io.sluice.engine;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.analysis.GetColumnByOrdinal;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute;
import org.apache.spark.sql.catalyst.analysis.UnresolvedStar;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.logical.GlobalLimit;
import org.apache.spark.sql.catalyst.plans.logical.LocalLimit;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Sort;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.catalyst.plans.logical.UnresolvedWith;
import org.apache.spark.sql.types.StructField;

/**
 * Leaves Hudi's and Sluice's own columns out of what a {@code SELECT *} shows. Such columns that
 * the statement names itself stay.
 */
final class MetaColumns {
  private MetaColumns() {}

  static LogicalPlan hiddenIn(SparkSession session, LogicalPlan plan) {
    Project shown = selectOf(plan);
    if (shown == null || !hasStar(shown)) {
      return plan;
    }
    Set<String> named = namedIn(shown);
    StructField[] fields = StatementGate.analyse(session, plan).analyzed().schema().fields();
    List<NamedExpression> kept = new ArrayList<>();
    for (int i = 0; i < fields.length; i++) {
      String name = fields[i].name();
      if (!isMeta(name) || named.contains(Words.lower(name))) {
        kept.add(column(i, fields[i]));
      }
    }
    boolean isNothingLost = kept.isEmpty() || kept.size() == fields.length;
    return isNothingLost ? plan : new Project(Functions.seq(kept), plan);
  }

  /** By place: two tables of a join have these names both. */
  private static NamedExpression column(int place, StructField field) {
    return new Alias(
        new GetColumnByOrdinal(place, field.dataType()),
        field.name(),
        NamedExpression.newExprId(),
        Functions.seq(List.of()),
        scala.Option.empty(),
        Functions.seq(List.of()));
  }

  /** The outermost SELECT, whose list is the statement's; null when there is another end. */
  private static Project selectOf(LogicalPlan plan) {
    LogicalPlan at = plan;
    while (at instanceof GlobalLimit
        || at instanceof LocalLimit
        || at instanceof Sort
        || at instanceof Union
        || at instanceof UnresolvedWith) {
      at = at.children().apply(0);
    }
    return at instanceof Project project ? project : null;
  }

  private static boolean hasStar(Project select) {
    return Functions.list(select.projectList()).stream().anyMatch(UnresolvedStar.class::isInstance);
  }

  private static Set<String> namedIn(Project select) {
    Set<String> names = new HashSet<>();
    for (NamedExpression item : Functions.list(select.projectList())) {
      if (item instanceof Alias alias) {
        names.add(Words.lower(alias.name()));
      } else if (item instanceof UnresolvedAttribute attribute) {
        names.add(Words.lower(attribute.nameParts().last()));
      }
    }
    return names;
  }

  private static boolean isMeta(String name) {
    String lower = Words.lower(name);
    return lower.startsWith("_hoodie_") || lower.startsWith("_sluice_");
  }
}
