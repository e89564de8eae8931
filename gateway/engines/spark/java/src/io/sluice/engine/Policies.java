package io.sluice.engine;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.LongSupplier;

/**
 * The policies of this engine, one per principal, and how fresh they are. Unknown principal,
 * inactive principal and stale state all mean: refuse. Time is monotonic.
 */
final class Policies {
  private final Map<String, Policy> byPrincipal = new ConcurrentHashMap<>();
  private final long staleNanos;
  private final LongSupplier nanoTime;

  /** Last moment at which the gateway is known to have read its database; null before. */
  private volatile Long readAt;

  Policies(long staleMillis, LongSupplier nanoTime) {
    this.staleNanos = staleMillis * 1_000_000L;
    this.nanoTime = nanoTime;
  }

  /** Keeps the newest version; an older one arriving late changes nothing. */
  void store(Policy policy) {
    byPrincipal.merge(
        policy.principal(), policy, (old, now) -> now.version() < old.version() ? old : now);
  }

  void forget(String principal) {
    byPrincipal.remove(principal);
  }

  void heartbeat(long databaseReadAgeMillis) {
    readAt = nanoTime.getAsLong() - Math.max(0, databaseReadAgeMillis) * 1_000_000L;
  }

  /** The rights that hold for a statement starting now. */
  Policy require(String principal) {
    Long read = readAt;
    if (read == null || nanoTime.getAsLong() - read > staleNanos) {
      throw Denied.noPolicy("The gateway has not confirmed anybody's rights lately.");
    }
    Policy policy = principal == null ? null : byPrincipal.get(principal);
    if (policy == null || !policy.isActive()) {
      throw Denied.noPolicy("This engine knows no rights of yours.");
    }
    return policy;
  }
}
