package io.sluice.engine;

import org.antlr.v4.runtime.CharStreams;
import org.antlr.v4.runtime.CommonTokenStream;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.spark.sql.catalyst.parser.SqlBaseLexer;
import org.apache.spark.sql.catalyst.parser.SqlBaseParser;
import org.codehaus.janino.SimpleCompiler;
import org.slf4j.LoggerFactory;

/**
 * Loads, beside the start of Spark's context, what the first statement needs. Only what initialises
 * nothing of Spark's own: two threads that initialise classes which need each other wait for ever.
 */
final class Preload implements Runnable {
  private Preload() {}

  static void begin() {
    Thread thread = new Thread(new Preload(), "sluice-preload");
    thread.setDaemon(true);
    thread.start();
  }

  @Override
  public void run() {
    try {
      new SimpleCompiler().cook("class Preloaded { Object[] values = {1, \"a\", 2.0}; }");
      SqlBaseLexer words = new SqlBaseLexer(CharStreams.fromString("SELECT 1"));
      new SqlBaseParser(new CommonTokenStream(words)).singleStatement();
      new HiveConf();
    } catch (Exception | LinkageError e) {
      LoggerFactory.getLogger(Preload.class).warn("left to the first statement", e);
    }
  }
}
