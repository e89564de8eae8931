package io.sluice.lake;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.hudi.client.common.HoodieSparkEngineContext;
import org.apache.hudi.common.engine.LocalTaskContextSupplier;
import org.apache.hudi.common.engine.TaskContextSupplier;
import org.apache.hudi.common.function.SerializableConsumer;
import org.apache.hudi.common.function.SerializableFunction;
import org.apache.hudi.common.function.SerializablePairFunction;
import org.apache.hudi.common.util.collection.Pair;
import org.apache.spark.api.java.JavaSparkContext;

/** Hudi's context whose chores, deleting markers say, run in the calling thread, not in a job. */
final class LocalContext extends HoodieSparkEngineContext {
  private final transient TaskContextSupplier tasks = new LocalTaskContextSupplier();

  LocalContext(JavaSparkContext spark) {
    super(spark);
  }

  @Override
  public TaskContextSupplier getTaskContextSupplier() {
    return tasks;
  }

  @Override
  public <I, O> List<O> map(List<I> data, SerializableFunction<I, O> function, int parallelism) {
    return data.stream().map(one -> call(() -> function.apply(one))).collect(Collectors.toList());
  }

  @Override
  public <I, O> List<O> flatMap(
      List<I> data, SerializableFunction<I, Stream<O>> function, int parallelism) {
    return data.stream()
        .flatMap(one -> call(() -> function.apply(one)))
        .collect(Collectors.toList());
  }

  @Override
  public <I> void foreach(List<I> data, SerializableConsumer<I> consumer, int parallelism) {
    for (I one : data) {
      call(
          () -> {
            consumer.accept(one);
            return null;
          });
    }
  }

  @Override
  public <I, K, V> Map<K, V> mapToPair(
      List<I> data, SerializablePairFunction<I, K, V> function, Integer parallelism) {
    Map<K, V> found = new HashMap<>();
    for (I one : data) {
      Pair<K, V> pair = call(() -> function.call(one));
      found.put(pair.getLeft(), pair.getRight());
    }
    return found;
  }

  @Override
  public void setJobStatus(String module, String activity) {}

  @Override
  public void clearJobStatus() {}

  private static <O> O call(Step<O> step) {
    try {
      return step.take();
    } catch (RuntimeException error) {
      throw error;
    } catch (Exception error) {
      throw new IllegalStateException(error);
    }
  }

  private interface Step<O> {
    O take() throws Exception;
  }
}
