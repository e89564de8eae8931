package io.sluice.lake;

import java.io.IOException;
import org.apache.hudi.DataSourceUtils;
import org.apache.hudi.client.SparkRDDWriteClient;
import org.apache.hudi.client.common.HoodieSparkEngineContext;
import org.apache.spark.api.java.JavaSparkContext;

/** Hudi's client for table services. */
public final class Services {
  private Services() {}

  /**
   * @param options of the client: an object of JSON, for a map from Python costs a message an entry
   * @param isPartitioned whether chores are jobs of Spark. To find the partitions Hudi asks of each
   *     file beside the table's first ones whether it is a folder, each in a task of its own: where
   *     there are no partitions these are all files, and a thread has done it before the first task
   */
  public static SparkRDDWriteClient<?> client(
      JavaSparkContext spark, String path, String name, String options, boolean isPartitioned)
      throws IOException {
    HoodieSparkEngineContext context =
        isPartitioned ? new HoodieSparkEngineContext(spark) : new LocalContext(spark);
    return new SparkRDDWriteClient<>(
        context, DataSourceUtils.createHoodieConfig("", path, name, LightTable.read(options)));
  }
}
