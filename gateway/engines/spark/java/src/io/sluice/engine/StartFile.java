package io.sluice.engine;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;

/**
 * What the launcher tells an engine, in a file that only its user can read: the settings of its
 * Spark session and, for Hadoop, those of the lake's object store among the rest.
 */
record StartFile(
    String engineId,
    String secret,
    Path controlSocket,
    long staleMillis,
    long orphanMillis,
    long spoolBytes,
    long spoolBytesEach,
    List<Settings.Rule> settable,
    Map<String, String> spark,
    Map<String, String> store) {

  static StartFile read(Path path) throws IOException {
    JsonNode node = new ObjectMapper().readTree(Files.readString(path));
    return new StartFile(
        node.required("engine_id").asText(),
        node.required("secret").asText(),
        Path.of(node.required("control_socket").asText()),
        millis(node.required("stale_seconds")),
        millis(node.required("orphan_seconds")),
        node.required("spool_bytes").asLong(),
        node.required("spool_bytes_per_user").asLong(),
        rules(node.required("settable")),
        texts(node.required("spark")),
        texts(node.required("store")));
  }

  private static List<Settings.Rule> rules(JsonNode array) {
    List<Settings.Rule> rules = new ArrayList<>();
    for (JsonNode rule : array) {
      rules.add(
          new Settings.Rule(
              Pattern.compile(rule.required(0).asText()),
              Pattern.compile(rule.required(1).asText()),
              rule.required(2).asText()));
    }
    return List.copyOf(rules);
  }

  private static Map<String, String> texts(JsonNode object) {
    Map<String, String> found = new HashMap<>();
    object.fields().forEachRemaining(one -> found.put(one.getKey(), one.getValue().asText()));
    return Map.copyOf(found);
  }

  private static long millis(JsonNode seconds) {
    return Math.round(seconds.asDouble() * 1000);
  }

  @Override
  public String toString() {
    return "StartFile[" + engineId + "]";
  }
}
