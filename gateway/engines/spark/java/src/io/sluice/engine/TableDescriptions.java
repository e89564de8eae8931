package io.sluice.engine;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.logical.Distinct;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.ShowCreateTable;
import org.apache.spark.sql.catalyst.plans.logical.ShowPartitions;
import org.apache.spark.sql.catalyst.plans.logical.ShowTableProperties;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * SHOW CREATE TABLE, SHOW TBLPROPERTIES and SHOW PARTITIONS, made of what a user may know of a
 * table: its columns and its rows, never where or how it is stored.
 */
final class TableDescriptions {
  private static final String PARTITION_PATH = "_hoodie_partition_path";
  private final SparkSession session;

  TableDescriptions(SparkSession session) {
    this.session = session;
  }

  /** The rewritten statement, or null when it is none of the three. */
  LogicalPlan admit(LogicalPlan plan) {
    if (plan instanceof ShowCreateTable show && !show.asSerde()) {
      return Answer.of(show.output(), new Object[] {definitionOf(show.child())});
    } else if (plan instanceof ShowTableProperties show) {
      return properties(show);
    } else if (plan instanceof ShowPartitions show) {
      return partitions(show);
    }
    return null;
  }

  /** A table as a query finds it, for its description: no right to read is needed. */
  static LogicalPlan analysed(SparkSession session, List<String> name) {
    return PlanCheck.describing(
        () -> StatementGate.analyse(session, relation(name)).analyzed());
  }

  /** The source's table that a description is of; null for one of the lake. */
  static SourceTable liveIn(LogicalPlan analysed) {
    for (LogicalPlan leaf : Functions.list(analysed.collectLeaves())) {
      SourceTable live = SourceRelation.in(leaf);
      if (live != null) {
        return live;
      }
    }
    return null;
  }

  private String definitionOf(LogicalPlan table) {
    List<String> name = CommandGate.namesOfTable(table);
    LogicalPlan found = analysed(session, name);
    List<String> columns = new ArrayList<>();
    for (StructField field : found.schema().fields()) {
      columns.add("  " + quoted(field.name()) + " " + field.dataType().sql());
    }
    String shown = name.stream().map(TableDescriptions::quoted).collect(Collectors.joining("."));
    String partitions = partitionColumns(found);
    SourceTable live = liveIn(found);
    return "CREATE TABLE "
        + shown
        + " (\n"
        + String.join(",\n", columns)
        + ")\nUSING "
        + (live == null ? "hudi" : live.kind())
        + "\n"
        + (partitions.isEmpty() ? "" : "PARTITIONED BY (" + partitions + ")\n");
  }

  private LogicalPlan properties(ShowTableProperties show) {
    LogicalPlan found = analysed(session, CommandGate.namesOfTable(show.table()));
    List<Object[]> rows = new ArrayList<>();
    rows.add(new Object[] {"partition_columns", partitionColumns(found)});
    SourceTable live = liveIn(found);
    rows.add(new Object[] {"provider", live == null ? "hudi" : live.kind()});
    rows.add(new Object[] {"type", live == null ? "mor" : "live"});
    if (show.propertyKey().isDefined()) {
      rows.removeIf(row -> !row[0].equals(show.propertyKey().get()));
    }
    return Answer.of(show.output(), rows);
  }

  /** A query, so that it needs the right to read. */
  private LogicalPlan partitions(ShowPartitions show) {
    if (show.pattern().isDefined()) {
      throw Denied.forbidden("SHOW PARTITIONS takes no PARTITION clause here. Use SELECT.");
    }
    List<String> name = CommandGate.namesOfTable(show.table());
    LogicalPlan readable = StatementGate.analyse(session, relation(name)).analyzed();
    if (partitionColumns(readable).isEmpty()) {
      throw Denied.notPartitioned(String.join(".", name));
    }
    NamedExpression path =
        new Alias(
            UnresolvedAttribute.quoted(PARTITION_PATH),
            "partition",
            NamedExpression.newExprId(),
            Functions.seq(List.of()),
            scala.Option.empty(),
            Functions.seq(List.of()));
    return new Distinct(new Project(Functions.seq(List.of(path)), relation(name)));
  }

  /** As Hudi found them in the table; the catalogue's entry knows none. */
  private static String partitionColumns(LogicalPlan analysed) {
    for (LogicalPlan leaf : Functions.list(analysed.collectLeaves())) {
      if (leaf instanceof LogicalRelation table
          && table.relation() instanceof HadoopFsRelation files) {
        Set<String> visible = Set.of(analysed.schema().names());
        String[] names = files.partitionSchema().names();
        return Arrays.stream(names).filter(visible::contains).map(TableDescriptions::quoted).collect(Collectors.joining(", "));
      }
    }
    return "";
  }

  private static UnresolvedRelation relation(List<String> name) {
    return new UnresolvedRelation(Functions.seq(name), CaseInsensitiveStringMap.empty(), false);
  }

  private static String quoted(String name) {
    return name.matches("[A-Za-z_][A-Za-z0-9_]{0,254}") ? name : "`" + name.replace("`", "``") + "`";
  }
}
