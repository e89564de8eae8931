package io.sluice.engine;

import java.io.File;
import org.apache.spark.memory.MemoryManager;
import org.apache.spark.sql.SparkSession;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The one engine of this JVM: its start file, its policies, who its sessions belong to, and its
 * line to the gateway. Called by {@link Main}, and by the Guard.
 */
public final class Engine {
  private static final Logger LOG = LoggerFactory.getLogger(Engine.class);
  private static volatile Engine current;
  private final StartFile start;
  private final Policies policies;
  private final Identity identity;
  private final PlanningPlaces planning;
  private final SparkSession neutral;
  private final SpoolRoom spools;
  private volatile Catalogue catalogue;
  private volatile ControlChannel control;

  private Engine(StartFile start, SparkSession root) {
    this.start = start;
    this.policies = new Policies(start.staleMillis(), System::nanoTime);
    this.neutral = neutral(root);
    this.identity = new Identity(root, neutral);
    this.spools =
        new SpoolRoom(
            start.spoolBytes(),
            start.spoolBytesEach(),
            () -> identity.statements().open().values());
    this.planning = new PlanningPlaces(root.sparkContext().defaultParallelism());
  }

  /** Before the Thrift Server listens: from here on every client session is refused. */
  static void prepare(StartFile start, SparkSession root) throws Exception {
    current = new Engine(start, root);
    Spool.load(root.sparkContext());
    Thread.setDefaultUncaughtExceptionHandler(Engine::lost);
  }

  /** The Thrift Server listens: sessions get users, the gateway is called. Returns the port. */
  static int serve(Object thriftServer, SparkSession root) throws Exception {
    Engine engine = get();
    int port = engine.identity.bind(thriftServer);
    ControlChannel control = new ControlChannel(engine.start, engine.policies, port);
    engine.control = control;
    engine.catalogue = new Catalogue(root, control);
    daemon(control, "sluice-control").start();
    engine.watch(root, control);
    return port;
  }

  private void watch(SparkSession root, ControlChannel control) {
    Progress progress = new Progress(identity::operations, root.sparkContext(), control);
    MemoryManager pages = root.sparkContext().env().memoryManager();
    MemoryGuard memory = new MemoryGuard(identity.statements(), TaskWatch.TASKS, pages);
    File scratch = new File(System.getProperty("java.io.tmpdir")); // as Spark's own
    DiskGuard disk = new DiskGuard(identity.statements(), TaskWatch.DISK, scratch);
    RunawayThreads threads = new RunawayThreads();
    FairPlaces places = new FairPlaces(root.sparkContext());
    check(progress::tellAll, Progress.PAUSE_MILLIS, "sluice-progress");
    check(memory::look, MemoryGuard.LOOK_MILLIS, "sluice-memory");
    check(disk::look, DiskGuard.LOOK_MILLIS, "sluice-disk");
    check(threads::look, RunawayThreads.LOOK_MILLIS, "sluice-runaway");
    check(places::look, FairPlaces.LOOK_MILLIS, "sluice-places");
    check(identity.statements()::lookAtSpools, Spool.LOOK_MILLIS, "sluice-spools");
    check(Sources::look, Sources.LOOK_MILLIS, "sluice-sources");
    check(Sources::lookAtLocks, SourceLocks.LOOK_MILLIS, "sluice-source-locks");
  }

  private static void check(PeriodicCheck.Check check, long pauseMillis, String name) {
    daemon(new PeriodicCheck(pauseMillis, check), name).start();
  }

  /** A thread that keeps no JVM alive; not started. */
  static Thread daemon(Runnable work, String name) {
    Thread thread = new Thread(work, name);
    thread.setDaemon(true);
    return thread;
  }

  static Engine get() {
    return current;
  }

  /**
   * True for the engine's own session, which no client can reach. Before {@link #prepare} there
   * is no other, as nothing listens yet.
   */
  static boolean owns(SparkSession session) {
    Engine engine = current;
    return engine == null || engine.identity.isEngine(session);
  }

  /** Ends the JVM at once: a hanging task must not keep an engine alive. */
  static void end(String why) {
    try {
      LOG.error("engine ends: {}", why);
      Sources.endAll();
    } finally {
      Runtime.getRuntime().halt(3);
    }
  }

  /** A statement that runs out of memory fails; a thread of everybody must not go missing. */
  private static void lost(Thread thread, Throwable error) {
    LOG.error("thread {} ended", thread.getName(), error);
    if (error instanceof OutOfMemoryError) {
      end("thread " + thread.getName() + " ran out of memory");
    }
    BrokenJvm.endIfMetIn(error);
  }

  /** For what must mean the same whatever a user sets: the rules on rows and columns. */
  private static SparkSession neutral(SparkSession root) {
    SparkSession made = root.newSession();
    made.conf().set("spark.sql.session.timeZone", "UTC");
    made.conf().set("spark.sql.ansi.enabled", "false");
    return made;
  }

  SparkSession neutral() {
    return neutral;
  }

  StartFile start() {
    return start;
  }

  Policies policies() {
    return policies;
  }

  Identity identity() {
    return identity;
  }

  SpoolRoom spools() {
    return spools;
  }

  PlanningPlaces planning() {
    return planning;
  }

  /** Of a statement's thread: none runs before it is there. */
  ControlChannel control() {
    return control;
  }

  Catalogue catalogue() {
    Catalogue ready = catalogue;
    if (ready == null) {
      throw Denied.noCatalogue("The engine is still starting.");
    }
    return ready;
  }

  /** The rights of a session's user now; refuses nobody, strangers and stale state. */
  Policy policyOf(SparkSession session) {
    return policies.require(identity.principalOf(session));
  }
}
