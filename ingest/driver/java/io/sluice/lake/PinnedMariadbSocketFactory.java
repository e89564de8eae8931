package io.sluice.lake;

import java.io.IOException;
import java.net.InetAddress;
import java.net.Socket;
import java.net.UnknownHostException;
import javax.net.SocketFactory;
import org.mariadb.jdbc.Configuration;
import org.mariadb.jdbc.util.ConfigurableSocketFactory;

/**
 * {@link PinnedSocketFactory} for MariaDB's JDBC driver, which makes its factories without an
 * argument and hands them its configuration: the addresses are its option {@code
 * socketFactoryArg}.
 */
public final class PinnedMariadbSocketFactory extends ConfigurableSocketFactory {
  private SocketFactory pinned;

  @Override
  public void setConfiguration(Configuration configuration, String host) {
    String addresses = configuration.nonMappedOptions().getProperty("socketFactoryArg");
    try {
      pinned = new PinnedSocketFactory(addresses == null ? "" : addresses);
    } catch (UnknownHostException notAnAddress) {
      throw new IllegalArgumentException(notAnAddress);
    }
  }

  @Override
  public Socket createSocket() throws IOException {
    return pinned.createSocket();
  }

  @Override
  public Socket createSocket(String host, int port) throws IOException {
    return pinned.createSocket(host, port);
  }

  @Override
  public Socket createSocket(String host, int port, InetAddress localHost, int localPort)
      throws IOException {
    return pinned.createSocket(host, port, localHost, localPort);
  }

  @Override
  public Socket createSocket(InetAddress host, int port) throws IOException {
    return pinned.createSocket(host, port);
  }

  @Override
  public Socket createSocket(InetAddress host, int port, InetAddress localHost, int localPort)
      throws IOException {
    return pinned.createSocket(host, port, localHost, localPort);
  }
}
