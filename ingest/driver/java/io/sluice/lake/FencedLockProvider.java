package io.sluice.lake;

import java.util.concurrent.TimeUnit;
import org.apache.hudi.client.transaction.lock.InProcessLockProvider;
import org.apache.hudi.common.config.LockConfiguration;
import org.apache.hudi.storage.StorageConfiguration;

/**
 * Hudi's in-process table lock that also refuses a writer whose fencing token is no longer the
 * table's current one. Hudi asks for the lock at every step that changes the timeline, so a
 * writer that was superseded can leave an instant inflight but can never complete it.
 */
public class FencedLockProvider extends InProcessLockProvider {
  private final Fence fence;

  public FencedLockProvider(LockConfiguration config, StorageConfiguration<?> storage) {
    super(config, storage);
    this.fence = new Fence(config, storage);
  }

  @Override
  public boolean tryLock(long time, TimeUnit unit) {
    return super.tryLock(time, unit) && fence.isKept(super::unlock);
  }
}
