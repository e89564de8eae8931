package io.sluice.engine;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicLong;

/**
 * The engine's end of the control channel: JSON lines over a unix socket on which the gateway
 * listens. Carries policies and heartbeats in, look-ups out and back. Reconnects for ever; when
 * nobody has adopted the engine for {@code orphanMillis}, the engine ends itself.
 */
final class ControlChannel implements Runnable {
  private static final long ANSWER_SECONDS = 15;
  private static final long RETRY_MILLIS = 500;

  /** Characters of names; the gateway takes a line of 1 MiB. */
  private static final int MOST_TOLD = 100_000;

  private final ObjectMapper json = new ObjectMapper();
  private final Map<String, CompletableFuture<JsonNode>> waiting = new ConcurrentHashMap<>();
  private final AtomicLong requests = new AtomicLong();
  private final StartFile start;
  private final Policies policies;
  private final int port;
  private final ExecutorService writer =
      Executors.newSingleThreadExecutor(work -> Engine.daemon(work, "sluice-control-writer"));
  private volatile SocketChannel channel;

  ControlChannel(StartFile start, Policies policies, int port) {
    this.start = start;
    this.policies = policies;
    this.port = port;
  }

  @Override
  public void run() {
    long closedSince = System.nanoTime();
    while (System.nanoTime() - closedSince < TimeUnit.MILLISECONDS.toNanos(start.orphanMillis())) {
      try (SocketChannel opened = connect()) {
        if (read(opened)) {
          closedSince = System.nanoTime();
        }
      } catch (IOException e) {
        // Closed or not there yet: try again until the orphan limit.
      } finally {
        disconnected();
      }
      pause();
    }
    Engine.end("control channel closed for " + start.orphanMillis() + " ms");
  }

  /** Tells how far a statement is; dropped when nobody listens. */
  void progress(String statement, Progress.Counts counts, String waitsFor) {
    ObjectNode message = json.createObjectNode().put("type", "progress");
    message.put("statement", statement);
    message.put("tasks_done", counts.tasksDone).put("tasks", counts.tasks);
    message.put("stages_done", counts.stagesDone).put("stages", counts.stages);
    message.put("rows", counts.rows).put("bytes", counts.bytes);
    message.put("waits_for", waitsFor == null ? "" : waitsFor);
    try {
      send(message);
    } catch (IOException e) {
      // Progress is a courtesy.
    }
  }

  /**
   * Tells which columns of which tables a statement reads, by rights of which version; has been
   * sent when it returns, so that it is there before any answer of the statement.
   */
  void reads(String statement, long version, Map<String, Set<String>> tables) {
    ObjectNode message = json.createObjectNode().put("type", "reads");
    message.put("statement", statement).put("version", version);
    ObjectNode told = message.putObject("tables");
    int left = MOST_TOLD;
    for (Map.Entry<String, Set<String>> table : tables.entrySet()) {
      left -= table.getKey().length() + table.getValue().stream().mapToInt(String::length).sum();
      if (left < 0) {
        break;
      }
      ArrayNode columns = told.putArray(table.getKey());
      table.getValue().forEach(columns::add);
    }
    message.put("is_whole", left >= 0);
    try {
      send(message).get(1, TimeUnit.SECONDS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    } catch (IOException | ExecutionException | TimeoutException e) {
      // What it may go on with is then judged by all rights of its user.
    }
  }

  /** Asks the gateway and waits; throws {@link Denied} when no answer comes. */
  JsonNode ask(String type, Map<String, String> arguments) {
    String id = Long.toString(requests.incrementAndGet());
    ObjectNode request = json.createObjectNode().put("type", type).put("request_id", id);
    arguments.values().forEach(StatementBounds::requireName);
    arguments.forEach(request::put);
    CompletableFuture<JsonNode> answer = new CompletableFuture<>();
    waiting.put(id, answer);
    try {
      send(request);
      JsonNode given = answer.get(ANSWER_SECONDS, TimeUnit.SECONDS);
      if (given.hasNonNull("error")) {
        throw Denied.noCatalogue("The catalogue could not answer.");
      }
      return given;
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw Denied.noCatalogue("The statement was cancelled.");
    } catch (Denied e) {
      throw e;
    } catch (Exception e) {
      throw Denied.noCatalogue("The catalogue did not answer.");
    } finally {
      waiting.remove(id);
    }
  }

  /**
   * Queues a message. Written by a thread of its own, because a cancelled statement's thread is
   * interrupted, and that would close the channel for everybody.
   */
  Future<?> send(ObjectNode message) throws IOException {
    SocketChannel open = channel;
    if (open == null) {
      throw new IOException("control channel closed");
    }
    ByteBuffer line = StandardCharsets.UTF_8.encode(json.writeValueAsString(message) + "\n");
    return writer.submit(() -> write(open, line));
  }

  private static void write(SocketChannel open, ByteBuffer line) {
    try {
      while (line.hasRemaining()) {
        open.write(line);
      }
    } catch (IOException e) {
      // The reader sees the end of this connection too, and connects again.
    }
  }

  private SocketChannel connect() throws IOException {
    SocketChannel opened =
        SocketChannel.open(UnixDomainSocketAddress.of(start.controlSocket()));
    channel = opened;
    send(
        json.createObjectNode()
            .put("type", "hello")
            .put("secret", start.secret())
            .put("pid", ProcessHandle.current().pid())
            .put("port", port)
            .put("engine_id", start.engineId()));
    return opened;
  }

  /** Reads until the peer closes; true when the gateway had welcomed this engine. */
  private boolean read(SocketChannel opened) throws IOException {
    boolean isWelcome = false;
    BufferedReader lines =
        new BufferedReader(Channels.newReader(opened, StandardCharsets.UTF_8));
    try {
      for (String line = lines.readLine(); line != null; line = lines.readLine()) {
        JsonNode message = json.readTree(line);
        isWelcome |= message.path("type").asText().equals("welcome");
        receive(message);
      }
    } catch (IOException e) {
      // A broken connection counts as a closed one.
    }
    return isWelcome;
  }

  private void receive(JsonNode message) throws IOException {
    switch (message.path("type").asText()) {
      case "policy" -> acknowledge(message);
      case "forget" -> policies.forget(message.path("principal").asText());
      case "forget_source" -> Sources.forget(message.path("source").asText());
      case "heartbeat" -> policies.heartbeat(message.path("db_read_age_ms").asLong());
      case "table", "tables", "columns", "source", "live_names" -> {
        CompletableFuture<JsonNode> answer = waiting.get(message.path("request_id").asText());
        if (answer != null) {
          answer.complete(message);
        }
      }
      case "shutdown" -> Engine.end("asked by the gateway");
      default -> {
        // Newer gateways may say more than this engine understands.
      }
    }
  }

  private void acknowledge(JsonNode message) throws IOException {
    Policy policy =
        new Policy(
            message.required("principal").asText(),
            message.required("version").asLong(),
            message.required("active").asBoolean(),
            message.required("admin").asBoolean(),
            strings(message.required("select")),
            strings(message.required("discover")),
            strings(message.required("sources")),
            strings(message.required("sources_seen")),
            tables(message.required("tables")));
    policies.store(policy);
    send(
        json.createObjectNode()
            .put("type", "ack")
            .put("version", policy.version())
            .put("principal", policy.principal()));
  }

  private static Map<String, TableRights> tables(JsonNode given) {
    Map<String, TableRights> found = new HashMap<>();
    given
        .fields()
        .forEachRemaining(
            each -> {
              JsonNode rights = each.getValue();
              JsonNode columns = rights.required("columns");
              Map<String, TableRights.Mask> masks = new HashMap<>();
              for (JsonNode mask : rights.required("masks")) {
                masks.put(
                    mask.required("column").asText(),
                    new TableRights.Mask(
                        mask.required("kind").asText(), mask.required("text").asText()));
              }
              found.put(
                  each.getKey(),
                  new TableRights(
                      columns.isNull() ? null : Set.copyOf(strings(columns)),
                      strings(rights.required("filters")),
                      Map.copyOf(masks)));
            });
    return Map.copyOf(found);
  }

  private static List<String> strings(JsonNode array) {
    List<String> out = new ArrayList<>();
    array.forEach(item -> out.add(item.asText()));
    return List.copyOf(out);
  }

  private void disconnected() {
    channel = null;
    waiting.values().forEach(w -> w.completeExceptionally(new IOException("closed")));
  }

  private static void pause() {
    try {
      Thread.sleep(RETRY_MILLIS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }
}
