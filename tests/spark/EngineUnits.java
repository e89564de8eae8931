package io.sluice.engine;

import io.sluice.engine.PlaceTurns.Task;
import io.sluice.engine.PlaceTurns.User;
import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.stream.LongStream;
import org.apache.hive.service.cli.HiveSQLException;
import org.apache.spark.SparkConf;
import org.apache.spark.io.CompressionCodec;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;

/** Parts of the engine that need no Spark: each line says what was found. */
public final class EngineUnits {
  private static final int PATIENT = PlaceTurns.PATIENT_LOOKS;
  private static int checks;

  private EngineUnits() {}

  public static void main(String[] arguments) throws Exception {
    InternalError internal = new InternalError("out of something");
    say("an error of the JVM", internal);
    say("its wrapper", new HiveSQLException("failed", new RuntimeException(internal)));
    say("a class that met it, first", caught(() -> new MeetsInternal()));
    say("a class that met it, later", caught(() -> new MeetsInternal()));
    say("a class that met the stack's end, first", caught(() -> new MeetsStack()));
    say("a class that met the stack's end, later", caught(() -> new MeetsStack()));
    say("a class that met a full code cache, later", fullCodeCache());
    say("a class that met another error, later", caughtTwice(() -> new MeetsOther()));
    say("the end of the stack", new StackOverflowError());
    say("the end of memory", new RuntimeException(new OutOfMemoryError("Java heap space")));
    say("a text of a user", new RuntimeException(fullCodeCache().getCause().getMessage()));
    say("causes in a circle", circle());
    say("nothing", null);
    ending("its tasks run", Set.of("other", "one"), 1);
    ending("only tasks of others run", Set.of("other"), 1);
    ending("its tasks run after a minute", Set.of("other", "one"), 60);
    allocations();
    shares();
    heap();
    disk();
    placesOfOneWhoHasAll();
    placesOfOneWhoGave();
    placesOfMany();
    noPlaceIsTaken();
    failingCheckGoesOn();
    roomOfResults();
    roomOfOneWhoHasLess();
    rowsOfResults();
    placesAtSource();
    errorsOfSources();
    keptByWeight();
    namesWithDots();
  }

  private static void roomOfResults() {
    List<Kept> kept = new ArrayList<>();
    SpoolRoom room = new SpoolRoom(100, 60, () -> kept);
    room.take("ann", 30);
    System.out.println("half of a user's room is not half full: " + !room.isHalfFull("ann"));
    room.take("ann", 1);
    System.out.println("more is: " + (room.isHalfFull("ann") && !room.isHalfFull("ben")));
    System.out.println("a user has so much: " + isFull(caught(() -> room.take("ann", 30)), "yours"));
    room.take("ben", 60);
    System.out.println("all have so much: " + isFull(caught(() -> room.take("cy", 10)), "all users"));
    room.giveBack("ben", 60);
    room.take("cy", 60);
    System.out.println("what is removed leaves room: " + (caught(() -> room.take("cy", 0)) == null));
  }

  /** A result of so many bytes; when it ends they are free. */
  private record Kept(
      SpoolRoom room,
      String userName,
      long spooled,
      boolean isBeingRead,
      long lastRead,
      List<Kept> all)
      implements SpoolRoom.Held {
    static void add(
        SpoolRoom room, String user, long bytes, boolean isBeingRead, int age, List<Kept> all) {
      room.take(user, bytes);
      all.add(new Kept(room, user, bytes, isBeingRead, -age, all));
    }

    @Override
    public void end(HiveSQLException reason) {
      all.remove(this);
      room.giveBack(userName, spooled);
    }
  }

  private static void roomOfOneWhoHasLess() {
    List<Kept> all = new ArrayList<>();
    SpoolRoom room = new SpoolRoom(100, 60, () -> all);
    Kept.add(room, "ann", 20, false, 1, all);
    Kept.add(room, "ann", 40, true, 3, all);
    Kept.add(room, "ben", 25, false, 2, all);
    Kept.add(room, "ben", 15, false, 4, all);
    Kept.add(room, "cy", 5, false, 0, all);
    kept("room is taken from who has most", all, "ann40 ben15 ben25 cy5");
    Kept.add(room, "cy", 30, false, 0, all);
    kept("and then from the next, the oldest", all, "ann40 ben25 cy30 cy5");
    Kept.add(room, "dan", 30, false, 0, all);
    kept("what is read goes where there is nothing else", all, "ben25 cy30 cy5 dan30");
    boolean isRefused = isFull(caught(() -> room.take("dan", 25)), "all users");
    System.out.println("nobody gets more than others have: " + isRefused);
    kept("and none of these ends for it", all, "ben25 cy30 cy5 dan30");
  }

  private static void kept(String what, List<Kept> all, String expected) {
    List<String> names = all.stream().map(one -> one.userName + one.spooled).sorted().toList();
    System.out.println(what + ": " + String.join(" ", names).equals(expected));
  }

  private static boolean isFull(Throwable error, String whose) {
    return error instanceof HiveSQLException refusal
        && refusal.getSQLState().equals("53100")
        && refusal.getMessage().contains("[UNREAD_RESULTS_FULL]")
        && refusal.getMessage().contains(whose);
  }

  private static void rowsOfResults() throws Exception {
    Path folder = Files.createTempDirectory("units");
    SpoolRoom room = new SpoolRoom(1 << 20, 1 << 20, List::<Kept>of);
    File place = folder.resolve("rows").toFile();
    SpoolFile few = written(new SpoolFile(place, room, "ann", codec()), 100);
    boolean isInMemory = few.size() == 0 && !place.exists() && isThere(few, 100);
    System.out.println("few rows are in memory: " + isInMemory);
    SpoolFile many = written(new SpoolFile(place, room, "ann", codec()), 10_000);
    boolean isOnDisk = many.size() == place.length() && many.size() > 0 && isThere(many, 10_000);
    System.out.println("many rows are on the disk: " + isOnDisk);
    many.remove();
    many.remove();
    room.take("ann", 1 << 20);
    System.out.println("nothing is left of them: " + !place.exists());
    room.giveBack("ann", 1 << 20);
    Files.createSymbolicLink(place.toPath(), Path.of("/dev/full"));
    SpoolFile full = new SpoolFile(place, room, "ann", codec());
    Throwable error = caughtIn(() -> written(full, 10_000));
    full.remove();
    room.take("ann", 1 << 20);
    System.out.println("a full disk is named: " + error.toString().contains("No space left"));
    Files.deleteIfExists(folder);
  }

  private static CompressionCodec codec() {
    return CompressionCodec.createCodec(new SparkConf(false), "zstd");
  }

  private static SpoolFile written(SpoolFile file, int rows) throws Exception {
    try (SpoolFile.Writer writer = file.writer()) {
      for (int number = 0; number < rows; number++) {
        writer.add(row(number));
      }
    }
    return file;
  }

  private static UnsafeRow row(int number) {
    byte[] bytes = new byte[16 + 8 * (number % 3)];
    new Random(number).nextBytes(bytes);
    UnsafeRow row = new UnsafeRow(1);
    row.pointTo(bytes, bytes.length);
    return row;
  }

  private static boolean isThere(SpoolFile file, int rows) throws Exception {
    try (SpoolFile.Reader reader = file.read(1)) {
      for (int number = 0; number < rows; number++) {
        if (!reader.hasNext() || !reader.next().equals(row(number))) {
          return false;
        }
      }
      return !reader.hasNext() && !reader.hasNext();
    }
  }

  private static Throwable caughtIn(Callable<?> work) {
    try {
      work.call();
      return null;
    } catch (Throwable error) {
      return error;
    }
  }

  private static void errorsOfSources() {
    told("a dropped table", "42P01", 0, "discover it again");
    told("a column of another type", "42883", 0, "discover it again");
    told("a text that is no number", "22P02", 0, "discover it again");
    told("a view of a dropped table", "HY000", 1356, "discover it again");
    told("no right to read", "42000", 1142, "does not let");
    told("too many connections of a user", "42000", 1226, "Try again later");
    told("too many connections", "53300", 0, "Try again later");
    told("a locked account", "HY000", 4151, "login");
    told("an ended connection", "57P01", 0, "Run it again");
    told("what nobody knows", "XX000", 0, "test of it");
    String wide = "Result set exceeded maxResultBuffer limit. Received:  9; Current limit: 8";
    String said = Denied.source("shop", new SQLException(wide, "08S01")).getMessage();
    System.out.println("error: rows that are too wide: " + said.contains("Leave wide columns out"));
  }

  private static void told(String what, String state, int number, String expected) {
    String told = Denied.source("shop", new SQLException("CANARY", state, number)).getMessage();
    boolean isSafe = !told.contains("CANARY") && told.contains("(" + state + ")");
    System.out.println("error: " + what + ": " + (isSafe && told.contains(expected)));
  }

  private static void placesAtSource() {
    SourcePlaces places = new SourcePlaces(3);
    SourcePlaces.Place first = places.tryTake("one", 1);
    boolean isTwo = first != null && places.tryTake("one", 2) != null;
    System.out.println("one user has all connections but the last: " + isTwo);
    boolean isLast = places.tryTake("one", 3) != null;
    System.out.println("one user has the last connection, too: " + isLast);
    System.out.println("the last one is for who has none: " + (places.tryTake("other", 4) != null));
    System.out.println("there are more than so many: " + (places.tryTake("third", 5) != null));
    System.out.println("who has one takes one away: " + (places.givingWayTo("other") != null));
    Long youngest = places.givingWayTo("third");
    System.out.println("the youngest of who has most gives way: " + Long.valueOf(2).equals(youngest));
    System.out.println("two give way for one: " + (places.givingWayTo("fourth") != null));
    first.close();
    System.out.println("what becomes free goes to who has none: " + (places.tryTake("third", 6) != null));
    SourcePlaces each = new SourcePlaces(2);
    boolean areTwo = each.tryTake("one", 1) != null && each.tryTake("other", 2) != null;
    System.out.println("two users have one each: " + areTwo);
    System.out.println("somebody's only one is taken: " + (each.givingWayTo("third") != null));
    SourcePlaces narrow = new SourcePlaces(1);
    System.out.println("a single one is for everybody: " + (narrow.tryTake("one", 1) != null));
  }

  private static void keptByWeight() {
    WeighedCache<String, String> cache = new WeighedCache<>(10);
    cache.put("one", "1", 4);
    cache.put("two", "2", 4);
    cache.get("one");
    cache.put("three", "3", 4);
    boolean isNewest = cache.get("two") == null && cache.get("one") != null;
    System.out.println("what was used last is kept: " + isNewest);
    cache.put("three", "3", 6);
    cache.put("large", "4", 100);
    System.out.println("more than one heavy thing is kept: " + (cache.size() != 1));
    cache.put("small", "5", 1);
    System.out.println("the weight of what went is forgotten: " + (cache.size() == 1));
  }

  private static void namesWithDots() {
    TableRights some = new TableRights(Set.of("id"), List.of(), Map.of());
    Policy policy =
        new Policy(
            "ann",
            1,
            true,
            false,
            List.of("`a.b`.c"),
            List.of(),
            List.of(),
            List.of(),
            Map.of("crm.shop.orders", some));
    System.out.println("a name with a dot is its own: " + policy.maySelect("a.b", "c"));
    System.out.println("it is another's, too: " + policy.maySelect("a", "b.c"));
    boolean isLimited = !policy.on("crm.shop", "orders").isWhole();
    System.out.println("rights at a source are those of the lake: " + isLimited);
  }

  /** Two threads at tasks of one statement: one goes on, the other turns to another's task. */
  private static void allocations() {
    TaskAllocations tasks = new TaskAllocations();
    Map<Long, Long> allocated = new HashMap<>(Map.of(1L, 150L, 2L, 1200L));
    tasks.start(1, "one", 100);
    tasks.start(2, "one", 1000);
    System.out.println("tasks that go on count: " + (tasks.held(allocated::get).get("one") == 250));
    tasks.end(2, 1200);
    tasks.start(2, "another", 900_000);
    allocated.put(2L, 900_003L);
    Map<String, Long> held = tasks.held(allocated::get);
    System.out.println(
        "a task is charged with what its thread took before: " + (held.get("another") != 3));
    System.out.println("a task that is done holds: " + (held.get("one") != 50));
    tasks.end(1, 170);
    tasks.end(2, 900_003);
    System.out.println("idle threads hold: " + !tasks.held(allocated::get).isEmpty());
    System.out.println("results of tasks that are done count: " + (tasks.doneBy("one") == 270));
    tasks.keep(Set.of("another"));
    System.out.println("a closed statement is kept: " + (tasks.doneBy("one") != 0));
  }

  /** Of a heap of 600 Spark gives 360 at most to sorts and joins. */
  private static void heap() {
    System.out.println("a heap that sorts fill is short: " + MemoryGuard.isShort(541, 600, 350, 360));
    System.out.println("one that rows fill is short: " + MemoryGuard.isShort(541, 600, 100, 360));
    System.out.println("so is one that both fill: " + MemoryGuard.isShort(590, 600, 360, 360));
    System.out.println("one that is not full is short: " + MemoryGuard.isShort(500, 600, 0, 360));
  }

  /** One task goes on, one is done, one failed. */
  private static void disk() {
    TaskDisk tasks = new TaskDisk();
    for (long thread : new long[] {1, 2, 3}) {
      tasks.start(thread, "one", () -> 10, () -> 1);
    }
    tasks.end(2, true);
    tasks.end(3, false);
    System.out.println("what is on the disk counts: " + (tasks.written().get("one") == 12));
    tasks.keep(Set.of());
    System.out.println("of a closed one only what runs: " + (tasks.written().get("one") == 11));
    System.out.println("much room is left on a large disk: " + (DiskGuard.least(1L << 40) == 4L << 30));
    System.out.println("a part of a small one: " + (DiskGuard.least(2000) == 100));
  }

  private static void shares() {
    Map<String, Long> taken = Map.of("a small one", 100L, "a large one", 900L);
    boolean isLarge = MemoryGuard.mostAbove(500, taken).equals(Optional.of("a large one"));
    System.out.println("the largest share ends: " + isLarge);
    System.out.println(
        "a small share ends: " + MemoryGuard.mostAbove(500, Map.of("a small one", 100L)).isPresent());
    Map<String, Long> all = Map.of("ann 1", 200L, "ann 2", 250L, "ann 3", 100L, "ben 1", 300L);
    Optional<String> hoard =
        MemoryGuard.largestOfHoarder(500, all, one -> one.substring(0, 3));
    System.out.println("of many small ones the largest ends: " + hoard.equals(Optional.of("ann 2")));
    System.out.println(
        "those of many users count together: "
            + MemoryGuard.largestOfHoarder(600, all, one -> one.substring(0, 3)).isPresent());
  }

  /** Eight places; "all" has tasks 1 to 8 on them, and "none" waits. */
  private static void placesOfOneWhoHasAll() {
    PlaceTurns turns = new PlaceTurns();
    User all = user("all", 56, 1, 8);
    User none = waiting("none", 64);
    boolean isPatient = taken(PATIENT, turns, 8, all, none).isEmpty();
    System.out.println("who has no place is waited for at first: " + isPatient);
    List<Long> young = taken(1, turns, 8, all, none);
    boolean isYoung = young.equals(List.of(8L, 7L, 6L, 5L));
    System.out.println("the youngest give way, the share stays: " + isYoung);
    System.out.println("more is taken while those end: " + !taken(1, turns, 8, all, none).isEmpty());
    User small = waiting("small", 1);
    boolean isOne = taken(PATIENT + 1, new PlaceTurns(), 8, all, small).equals(List.of(8L));
    System.out.println("no more is taken than waits: " + isOne);
  }

  /** Two of eight were taken, as no more waited; three more users come and wait. */
  private static void placesOfOneWhoGave() {
    PlaceTurns turns = new PlaceTurns();
    taken(PATIENT + 1, turns, 8, user("all", 56, 1, 8), waiting("two", 2));
    User again = new User("all", 56, of(1, 2, 3, 4, 5, 6, 9, 10), 1, 10);
    User[] others = {waiting("a", 9), waiting("b", 9), waiting("c", 9)};
    User[] users = {again, others[0], others[1], others[2]};
    List<Long> young = taken(PATIENT + 1, turns, 8, users);
    System.out.println("who began since gives way: " + young.equals(List.of(10L, 9L)));
    int looks = PlaceTurns.SPARED_LOOKS - PATIENT - 2;
    System.out.println("who went on is spared: " + taken(looks, turns, 8, users).isEmpty());
    List<Long> older = taken(1, turns, 8, users);
    System.out.println("he gives way later: " + older.equals(List.of(6L, 5L, 4L, 3L)));
  }

  private static void placesOfMany() {
    User none = waiting("none", 9);
    User most = user("most", 9, 1, 4);
    User some = user("some", 9, 5, 7);
    User one = user("one", 9, 8, 8);
    boolean isMost =
        taken(PATIENT + 1, new PlaceTurns(), 8, one, some, most, none).equals(List.of(4L, 7L));
    System.out.println("who has most gives first: " + isMost);
    boolean isLast = !taken(PATIENT + 1, new PlaceTurns(), 1, one, none).isEmpty();
    System.out.println("somebody's last place is taken: " + isLast);
  }

  private static void noPlaceIsTaken() {
    User all = user("all", 9, 1, 8);
    User most = user("most", 9, 1, 7);
    User one = user("one", 9, 8, 8);
    boolean isForOne = !taken(PATIENT * 2, new PlaceTurns(), 8, most, one).isEmpty();
    System.out.println("places are taken for who has one: " + isForOne);
    User some = waiting("some", 4);
    boolean isFree = !taken(PATIENT * 2, new PlaceTurns(), 12, all, some).isEmpty();
    System.out.println("places are taken while some are free: " + isFree);
    PlaceTurns turns = new PlaceTurns();
    boolean isMoving = false;
    for (int begun = 0; begun < PATIENT * 2; begun++) {
      isMoving |= !taken(1, turns, 8, all, new User("moves", 3, List.of(), 5, begun)).isEmpty();
    }
    System.out.println("places are taken for who had one between two looks: " + isMoving);
  }

  /** What is taken in so many looks that find the same. */
  private static List<Long> taken(int looks, PlaceTurns turns, int places, User... users) {
    List<Long> taken = new ArrayList<>();
    for (int look = 0; look < looks; look++) {
      taken.addAll(turns.taken(places, List.of(users)));
    }
    return taken;
  }

  private static User user(String name, int waiting, long first, long last) {
    return new User(name, waiting, of(LongStream.rangeClosed(first, last).toArray()), 1, (int) last);
  }

  private static User waiting(String name, int tasks) {
    return new User(name, tasks, List.of(), 2, 0);
  }

  /** The later number began later. */
  private static List<Task> of(long... ids) {
    return LongStream.of(ids).mapToObj(id -> new Task(id, 1000 + id)).toList();
  }

  private static void ending(String what, Set<String> running, long seconds) {
    EndingStatement one = new EndingStatement(Set.of("one", "two"), 0);
    boolean isUnderWay = one.isUnderWay(running, TimeUnit.SECONDS.toNanos(seconds));
    System.out.println("an end is waited for while " + what + ": " + isUnderWay);
  }

  private static void say(String what, Throwable error) {
    System.out.println(what + ": " + (BrokenJvm.signIn(error) != null));
  }

  private static void failingCheckGoesOn() throws InterruptedException {
    CountDownLatch third = new CountDownLatch(3);
    Thread thread =
        new Thread(
            new PeriodicCheck(
                1,
                () -> {
                  third.countDown();
                  if (++checks == 1) {
                    throw new IllegalStateException("the first");
                  }
                  throw new NoClassDefFoundError("all others");
                }),
            "failing");
    thread.start();
    third.await();
    System.out.println("a failing check goes on: " + thread.isAlive());
    thread.interrupt();
    thread.join();
  }

  private static Throwable caught(Runnable work) {
    try {
      work.run();
      return null;
    } catch (Throwable error) {
      return error;
    }
  }

  private static Throwable caughtTwice(Runnable work) {
    caught(work);
    return caught(work);
  }

  private static Throwable fullCodeCache() {
    Throwable why =
        new ExceptionInInitializerError(
            "Exception java.lang.VirtualMachineError: Out of space in CodeCache for adapters"
                + " [in thread \"one\"]");
    Throwable error = new NoClassDefFoundError("Could not initialize class a.B");
    error.initCause(why);
    return error;
  }

  private static Throwable circle() {
    Throwable one = new RuntimeException();
    one.initCause(new RuntimeException(one));
    return one;
  }

  private static int deeper(int depth) {
    return deeper(depth + 1) + 1;
  }

  private static final class MeetsInternal {
    static {
      if (checks == 0) {
        throw new InternalError("while a class is made ready");
      }
    }
  }

  private static final class MeetsStack {
    static final int DEPTH = deeper(0);
  }

  private static final class MeetsOther {
    static {
      if (checks == 0) {
        throw new IllegalStateException("java.lang.InternalError");
      }
    }
  }
}
