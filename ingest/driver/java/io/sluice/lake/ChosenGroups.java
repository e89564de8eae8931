package io.sluice.lake;

import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.hudi.avro.model.HoodieCompactionOperation;
import org.apache.hudi.avro.model.HoodieCompactionPlan;
import org.apache.hudi.common.util.collection.Pair;
import org.apache.hudi.config.HoodieWriteConfig;
import org.apache.hudi.table.action.compact.strategy.CompactionStrategy;

/**
 * Plans a compaction of the file groups that an option names, and of no others.
 *
 * <p>Hudi's own strategies know absolute limits only; which file groups are worth it is decided
 * before, from their sizes and the table's budget. The plan is like any other one afterwards: what
 * executes it does not ask for its strategy.
 */
public class ChosenGroups extends CompactionStrategy {
  /** Lines of partition, slash, file id. */
  public static final String GROUPS = "hoodie.compaction.sluice.groups";

  @Override
  public Pair<List<HoodieCompactionOperation>, List<String>> orderAndFilter(
      HoodieWriteConfig config,
      List<HoodieCompactionOperation> operations,
      List<HoodieCompactionPlan> pending) {
    Set<String> chosen = chosen(config);
    List<HoodieCompactionOperation> kept =
        operations.stream()
            .filter(one -> chosen.contains(one.getPartitionPath() + "/" + one.getFileId()))
            .collect(Collectors.toList());
    return Pair.of(kept, Collections.emptyList());
  }

  @Override
  public Pair<List<String>, List<String>> filterPartitionPaths(
      HoodieWriteConfig config, List<String> partitions) {
    Set<String> wanted =
        chosen(config).stream()
            .map(line -> line.substring(0, line.lastIndexOf('/')))
            .collect(Collectors.toSet());
    List<String> kept =
        partitions.stream().filter(wanted::contains).collect(Collectors.toList());
    return Pair.of(kept, Collections.emptyList());
  }

  private static Set<String> chosen(HoodieWriteConfig config) {
    String lines = config.getProps().getProperty(GROUPS, "");
    return lines.isEmpty() ? Set.of() : new HashSet<>(Arrays.asList(lines.split("\n")));
  }
}
