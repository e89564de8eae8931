package io.sluice.lake;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.concurrent.TimeUnit;
import org.apache.hudi.client.transaction.lock.InProcessLockProvider;
import org.apache.hudi.common.config.LockConfiguration;
import org.apache.hudi.exception.HoodieLockException;
import org.apache.hudi.storage.StorageConfiguration;

/**
 * Hudi's in-process table lock that also refuses a writer whose fencing token is no longer the
 * table's current one. Hudi asks for the lock at every step that changes the timeline, so a
 * writer that was superseded can leave an instant inflight but can never complete it.
 *
 * <p>Reads two write options: {@code hoodie.write.lock.sluice.token} (a decimal number) and {@code
 * hoodie.write.lock.sluice.fence} (path of the fence file, which holds one decimal number). The
 * file is replaced by atomic rename only, so a read sees the old number or the new one. A fence
 * that is missing or cannot be read refuses too: a writer without a fence is a writer without a
 * lease.
 */
public class FencedLockProvider extends InProcessLockProvider {
  public static final String TOKEN = "hoodie.write.lock.sluice.token";
  public static final String FENCE = "hoodie.write.lock.sluice.fence";

  private final long token;
  private final Path fence;

  public FencedLockProvider(LockConfiguration config, StorageConfiguration<?> storage) {
    super(config, storage);
    this.token = Long.parseLong(required(config, TOKEN));
    this.fence = Paths.get(required(config, FENCE));
  }

  @Override
  public boolean tryLock(long time, TimeUnit unit) {
    if (!super.tryLock(time, unit)) {
      return false;
    }
    try {
      refuseWhenSuperseded();
      return true;
    } catch (RuntimeException refused) {
      super.unlock();
      throw refused;
    }
  }

  private void refuseWhenSuperseded() {
    long current = currentToken();
    if (current != token) {
      throw new HoodieLockException(
          "sluice.fenced: this writer holds token " + token + ", the table's fence is at " + current);
    }
  }

  private long currentToken() {
    try {
      String text = new String(Files.readAllBytes(fence), StandardCharsets.US_ASCII).trim();
      return Long.parseLong(text);
    } catch (NoSuchFileException absent) {
      throw new HoodieLockException("sluice.fenced: the table has no fence file " + fence);
    } catch (IOException | NumberFormatException unreadable) {
      throw new HoodieLockException(
          "sluice.fenced: the fence file " + fence + " cannot be read: " + unreadable);
    }
  }

  private static String required(LockConfiguration config, String key) {
    String value = config.getConfig().getString(key, null);
    if (value == null || value.isEmpty()) {
      throw new HoodieLockException("sluice.fenced: the write option " + key + " is missing");
    }
    return value;
  }
}
