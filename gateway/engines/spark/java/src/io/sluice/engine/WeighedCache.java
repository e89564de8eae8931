package io.sluice.engine;

import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;

/** Keeps what was used last, as long as all of it together weighs no more than is allowed. */
final class WeighedCache<K, V> {
  private final Map<K, Weighed<V>> kept = new LinkedHashMap<>(16, 0.75f, true);
  private final long most;
  private long weight;

  private record Weighed<V>(V value, long weight) {}

  WeighedCache(long most) {
    this.most = most;
  }

  /** Null when it is not kept any more. */
  synchronized V get(K key) {
    Weighed<V> found = kept.get(key);
    return found == null ? null : found.value;
  }

  /** The newest one is kept whatever it weighs. */
  synchronized void put(K key, V value, long itsWeight) {
    Weighed<V> old = kept.put(key, new Weighed<>(value, itsWeight));
    weight += itsWeight - (old == null ? 0 : old.weight);
    Iterator<Weighed<V>> eldest = kept.values().iterator();
    while (weight > most && kept.size() > 1) {
      weight -= eldest.next().weight;
      eldest.remove();
    }
  }

  synchronized int size() {
    return kept.size();
  }
}
