package io.sluice.lake;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.NotDirectoryException;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Local files whose modes the JVM sets itself, and whose folders it lists at once.
 *
 * <p>Without its native library Hadoop starts a {@code chmod} for each file and each folder that it
 * makes, and waits for it: dozens of processes per commit. Of each file in a folder it asks the
 * system five times, and of its checksum, too; a commit lists its timeline four times, and that may
 * have thousands of files. It must not know what is written.
 */
public final class LocalFiles extends LocalFileSystem {
  public LocalFiles() {
    super(new Raw());
  }

  /** Owner, group and mode are not read: nobody asks for those of a listing. */
  @Override
  public FileStatus[] listStatus(Path folder) throws IOException {
    Path base = makeQualified(folder);
    List<FileStatus> found = new ArrayList<>();
    try (DirectoryStream<java.nio.file.Path> files =
        Files.newDirectoryStream(pathToFile(folder).toPath())) {
      for (java.nio.file.Path file : files) {
        String name = file.getFileName().toString();
        if (!isChecksum(name)) {
          add(found, base, name, file);
        }
      }
    } catch (DirectoryIteratorException error) {
      throw error.getCause();
    } catch (NotDirectoryException error) {
      return super.listStatus(folder);
    } catch (NoSuchFileException error) {
      throw new FileNotFoundException("File " + folder + " does not exist");
    }
    return found.toArray(new FileStatus[0]);
  }

  private void add(List<FileStatus> found, Path base, String name, java.nio.file.Path file)
      throws IOException {
    BasicFileAttributes told;
    try {
      told = Files.readAttributes(file, BasicFileAttributes.class);
    } catch (NoSuchFileException error) {
      return; // it went meanwhile
    }
    found.add(
        new FileStatus(
            told.size(),
            told.isDirectory(),
            1,
            getDefaultBlockSize(base),
            told.lastModifiedTime().toMillis(),
            told.lastAccessTime().toMillis(),
            null,
            null,
            null,
            // whatever signs of an address the name has
            new Path(base, new Path(null, null, name))));
  }

  private static boolean isChecksum(String name) {
    return name.startsWith(".") && name.endsWith(".crc");
  }

  private static final class Raw extends RawLocalFileSystem {
    @Override
    public void setPermission(Path path, FsPermission permission) throws IOException {
      int mode = permission.toShort();
      Files.setAttribute(pathToFile(path).toPath(), "unix:mode", mode);
    }
  }
}
