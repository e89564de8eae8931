package io.sluice.engine;

import io.sluice.lake.LogLines;
import java.io.PrintStream;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkConf;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.hive.thriftserver.HiveThriftServer2;

/**
 * An engine process: a local Spark session, its Thrift Server and the Guard. Its one argument is
 * the path of its start file. It knows neither grants nor the metadata database: all that comes
 * over the control channel.
 */
public final class Main {
  private Main() {}

  public static void main(String[] arguments) {
    long began = System.nanoTime();
    PrintStream log = System.out;
    Preload.begin();
    LogLines.takeOver();
    try {
      int port = start(StartFile.read(Path.of(arguments[0])));
      long millis = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - began);
      // straight into the log, where this engine's part begins
      log.println("{\"ready\": " + port + ", \"millis\": " + millis + "}");
      log.flush();
    } catch (Throwable e) { // Spark's threads would go on without an engine
      e.printStackTrace(log);
      log.flush();
      Runtime.getRuntime().halt(1);
    }
  }

  private static int start(StartFile start) throws Exception {
    SparkConf conf = new SparkConf(false);
    start.spark().forEach(conf::set);
    SparkSession root = SparkSession.builder().config(conf).getOrCreate();
    // never into Spark's own settings, which SQL could show
    start.store().forEach(root.sparkContext().hadoopConfiguration()::set);
    Engine.prepare(start, root); // all clients are refused from here on
    return Engine.serve(HiveThriftServer2.startWithContext(root.sqlContext()), root);
  }
}
