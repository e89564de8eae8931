package io.sluice.lake;

import java.io.FilterInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketAddress;
import java.net.SocketOption;
import java.net.UnknownHostException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.WeakHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import javax.net.SocketFactory;
import jdk.net.ExtendedSocketOptions;

/**
 * Sockets that go to given addresses, whatever the name in the URL says by now: the network policy
 * was asked about these and about no others. The name itself stays with the driver, which needs it
 * for TLS (which server is meant, and whose certificate it has to be).
 *
 * <p>Made by PostgreSQL's JDBC driver from its options {@code socketFactory} and {@code
 * socketFactoryArg}. The argument has three parts, divided by semicolons: addresses, divided by
 * commas, never names; when keepalives begin, how far they are apart (seconds), and how many go
 * unanswered, which both drivers leave to the system; and to whom the sockets belong.
 */
public final class PinnedSocketFactory extends SocketFactory {
  private static final int SCOUT_MILLIS = 3_000;

  /** Open sockets and their owners; what nobody holds any more is forgotten. */
  private static final Map<PinnedSocket, String> OPEN =
      Collections.synchronizedMap(new WeakHashMap<>());

  private static final AtomicLong WAITS = new AtomicLong();

  private final List<InetAddress> addresses = new ArrayList<>();
  private final Map<SocketOption<Integer>, Integer> keepalive;
  private final String owner;

  /** The socket from which a thread has read last. */
  private static final ThreadLocal<PinnedSocket> LAST = new ThreadLocal<>();

  /**
   * The owner's waits for a byte that have lasted so long, as number:session, divided by commas. No
   * other wait ever has the same number; of sockets without a session nothing is told.
   */
  public static String waiting(String owner, long seconds) {
    List<String> found = new ArrayList<>();
    for (PinnedSocket socket : of(owner)) {
      Wait open = socket.open;
      if (open != null && socket.session != 0 && open.seconds() >= seconds) {
        found.add(open.number + ":" + socket.session);
      }
    }
    return String.join(",", found);
  }

  static void forgetLast() {
    LAST.remove();
  }

  /** Whose session the server has at the other end of the socket that this thread read last. */
  static void nameLast(long session) {
    PinnedSocket last = LAST.get();
    if (last != null) {
      last.session = session;
    }
  }

  /** Closes the owner's sockets: who waits for a byte on one of them fails at once. */
  public static int hangUp(String owner) {
    List<PinnedSocket> found = of(owner);
    for (PinnedSocket socket : found) {
      try {
        socket.close();
      } catch (IOException gone) {
        // it is closed all the same
      }
    }
    return found.size();
  }

  private static List<PinnedSocket> of(String owner) {
    List<PinnedSocket> found = new ArrayList<>();
    synchronized (OPEN) {
      OPEN.forEach((socket, whose) -> {
        if (whose.equals(owner)) {
          found.add(socket);
        }
      });
    }
    return found;
  }

  public PinnedSocketFactory(String argument) throws UnknownHostException {
    String[] parts = argument.split(";", 3);
    for (String address : parts[0].split(",")) {
      if (!address.matches("[0-9.]+|[0-9a-fA-F:.]+(%.+)?")) {
        throw new UnknownHostException("not an address: " + address);
      }
      addresses.add(InetAddress.getByName(address));
    }
    String[] figures = parts[1].split(",", 3);
    keepalive =
        Map.of(
            ExtendedSocketOptions.TCP_KEEPIDLE, Integer.valueOf(figures[0]),
            ExtendedSocketOptions.TCP_KEEPINTERVAL, Integer.valueOf(figures[1]),
            ExtendedSocketOptions.TCP_KEEPCOUNT, Integer.valueOf(figures[2]));
    owner = parts[2];
  }

  @Override
  public Socket createSocket() {
    PinnedSocket made = new PinnedSocket(addresses, keepalive);
    OPEN.put(made, owner);
    return made;
  }

  @Override
  public Socket createSocket(String host, int port) throws IOException {
    Socket socket = createSocket();
    socket.connect(InetSocketAddress.createUnresolved(host, port));
    return socket;
  }

  @Override
  public Socket createSocket(String host, int port, InetAddress localHost, int localPort)
      throws IOException {
    Socket socket = createSocket();
    socket.bind(new InetSocketAddress(localHost, localPort));
    socket.connect(InetSocketAddress.createUnresolved(host, port));
    return socket;
  }

  @Override
  public Socket createSocket(InetAddress host, int port) throws IOException {
    return createSocket(host.getHostName(), port);
  }

  @Override
  public Socket createSocket(InetAddress host, int port, InetAddress localHost, int localPort)
      throws IOException {
    return createSocket(host.getHostName(), port, localHost, localPort);
  }

  private static final class PinnedSocket extends Socket {
    private final List<InetAddress> addresses;
    private final Map<SocketOption<Integer>, Integer> keepalive;
    /** null = nobody waits */
    private volatile Wait open;
    private volatile long session;

    PinnedSocket(
        List<InetAddress> addresses, Map<SocketOption<Integer>, Integer> keepalive) {
      this.addresses = addresses;
      this.keepalive = keepalive;
    }

    @Override
    public void connect(SocketAddress asked) throws IOException {
      connect(asked, 0);
    }

    @Override
    public void connect(SocketAddress asked, int timeout) throws IOException {
      int port = ((InetSocketAddress) asked).getPort();
      for (Map.Entry<SocketOption<Integer>, Integer> one : keepalive.entrySet()) {
        setOption(one.getKey(), one.getValue());
      }
      super.connect(new InetSocketAddress(reachable(port), port), timeout);
    }

    @Override
    public InputStream getInputStream() throws IOException {
      return new FilterInputStream(super.getInputStream()) {
        @Override
        public int read() throws IOException {
          begin();
          try {
            return in.read();
          } finally {
            open = null;
          }
        }

        @Override
        public int read(byte[] bytes, int from, int most) throws IOException {
          begin();
          try {
            return in.read(bytes, from, most);
          } finally {
            open = null;
          }
        }
      };
    }

    private void begin() {
      LAST.set(this);
      open = new Wait();
    }

    /** A socket whose connect failed is closed for good: others look before this one goes. */
    private InetAddress reachable(int port) {
      int last = addresses.size() - 1;
      for (InetAddress address : addresses.subList(0, last)) {
        try (Socket scout = new Socket()) {
          scout.connect(new InetSocketAddress(address, port), SCOUT_MILLIS);
          return address;
        } catch (IOException away) {
          // the next one may be there
        }
      }
      return addresses.get(last);
    }
  }

  /** For the next byte. */
  private static final class Wait {
    private final long number = WAITS.incrementAndGet();
    private final long since = System.nanoTime();

    long seconds() {
      return TimeUnit.NANOSECONDS.toSeconds(System.nanoTime() - since);
    }
  }
}
