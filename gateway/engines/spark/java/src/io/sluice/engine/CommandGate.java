package io.sluice.engine;

import java.util.ArrayList;
import java.util.List;
import java.util.TreeSet;
import java.util.function.Consumer;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.analysis.FunctionRegistry;
import org.apache.spark.sql.catalyst.analysis.NoSuchDatabaseException;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute;
import org.apache.spark.sql.catalyst.analysis.UnresolvedNamespace;
import org.apache.spark.sql.catalyst.analysis.UnresolvedTable;
import org.apache.spark.sql.catalyst.analysis.UnresolvedTableOrView;
import org.apache.spark.sql.catalyst.plans.logical.DescribeColumn;
import org.apache.spark.sql.catalyst.plans.logical.DescribeNamespace;
import org.apache.spark.sql.catalyst.plans.logical.DescribeRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.SetCatalogAndNamespace;
import org.apache.spark.sql.catalyst.plans.logical.ShowColumns;
import org.apache.spark.sql.catalyst.plans.logical.ShowFunctions;
import org.apache.spark.sql.catalyst.plans.logical.ShowNamespaces;
import org.apache.spark.sql.catalyst.plans.logical.ShowTableExtended;
import org.apache.spark.sql.catalyst.plans.logical.ShowTables;
import org.apache.spark.sql.catalyst.plans.logical.ShowViews;
import org.apache.spark.sql.execution.command.ResetCommand;
import org.apache.spark.sql.execution.command.SetCommand;
import org.apache.spark.sql.execution.command.SetNamespaceCommand;
import org.apache.spark.sql.execution.command.ShowCatalogsCommand;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.Option;

/**
 * SHOW, DESCRIBE, USE and SET: rewritten into constant tables of what the principal may see, or
 * let through, or refused. What a user may not see is answered as what does not exist.
 */
final class CommandGate {
  private final SparkSession session;
  private final Policy policy;

  CommandGate(SparkSession session, Policy policy) {
    this.session = session;
    this.policy = policy;
  }

  LogicalPlan admit(LogicalPlan plan) {
    if (plan instanceof ShowCatalogsCommand show) {
      return showCatalogs(show);
    } else if (plan instanceof ShowTables show) {
      return showTables(show);
    } else if (plan instanceof ShowTableExtended show) {
      return showTableExtended(show);
    } else if (plan instanceof ShowNamespaces show) {
      return showDatabases(show);
    } else if (plan instanceof ShowViews show) {
      visibleDatabase(show.namespace());
      return Answer.of(show.output(), List.of());
    } else if (plan instanceof ShowFunctions show) {
      visibleDatabase(show.namespace());
      return Answer.of(show.output(), functions(show));
    } else if (plan instanceof ShowColumns show) {
      return showColumns(show);
    } else if (plan instanceof DescribeRelation describe) {
      return describe(describe);
    } else if (plan instanceof DescribeColumn describe) {
      return describeColumn(describe);
    } else if (plan instanceof DescribeNamespace describe) {
      return describeDatabase(describe);
    } else if (plan instanceof SetCatalogAndNamespace use) {
      return use(use);
    }
    LogicalPlan described = new TableDescriptions(session).admit(plan);
    return described == null ? admitUnchanged(plan) : described;
  }

  private LogicalPlan admitUnchanged(LogicalPlan plan) {
    if (plan instanceof SetNamespaceCommand use) {
      Engine.get().catalogue().ensureDatabase(visibleDatabase(Functions.list(use.namespace())));
    } else if (plan instanceof SetCommand set) {
      requireSettable(set);
    } else if (plan instanceof ResetCommand reset) {
      requireSettable(reset.config());
    } else if (!AllowedPlans.isCommand(plan.getClass())) {
      throw ParsedCheck.refused(plan);
    }
    return plan;
  }

  static void requireSettable(SetCommand set) {
    Option<String> key = set.kv().isDefined() ? Option.apply(set.kv().get()._1()) : Option.empty();
    requireSettable(key);
    if (set.kv().get()._2().isDefined()) {
      Settings.requireInRange(key.get(), set.kv().get()._2().get());
    }
  }

  private static void requireSettable(Option<String> key) {
    if (key.isEmpty() || !Settings.isSettable(key.get())) {
      throw Denied.forbidden("This setting is not open to SQL users.");
    }
  }

  private LogicalPlan showCatalogs(ShowCatalogsCommand show) {
    List<String> names = new ArrayList<>(List.of("lake", "spark_catalog"));
    names.addAll(Engine.get().catalogue().liveNames(policy, List.of()));
    List<Object[]> rows = new ArrayList<>();
    matching(names, show.pattern()).forEach(name -> rows.add(new Object[] {name}));
    return Answer.of(show.output(), rows);
  }

  /** What lies in a source, or in a database of one that is seen; it may be nothing. */
  private List<String> namesBelow(List<String> names) {
    List<String> found = Engine.get().catalogue().liveNames(policy, names);
    if (found.isEmpty() && !isListed(names)) {
      throw absent(names);
    }
    return found;
  }

  private boolean isListed(List<String> names) {
    int last = names.size() - 1;
    List<String> beside = Engine.get().catalogue().liveNames(policy, names.subList(0, last));
    String wanted = Words.lower(names.get(last));
    return beside.contains(names.get(last))
        || beside.stream().filter(name -> Words.lower(name).equals(wanted)).count() == 1;
  }

  private LogicalPlan showTables(ShowTables show) {
    List<String> named = withoutCatalog(namesOf(show.namespace()));
    boolean isLive = named.size() == 2;
    String database =
        isLive ? SourceTable.nameOf(named) : visibleDatabase(show.namespace());
    boolean isHive = isInHivesShape(show);
    List<Object[]> rows = new ArrayList<>();
    List<String> tables = isLive ? namesBelow(named) : tablesOf(database);
    for (String table : matching(tables, show.pattern())) {
      rows.add(isHive ? new Object[] {table} : new Object[] {database, table, false});
    }
    return isHive
        ? Answer.of(Functions.seq(List.of(show.output().apply(1))), rows)
        : Answer.of(show.output(), rows);
  }

  /** dbt finds by it what is there already; where it is refused, dbt sees an empty schema. */
  private LogicalPlan showTableExtended(ShowTableExtended show) {
    if (show.partitionSpec().isDefined()) {
      throw ParsedCheck.refused(show);
    }
    String database = visibleDatabase(show.namespace());
    List<String> tables = NamePattern.matching(tablesOf(database), show.pattern());
    TableFacts facts = TableFacts.of(policy, database, tables);
    List<Object[]> rows = new ArrayList<>();
    for (String table : tables) {
      rows.add(new Object[] {database, table, false, facts.of(table)});
    }
    return Answer.of(show.output(), rows);
  }

  /**
   * Hive has one column, Spark three. PyHive's dialect reads the first one; dbt, which uses PyHive
   * too, reads Spark's three, but always names a pattern.
   */
  private boolean isInHivesShape(ShowTables show) {
    String compat = Settings.compat(session);
    return compat.equals("hive") || compat.equals("pyhive") && show.pattern().isEmpty();
  }

  private LogicalPlan showDatabases(ShowNamespaces show) {
    List<String> named = withoutCatalog(namesOf(show.namespace()));
    if (named.size() > 1) {
      throw absent(named);
    }
    List<String> databases = named.isEmpty() ? lakeDatabases() : namesBelow(named);
    List<Object[]> rows = new ArrayList<>();
    matching(databases, show.pattern()).forEach(name -> rows.add(new Object[] {name}));
    return Answer.of(show.output(), rows);
  }

  private List<String> lakeDatabases() {
    List<String> databases = new ArrayList<>(Engine.get().catalogue().databases(policy));
    if (!databases.contains("default")) {
      databases.add(0, "default");
    }
    return databases;
  }

  private List<Object[]> functions(ShowFunctions show) {
    List<Object[]> rows = new ArrayList<>();
    if (show.systemScope()) { // nobody can make others
      TreeSet<String> names = new TreeSet<>();
      names.addAll(Functions.list(FunctionRegistry.builtinOperators().keys().toSeq()));
      var state = session.sessionState();
      Consumer<FunctionIdentifier> add = function -> names.add(function.funcName());
      state.functionRegistry().listFunction().foreach(Functions.of(add));
      state.tableFunctionRegistry().listFunction().foreach(Functions.of(add));
      matching(List.copyOf(names), show.pattern()).forEach(n -> rows.add(new Object[] {n}));
    }
    return rows;
  }

  private LogicalPlan showColumns(ShowColumns show) {
    List<String> name = new ArrayList<>(namesOfTable(show.child()));
    if (show.namespace().isDefined()) {
      String table = name.get(name.size() - 1);
      name = new ArrayList<>(Functions.list(show.namespace().get()));
      name.add(table);
    }
    List<Object[]> rows = new ArrayList<>();
    for (StructField field : schemaOf(name).fields()) {
      rows.add(new Object[] {field.name()});
    }
    return Answer.of(show.output(), rows);
  }

  private LogicalPlan describe(DescribeRelation describe) {
    if (!describe.partitionSpec().isEmpty()) {
      throw ParsedCheck.refused(describe);
    }
    List<String> name = namesOfTable(describe.relation());
    LogicalPlan found = TableDescriptions.analysed(session, name);
    List<Object[]> rows = Answer.columnRows(session, found.schema());
    if (describe.isExtended()) {
      SourceTable live = TableDescriptions.liveIn(found);
      List<String> plain = withoutCatalog(name);
      String table = plain.get(plain.size() - 1);
      String database = plain.size() > 1 ? plain.get(0) : currentDatabase();
      List<String> parts =
          live == null ? List.of("lake", Words.lower(database), Words.lower(table)) : live.parts();
      rows.add(new Object[] {"", "", ""});
      rows.add(new Object[] {"# Detailed Table Information", "", ""});
      rows.add(new Object[] {"Catalog", parts.get(0), ""});
      rows.add(new Object[] {"Database", parts.get(1), ""});
      rows.add(new Object[] {"Table", parts.get(2), ""});
      rows.add(new Object[] {"Type", "EXTERNAL", ""});
      rows.add(new Object[] {"Provider", live == null ? "hudi" : live.kind(), ""});
    }
    return Answer.of(describe.output(), rows);
  }

  private LogicalPlan describeColumn(DescribeColumn describe) {
    if (!(describe.column() instanceof UnresolvedAttribute column)) {
      throw ParsedCheck.refused(describe);
    }
    StructType schema = schemaOf(namesOfTable(describe.relation()));
    String wanted = column.nameParts().mkString(".");
    for (StructField field : schema.fields()) {
      if (field.name().equalsIgnoreCase(wanted)) {
        Object[] name = {"col_name", field.name()};
        Object[] type = {"data_type", Answer.typeName(session, field.dataType())};
        return Answer.of(describe.output(), name, type, new Object[] {"comment", "NULL"});
      }
    }
    throw Denied.forbidden("Column " + wanted + " does not exist in this table.");
  }

  private LogicalPlan describeDatabase(DescribeNamespace describe) {
    String database = visibleDatabase(describe.namespace());
    Object[] catalog = {"Catalog Name", "lake"};
    Object[] name = {"Namespace Name", database};
    return Answer.of(describe.output(), catalog, name, new Object[] {"Comment", ""});
  }

  private LogicalPlan use(SetCatalogAndNamespace use) {
    List<String> names = namesOf(use.child());
    if (names.size() == 1 && isLake(names.get(0))) {
      return use.copy(new UnresolvedNamespace(Functions.seq(List.of("spark_catalog"))));
    }
    List<String> plain = withoutCatalog(names);
    if (plain.size() == 2 && !Engine.get().catalogue().liveNames(policy, plain).isEmpty()) {
      throw Denied.unsupported("USE knows databases of the lake only. Of a live source write whole"
          + " names: " + SourceTable.nameOf(plain) + " and the table's.");
    }
    String database = visibleDatabase(names);
    Engine.get().catalogue().ensureDatabase(database);
    return use.copy(new UnresolvedNamespace(Functions.seq(List.of("spark_catalog", database))));
  }

  private String visibleDatabase(LogicalPlan namespace) {
    return visibleDatabase(namesOf(namespace));
  }

  private String visibleDatabase(List<String> names) {
    List<String> plain = withoutCatalog(names);
    if (plain.size() > 1) {
      throw absent(names);
    }
    String database = Words.lower(plain.isEmpty() ? currentDatabase() : plain.get(0));
    if (!database.equals("default") && tablesOf(database).isEmpty()) {
      throw absent(List.of(database));
    }
    return database;
  }

  private List<String> tablesOf(String database) {
    return Engine.get().catalogue().tables(policy, database);
  }

  private StructType schemaOf(List<String> name) {
    return TableDescriptions.analysed(session, name).schema();
  }

  private String currentDatabase() {
    return session.sessionState().catalog().getCurrentDatabase();
  }

  private static List<String> namesOf(LogicalPlan namespace) {
    if (namespace instanceof UnresolvedNamespace named) {
      return Functions.list(named.multipartIdentifier());
    }
    throw ParsedCheck.refused(namespace);
  }

  static List<String> namesOfTable(LogicalPlan relation) {
    if (relation instanceof UnresolvedTableOrView named) {
      return Functions.list(named.multipartIdentifier());
    }
    if (relation instanceof UnresolvedTable named) {
      return Functions.list(named.multipartIdentifier());
    }
    throw ParsedCheck.refused(relation);
  }

  private static List<String> withoutCatalog(List<String> names) {
    boolean hasCatalog = !names.isEmpty() && isLake(names.get(0));
    return hasCatalog ? names.subList(1, names.size()) : names;
  }

  static boolean isLake(String name) {
    return name.equalsIgnoreCase("lake") || name.equalsIgnoreCase("spark_catalog");
  }

  private static List<String> matching(List<String> names, Option<String> pattern) {
    if (pattern.isEmpty()) {
      return names;
    }
    return NamePattern.matching(names, pattern.get());
  }

  private static RuntimeException absent(List<String> names) {
    return Functions.<RuntimeException>raise(
        new NoSuchDatabaseException(String.join(".", names)));
  }
}
