import * as backend from '../api/backend';
import type { Status } from '../api/types';

/** What the listener says about itself. */
class StatusState {
  current = $state.raw<Status | undefined>();
  /** undefined until the first connection; false while the listener is gone. */
  online = $state<boolean | undefined>();
  /** Starting or stopping the server: the button waits. */
  switching = $state(false);
  switchError = $state('');

  async setServer(running: boolean): Promise<void> {
    this.switching = true;
    this.switchError = '';
    try {
      this.current = (await backend.setServer(running)) ?? this.current;
    } catch (err) {
      this.switchError = (err as Error).message;
    } finally {
      this.switching = false;
    }
  }
}

export const status = new StatusState();
