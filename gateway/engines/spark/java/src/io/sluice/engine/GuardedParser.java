package io.sluice.engine;

import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import scala.collection.Seq;

/** Spark's parser followed, for statements of clients, by the {@link StatementGate}. */
final class GuardedParser implements ParserInterface {
  private final SparkSession session;
  private final ParserInterface parser;

  GuardedParser(SparkSession session, ParserInterface parser) {
    this.session = session;
    this.parser = parser;
  }

  @Override
  public LogicalPlan parsePlan(String text) throws ParseException {
    if (Engine.owns(session)) {
      return parser.parsePlan(text);
    }
    Policy policy = policyAfterChecks();
    StatementBounds.require(text);
    try {
      return new StatementGate(session, policy).admit(parser.parsePlan(text));
    } catch (StackOverflowError e) {
      throw Denied.tooDeep();
    }
  }

  @Override
  public LogicalPlan parseQuery(String text) throws ParseException {
    if (Engine.owns(session)) {
      return parser.parseQuery(text);
    }
    Policy policy = policyAfterChecks();
    StatementBounds.require(text);
    try {
      return new StatementGate(session, policy).admit(parser.parseQuery(text));
    } catch (StackOverflowError e) {
      throw Denied.tooDeep();
    }
  }

  /** Refuses before the text is read: parsing already substitutes variables. */
  private Policy policyAfterChecks() {
    awaitPlace();
    Policy policy = Engine.get().policyOf(session);
    Settings.requireLocked(session);
    Settings.requireRanges(session);
    return policy;
  }

  private void awaitPlace() {
    Identity identity = Engine.get().identity();
    String group = session.sparkContext().getLocalProperty("spark.jobGroup.id");
    Statement statement = identity.statements().running(group);
    String user = identity.principalOf(session);
    if (statement != null && user != null) { // else the checks refuse it
      Engine.get().planning().enter(statement, user);
    }
  }

  @Override
  public Expression parseExpression(String text) throws ParseException {
    return parser.parseExpression(text);
  }

  @Override
  public TableIdentifier parseTableIdentifier(String text) throws ParseException {
    return parser.parseTableIdentifier(text);
  }

  @Override
  public FunctionIdentifier parseFunctionIdentifier(String text) throws ParseException {
    return parser.parseFunctionIdentifier(text);
  }

  @Override
  public Seq<String> parseMultipartIdentifier(String text) throws ParseException {
    return parser.parseMultipartIdentifier(text);
  }

  @Override
  public StructType parseTableSchema(String text) throws ParseException {
    return parser.parseTableSchema(text);
  }

  @Override
  public DataType parseDataType(String text) throws ParseException {
    return parser.parseDataType(text);
  }
}
