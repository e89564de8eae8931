package io.sluice.lake;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Paths;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.Path;
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
 * hoodie.write.lock.sluice.fence} (path or address of the fence file, which holds one decimal
 * number). The file is replaced as a whole only, so a read sees the old number or the new one.
 * Files are read directly, objects through Hadoop's file system. A fence
 * that is missing or cannot be read refuses too: a writer without a fence is a writer without a
 * lease.
 */
public class FencedLockProvider extends InProcessLockProvider {
  public static final String TOKEN = "hoodie.write.lock.sluice.token";
  public static final String FENCE = "hoodie.write.lock.sluice.fence";

  private static final int LONGEST = 64;

  private final long token;
  private final String fence;
  private final StorageConfiguration<?> storage;

  public FencedLockProvider(LockConfiguration config, StorageConfiguration<?> storage) {
    super(config, storage);
    this.token = Long.parseLong(required(config, TOKEN));
    this.fence = required(config, FENCE);
    this.storage = storage;
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
      return Long.parseLong(new String(content(), StandardCharsets.US_ASCII).trim());
    } catch (NoSuchFileException | FileNotFoundException absent) {
      throw new HoodieLockException("sluice.fenced: the table has no fence file " + fence);
    } catch (IOException | NumberFormatException unreadable) {
      throw new HoodieLockException(
          "sluice.fenced: the fence file " + fence + " cannot be read: " + unreadable);
    }
  }

  private byte[] content() throws IOException {
    if (!fence.contains("://")) {
      return Files.readAllBytes(Paths.get(fence));
    }
    Path place = new Path(fence);
    try (FSDataInputStream in =
        place.getFileSystem(storage.unwrapAs(Configuration.class)).open(place)) {
      return in.readNBytes(LONGEST);
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
