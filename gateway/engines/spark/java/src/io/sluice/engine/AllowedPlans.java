package io.sluice.engine;

import java.util.Set;

/** Which plan nodes and commands a statement may consist of: an allow-list by class. */
final class AllowedPlans {
  private static final String LOGICAL = "org.apache.spark.sql.catalyst.plans.logical.";
  private static final String ANALYSIS = "org.apache.spark.sql.catalyst.analysis.";
  private static final String COMMAND = "org.apache.spark.sql.execution.command.";

  /** Nodes of queries, resolved. {@code LogicalRelation} is judged apart: by its table. */
  private static final Set<String> QUERY =
      Words.of(
          """
          Aggregate CTERelationDef CTERelationRef Distinct Except Expand Filter Generate
          GlobalLimit Intersect Join LateralJoin LocalLimit LocalRelation Offset OneRowRelation
          Project Range RebalancePartitions Repartition RepartitionByExpression ResolvedHint
          Sample Sort SubqueryAlias Union Window WithCTE
          """);

  /** Further nodes of parsed queries; analysis replaces them. */
  private static final Set<String> PARSED =
      Words.of(
          """
          Pivot TimeTravelRelation UnresolvedHint UnresolvedWith Unpivot WithWindowDefinition
          """);

  private static final Set<String> PARSED_ANALYSIS =
      Words.of(
          """
          RelationTimeTravel UnresolvedHaving UnresolvedInlineTable UnresolvedRelation
          UnresolvedSubqueryColumnAliases UnresolvedTVFAliases UnresolvedTableValuedFunction
          """);

  /** Commands that run as Spark wrote them; every other command is rewritten or refused. */
  private static final Set<String> COMMANDS =
      Words.of(
          """
          DescribeFunctionCommand ResetCommand SetCatalogCommand SetCommand SetNamespaceCommand
          ShowCatalogsCommand ShowCurrentNamespaceCommand ShowFunctionsCommand
          """);

  private static final Set<String> LOGICAL_COMMANDS =
      Words.of("DescribeFunction SetCatalogAndNamespace ShowFunctions");

  private AllowedPlans() {}

  static boolean isQuery(Class<?> node) {
    return isIn(QUERY, LOGICAL, node);
  }

  static boolean isParsedQuery(Class<?> node) {
    return isQuery(node) || isIn(PARSED, LOGICAL, node) || isIn(PARSED_ANALYSIS, ANALYSIS, node);
  }

  static boolean isCommand(Class<?> node) {
    return isIn(COMMANDS, COMMAND, node) || isIn(LOGICAL_COMMANDS, LOGICAL, node);
  }

  private static boolean isIn(Set<String> names, String prefix, Class<?> node) {
    String name = node.getName();
    return name.startsWith(prefix)
        && names.contains(Words.withoutModuleSign(name.substring(prefix.length())));
  }
}
