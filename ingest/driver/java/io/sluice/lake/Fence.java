package io.sluice.lake;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Paths;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.Path;
import org.apache.hudi.common.config.LockConfiguration;
import org.apache.hudi.exception.HoodieLockException;
import org.apache.hudi.storage.StorageConfiguration;

/**
 * A table's fence as a writer sees it: its own token, and where the current one lies.
 *
 * <p>Reads two write options: {@code hoodie.write.lock.sluice.token} (a decimal number) and {@code
 * hoodie.write.lock.sluice.fence} (path or address of the fence file, which holds one decimal
 * number). The file is replaced as a whole only, so a read sees the old number or the new one.
 * Files are read directly, objects through Hadoop's file system. A fence that is missing or cannot
 * be read refuses too: a writer without a fence is a writer without a lease.
 */
final class Fence implements Serializable {
  static final String TOKEN = "hoodie.write.lock.sluice.token";
  static final String FENCE = "hoodie.write.lock.sluice.fence";

  private static final long serialVersionUID = 1L;
  private static final int LONGEST = 64;

  private final long token;
  private final String place;
  private final StorageConfiguration<?> storage;

  Fence(LockConfiguration config, StorageConfiguration<?> storage) {
    this.token = Long.parseLong(required(config, TOKEN));
    this.place = required(config, FENCE);
    this.storage = storage;
  }

  /** True; throws when another writer has the table, after giving the lock back. */
  boolean isKept(Runnable unlock) {
    try {
      refuseWhenSuperseded();
      return true;
    } catch (RuntimeException refused) {
      unlock.run();
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
      throw new HoodieLockException("sluice.fenced: the table has no fence file " + place);
    } catch (IOException | NumberFormatException unreadable) {
      throw new HoodieLockException(
          "sluice.fenced: the fence file " + place + " cannot be read: " + unreadable);
    }
  }

  private byte[] content() throws IOException {
    if (!place.contains("://")) {
      return Files.readAllBytes(Paths.get(place));
    }
    Path path = new Path(place);
    try (FSDataInputStream in =
        path.getFileSystem(storage.unwrapAs(Configuration.class)).open(path)) {
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
