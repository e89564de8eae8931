package io.sluice.engine;

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import javax.security.sasl.AuthenticationException;
import org.apache.hive.service.auth.PasswdAuthenticationProvider;

/**
 * Lets only the gateway open sessions: the password is the engine's per-start secret, the user
 * name the principal for whom the gateway speaks.
 */
public final class SecretAuthenticator implements PasswdAuthenticationProvider {
  @Override
  public void Authenticate(String user, String password) throws AuthenticationException {
    byte[] wanted = Engine.get().start().secret().getBytes(StandardCharsets.UTF_8);
    byte[] given = (password == null ? "" : password).getBytes(StandardCharsets.UTF_8);
    boolean isSame = MessageDigest.isEqual(wanted, given);
    if (!isSame || user == null || user.isBlank()) {
      throw new AuthenticationException("Error validating the login");
    }
  }
}
