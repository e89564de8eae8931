package io.sluice.engine;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** What the launcher tells an engine, in a file that only its user can read. */
record StartFile(
    String engineId, String secret, Path controlSocket, long staleMillis, long orphanMillis) {

  static StartFile read(Path path) throws IOException {
    JsonNode node = new ObjectMapper().readTree(Files.readString(path));
    return new StartFile(
        node.required("engine_id").asText(),
        node.required("secret").asText(),
        Path.of(node.required("control_socket").asText()),
        millis(node.required("stale_seconds")),
        millis(node.required("orphan_seconds")));
  }

  private static long millis(JsonNode seconds) {
    return Math.round(seconds.asDouble() * 1000);
  }

  @Override
  public String toString() {
    return "StartFile[" + engineId + "]";
  }
}
