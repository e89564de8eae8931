import java.util.function.Consumer;
import org.apache.hudi.common.table.timeline.TimeGenerator;

/** A clock that is ahead: what a driver on a host with a wrong date hands to Hudi. */
public final class FastClock implements TimeGenerator {
  private final long aheadMillis;

  public FastClock(long aheadMillis) {
    this.aheadMillis = aheadMillis;
  }

  @Override
  public long generateTime(boolean skipLocking) {
    try {
      Thread.sleep(2);
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
    }
    return System.currentTimeMillis() + aheadMillis;
  }

  @Override
  public void consumeTime(boolean skipLocking, Consumer<Long> consumer) {
    consumer.accept(generateTime(skipLocking));
  }
}
