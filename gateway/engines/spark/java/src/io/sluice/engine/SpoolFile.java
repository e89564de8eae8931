package io.sluice.engine;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.Closeable;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.File;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.FilterOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.spark.io.CompressionCodec;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.unsafe.Platform;
import scala.collection.AbstractIterator;

/**
 * One part of a result, whole, in its order: Spark's own binary rows, each behind its size. What
 * is small stays in memory as it is, while there is room for it; the rest is in a file, compressed.
 */
final class SpoolFile {
  static final int LARGEST_IN_MEMORY = 64 << 10;
  private static final long MEMORY = 16L << 20; // of all results
  private static final AtomicLong IN_MEMORY = new AtomicLong();
  private final File file;
  private final SpoolRoom room;
  private final String user;
  private final CompressionCodec codec;
  private byte[] small;
  private long size; // on the disk
  private boolean isRemoved;

  SpoolFile(File file, SpoolRoom room, String user, CompressionCodec codec) {
    this.file = file;
    this.room = room;
    this.user = user;
    this.codec = codec;
  }

  /** Bytes on the disk. */
  synchronized long size() {
    return size;
  }

  /** Gives back memory, disk and room; who reads it may go on. Idempotent. */
  synchronized void remove() {
    file.delete(); // again, for one who wrote on
    if (isRemoved) {
      return;
    }
    isRemoved = true;
    if (small != null) {
      IN_MEMORY.addAndGet(-small.length);
      small = null;
    }
    room.giveBack(user, size);
    size = 0;
  }

  private void grow(long bytes) {
    room.take(user, bytes); // which may end another result
    synchronized (this) {
      if (!isRemoved) {
        size += bytes;
        return;
      }
    }
    room.giveBack(user, bytes);
    throw new IllegalStateException("the result is closed");
  }

  private synchronized boolean keepSmall(byte[] bytes) {
    if (isRemoved || IN_MEMORY.addAndGet(bytes.length) > MEMORY) {
      IN_MEMORY.addAndGet(-bytes.length);
      return false;
    }
    small = bytes;
    return true;
  }

  /** Takes the rows of one part; {@link #close} ends it. */
  final class Writer implements Closeable {
    private final ByteArrayOutputStream memory = new ByteArrayOutputStream(1024);
    private final DataOutputStream head = new DataOutputStream(memory);
    private DataOutputStream out = head;
    private final byte[] copy = new byte[4096];

    void add(UnsafeRow row) throws IOException {
      int length = row.getSizeInBytes();
      out.writeInt(length);
      if (row.getBaseObject() instanceof byte[] bytes) {
        int offset = (int) (row.getBaseOffset() - Platform.BYTE_ARRAY_OFFSET);
        out.write(bytes, offset, length);
      } else {
        row.writeToStream(out, copy);
      }
      if (out == head && memory.size() > LARGEST_IN_MEMORY) {
        toFile();
      }
    }

    private void toFile() throws IOException {
      OutputStream counted = new Counted(new FileOutputStream(file));
      out = new DataOutputStream(
          codec.compressedOutputStream(new BufferedOutputStream(counted, 64 << 10)));
      memory.writeTo(out);
      memory.reset();
    }

    @Override
    public void close() throws IOException {
      if (out == head && !keepSmall(memory.toByteArray())) {
        toFile();
      }
      out.close();
    }
  }

  /** Bytes are counted before they are on the disk. */
  private final class Counted extends FilterOutputStream {
    Counted(OutputStream out) {
      super(out);
    }

    @Override
    public void write(byte[] bytes, int offset, int length) throws IOException {
      grow(length);
      out.write(bytes, offset, length);
    }

    @Override
    public void write(int value) throws IOException {
      grow(1);
      out.write(value);
    }
  }

  Writer writer() {
    return new Writer();
  }

  /** Its rows from the first one on; each is good until the next is asked for. */
  Reader read(int columns) throws IOException {
    return new Reader(columns);
  }

  /** Rows of one part. */
  final class Reader extends AbstractIterator<UnsafeRow> implements Closeable {
    private final DataInputStream in;
    private final UnsafeRow row;
    private byte[] bytes = new byte[4096];
    private int next = -1;

    private Reader(int columns) throws IOException {
      this.row = new UnsafeRow(columns);
      this.in = new DataInputStream(open());
    }

    private InputStream open() throws IOException {
      byte[] held = small;
      if (held != null) {
        return new ByteArrayInputStream(held);
      }
      InputStream raw = new BufferedInputStream(new FileInputStream(file), 64 << 10);
      return new BufferedInputStream(codec.compressedInputStream(raw), 64 << 10);
    }

    @Override
    public boolean hasNext() {
      try {
        if (next < 0) {
          next = nextSize();
        }
        return next > 0;
      } catch (IOException e) {
        throw Functions.<RuntimeException>raise(e);
      }
    }

    /** One more than the next row's size, which may be 0; 0 at the end. */
    private int nextSize() throws IOException {
      int first = in.read();
      if (first < 0) {
        return 0;
      }
      // its other three bytes
      int size = first << 24 | in.readUnsignedByte() << 16 | in.readUnsignedShort();
      return size + 1;
    }

    @Override
    public UnsafeRow next() {
      hasNext();
      int size = next - 1;
      next = -1;
      try {
        if (bytes.length < size) {
          bytes = new byte[Math.max(size, 2 * bytes.length)];
        }
        in.readFully(bytes, 0, size);
        row.pointTo(bytes, size);
        return row;
      } catch (IOException e) {
        throw Functions.<RuntimeException>raise(e);
      }
    }

    @Override
    public void close() throws IOException {
      in.close();
    }
  }
}
