import java.math.BigDecimal;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.Date;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Timestamp;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.FutureTask;

/** Prints one line per check: its name, a tab, what went wrong or nothing. */
final class HiveJdbc {
  interface Check {
    void run() throws Exception;
  }

  private static final String URL = System.getenv("SLUICE_URL");
  private static final String TRANSPORT = System.getenv("SLUICE_TRANSPORT");
  private static final String USER = System.getenv("SLUICE_USER");
  private static final String PASSWORD = System.getenv("SLUICE_PASSWORD");

  public static void main(String[] arguments) throws Exception {
    Class.forName("org.apache.hive.jdbc.HiveDriver");
    DriverManager.setLoginTimeout(60);
    Map<String, Check> checks = new LinkedHashMap<>();
    checks.put("reads_rows", HiveJdbc::readsRows);
    checks.put("reads_rows_in_many_fetches", HiveJdbc::readsRowsInManyFetches);
    checks.put("reads_values_of_each_type", HiveJdbc::readsValues);
    checks.put("describes_a_result", HiveJdbc::describesAResult);
    checks.put("fills_in_parameters", HiveJdbc::fillsInParameters);
    checks.put("uses_a_database", HiveJdbc::usesADatabase);
    checks.put("lists_catalogs_schemas_tables", HiveJdbc::listsTables);
    checks.put("lists_columns_and_keys", HiveJdbc::listsColumns);
    checks.put("lists_types_and_functions", HiveJdbc::listsTypes);
    checks.put("says_what_it_is_connected_to", HiveJdbc::saysProduct);
    checks.put("tells_errors_with_their_state", HiveJdbc::tellsErrors);
    checks.put("tells_why_a_session_is_refused", HiveJdbc::tellsRefusal);
    checks.put("refuses_a_wrong_password", HiveJdbc::refusesPassword);
    checks.put("cancels_a_statement", HiveJdbc::cancels);
    checks.put("ends_a_statement_after_its_timeout", HiveJdbc::timesOut);
    checks.put("is_valid", HiveJdbc::isValid);
    for (Map.Entry<String, Check> check : checks.entrySet()) {
      String error = "";
      try {
        check.getValue().run();
      } catch (Throwable e) {
        StackTraceElement[] at = e.getStackTrace();
        error = (e + " at " + (at.length > 0 ? at[0] : "?")).replaceAll("\\s+", " ");
      }
      System.out.println(check.getKey() + "\t" + error);
    }
    System.exit(0); // the driver leaves threads behind
  }

  private static Connection connect(String database) throws SQLException {
    return connect(database, "");
  }

  private static Connection connect(String database, String settings) throws SQLException {
    return DriverManager.getConnection(URL + database + TRANSPORT + settings, USER, PASSWORD);
  }

  private static void require(boolean holds, Object found) {
    if (!holds) {
      throw new IllegalStateException("found " + found);
    }
  }

  private static int count(ResultSet rows) throws SQLException {
    int count = 0;
    while (rows.next()) {
      count++;
    }
    return count;
  }

  private static void readsRows() throws SQLException {
    try (Connection link = connect("default");
        Statement statement = link.createStatement();
        ResultSet rows = statement.executeQuery("SELECT id FROM range(5000)")) {
      int found = count(rows);
      require(found == 5000, found);
    }
  }

  private static void readsRowsInManyFetches() throws SQLException {
    try (Connection link = connect("default");
        Statement statement = link.createStatement()) {
      statement.setFetchSize(7);
      statement.setMaxRows(100);
      int found = count(statement.executeQuery("SELECT id FROM range(5000)"));
      require(found == 100, found);
    }
  }

  private static void readsValues() throws SQLException {
    String sql =
        "SELECT true, 1, 9007199254740993, 1.50BD, 'ä€', DATE'2024-02-29',"
            + " TIMESTAMP'2024-02-29 12:00:00.123456', CAST(NULL AS string), 1.5D";
    try (Connection link = connect("default");
        Statement statement = link.createStatement();
        ResultSet row = statement.executeQuery(sql)) {
      require(row.next(), "no row");
      require(row.getBoolean(1), row.getObject(1));
      require(row.getInt(2) == 1, row.getObject(2));
      require(row.getLong(3) == 9007199254740993L, row.getObject(3));
      require(new BigDecimal("1.50").equals(row.getBigDecimal(4)), row.getObject(4));
      require("ä€".equals(row.getString(5)), row.getString(5));
      require(Date.valueOf("2024-02-29").equals(row.getDate(6)), row.getObject(6));
      Timestamp moment = Timestamp.valueOf("2024-02-29 12:00:00.123456");
      require(moment.equals(row.getTimestamp(7)), row.getObject(7));
      require(row.getString(8) == null && row.wasNull(), row.getString(8));
      require(row.getDouble(9) == 1.5, row.getObject(9));
    }
  }

  private static void describesAResult() throws SQLException {
    try (Connection link = connect("default");
        Statement statement = link.createStatement();
        ResultSet rows = statement.executeQuery("SELECT 1.50BD AS price, id FROM range(1)")) {
      var described = rows.getMetaData();
      require("price".equals(described.getColumnName(1)), described.getColumnName(1));
      require(described.getScale(1) == 2, described.getScale(1));
      require("bigint".equals(described.getColumnTypeName(2)), described.getColumnTypeName(2));
    }
  }

  private static void fillsInParameters() throws SQLException {
    String sql = "SELECT count(*) FROM range(10) WHERE id < ? AND length(?) = 4";
    try (Connection link = connect("default");
        PreparedStatement statement = link.prepareStatement(sql)) {
      statement.setLong(1, 4);
      statement.setString(2, "it's");
      ResultSet rows = statement.executeQuery();
      require(rows.next() && rows.getLong(1) == 4, rows.getObject(1));
    }
  }

  private static String[] aTable(Connection link) throws SQLException {
    try (ResultSet rows = link.getMetaData().getTables(null, "%", "%", new String[] {"TABLE"})) {
      require(rows.next(), "no table");
      return new String[] {rows.getString("TABLE_SCHEM"), rows.getString("TABLE_NAME")};
    }
  }

  private static void usesADatabase() throws SQLException {
    String[] table;
    try (Connection link = connect("default")) {
      table = aTable(link);
    }
    try (Connection link = connect(table[0]);
        Statement statement = link.createStatement()) {
      require(statement.executeQuery("SELECT * FROM " + table[1] + " LIMIT 1").next(), "no row");
    }
  }

  private static void listsTables() throws SQLException {
    try (Connection link = connect("default")) {
      DatabaseMetaData about = link.getMetaData();
      String[] table = aTable(link);
      require(count(about.getCatalogs()) > 0, "no catalog");
      require(count(about.getSchemas()) > 1, "no schemas");
      require(count(about.getSchemas(null, table[0])) == 1, "not its schema");
      require(count(about.getTables(null, table[0], table[1], null)) == 1, "not its table");
      require(count(about.getTableTypes()) > 0, "no table types");
    }
  }

  private static void listsColumns() throws SQLException {
    try (Connection link = connect("default")) {
      DatabaseMetaData about = link.getMetaData();
      String[] table = aTable(link);
      require(count(about.getColumns(null, table[0], table[1], "%")) > 1, "no columns");
      about.getPrimaryKeys(null, table[0], table[1]).close();
      about.getImportedKeys(null, table[0], table[1]).close();
    }
  }

  private static void listsTypes() throws SQLException {
    try (Connection link = connect("default")) {
      DatabaseMetaData about = link.getMetaData();
      require(count(about.getTypeInfo()) > 5, "no types");
      require(count(about.getFunctions(null, null, "%")) > 50, "no functions");
      require(count(about.getProcedures(null, null, "%")) == 0, "procedures");
    }
  }

  private static void saysProduct() throws SQLException {
    try (Connection link = connect("default")) {
      DatabaseMetaData about = link.getMetaData();
      require(about.getDatabaseProductName() != null, "no name");
      require(about.getDatabaseMajorVersion() >= 3, about.getDatabaseProductVersion());
    }
  }

  private static void tellsErrors() throws SQLException {
    try (Connection link = connect("default");
        Statement statement = link.createStatement()) {
      require("42601".equals(stateOf(statement, "SELEC 1")), stateOf(statement, "SELEC 1"));
      String absent = stateOf(statement, "SELECT * FROM nowhere.to_be_found");
      require("42P01".equals(absent), absent);
      require(statement.executeQuery("SELECT 1").next(), "the connection does not go on");
    }
  }

  private static String stateOf(Statement statement, String sql) {
    try {
      statement.executeQuery(sql);
      return "no error";
    } catch (SQLException e) {
      return e.getSQLState();
    }
  }

  private static void tellsRefusal() throws SQLException {
    String said = "it was let in";
    try (Connection link = connect("default", "?spark.sql.shuffle.partitions=20000000")) {
      require(link == null, said);
    } catch (SQLException e) {
      said = messages(e);
    }
    require(said.contains("must be between"), said);
  }

  private static void refusesPassword() throws SQLException {
    String said = "it was let in";
    String url = URL + "default" + TRANSPORT;
    try (Connection link = DriverManager.getConnection(url, "nobody", "no")) {
      require(link == null, said);
    } catch (SQLException e) {
      said = messages(e);
    }
    // over HTTP the driver shows the status and not the words
    require(said.contains("Error validating the login") || said.contains("401"), said);
  }

  private static String messages(Throwable error) {
    StringBuilder said = new StringBuilder();
    for (Throwable at = error; at != null; at = at.getCause()) {
      said.append(at.getMessage()).append(" | ");
    }
    return said.toString();
  }

  private static final String ENDLESS =
      "SELECT count(*) FROM range(1000000000) a CROSS JOIN range(1000000) b WHERE a.id < b.id";

  private static void cancels() throws Exception {
    try (Connection link = connect("default");
        Statement statement = link.createStatement()) {
      FutureTask<String> asked = new FutureTask<>(() -> stateOf(statement, ENDLESS));
      new Thread(asked).start();
      Thread.sleep(3000);
      statement.cancel();
      require(!"no error".equals(asked.get()), asked.get());
      try (Statement next = link.createStatement()) {
        require(next.executeQuery("SELECT 1").next(), "the connection does not go on");
      }
    }
  }

  private static void timesOut() throws SQLException {
    try (Connection link = connect("default");
        Statement statement = link.createStatement()) {
      statement.setQueryTimeout(3);
      String state = stateOf(statement, ENDLESS);
      require(!"no error".equals(state), state);
    }
  }

  private static void isValid() throws SQLException {
    try (Connection link = connect("default")) {
      require(link.isValid(10), "not valid");
    }
  }
}
