package io.sluice.lake;

import java.util.concurrent.TimeUnit;
import org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider;
import org.apache.hudi.common.config.LockConfiguration;
import org.apache.hudi.storage.StorageConfiguration;

/**
 * Hudi's ZooKeeper lock with our fence: for tables whose writers run in several drivers at once,
 * ingest in one and compaction in another. See {@link FencedLockProvider}.
 */
public class SharedFencedLockProvider extends ZookeeperBasedLockProvider {
  private final Fence fence;

  public SharedFencedLockProvider(LockConfiguration config, StorageConfiguration<?> storage) {
    super(config, storage);
    this.fence = new Fence(config, storage);
  }

  @Override
  public boolean tryLock(long time, TimeUnit unit) {
    return super.tryLock(time, unit) && fence.isKept(super::unlock);
  }
}
