package io.sluice.lake;

import java.io.IOException;
import java.nio.file.Files;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Local files whose modes the JVM sets itself.
 *
 * <p>Without its native library Hadoop starts a {@code chmod} for each file and each folder that it
 * makes, and waits for it: dozens of processes per commit. It must not know what is written.
 */
public final class LocalFiles extends LocalFileSystem {
  public LocalFiles() {
    super(new Raw());
  }

  private static final class Raw extends RawLocalFileSystem {
    @Override
    public void setPermission(Path path, FsPermission permission) throws IOException {
      int mode = permission.toShort();
      Files.setAttribute(pathToFile(path).toPath(), "unix:mode", mode);
    }
  }
}
