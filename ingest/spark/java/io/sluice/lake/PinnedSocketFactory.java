package io.sluice.lake;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketAddress;
import java.net.UnknownHostException;
import java.util.ArrayList;
import java.util.List;
import javax.net.SocketFactory;

/**
 * Sockets that go to given addresses, whatever the name in the URL says by now: the network policy
 * was asked about these and about no others. The name itself stays with the driver, which needs it
 * for TLS (which server is meant, and whose certificate it has to be).
 *
 * <p>Made by PostgreSQL's JDBC driver from its options {@code socketFactory} and {@code
 * socketFactoryArg}; the argument holds addresses, divided by commas, never names.
 */
public final class PinnedSocketFactory extends SocketFactory {
  private static final int SCOUT_MILLIS = 3_000;

  private final List<InetAddress> addresses = new ArrayList<>();

  public PinnedSocketFactory(String argument) throws UnknownHostException {
    for (String address : argument.split(",")) {
      if (!address.matches("[0-9.]+|[0-9a-fA-F:.]+(%.+)?")) {
        throw new UnknownHostException("not an address: " + address);
      }
      addresses.add(InetAddress.getByName(address));
    }
  }

  @Override
  public Socket createSocket() {
    return new PinnedSocket(addresses);
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

    PinnedSocket(List<InetAddress> addresses) {
      this.addresses = addresses;
    }

    @Override
    public void connect(SocketAddress asked) throws IOException {
      connect(asked, 0);
    }

    @Override
    public void connect(SocketAddress asked, int timeout) throws IOException {
      int port = ((InetSocketAddress) asked).getPort();
      super.connect(new InetSocketAddress(reachable(port), port), timeout);
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
}
