import { ApiError } from '../api/http';
import type { Progress } from '../api/library';

/** Something that takes a while, can be stopped, and tells how far it is. */
export class Task<T> {
  running = $state(false);
  completed = $state(0);
  total = $state(0);
  /** Why it failed, with what to do. */
  error = $state('');
  /** The answer's status, when it failed; 0: there was none. */
  status = $state(0);
  result = $state.raw<T>();
  private controller?: AbortController;

  /** Starts it, in place of one that still runs. What failed is in error; undefined comes back. */
  async run(start: (progress: Progress, signal: AbortSignal) => Promise<T>): Promise<T | undefined> {
    this.controller?.abort();
    const mine = (this.controller = new AbortController());
    [this.running, this.completed, this.total, this.error, this.status] = [true, 0, 0, '', 0];
    this.result = undefined;
    const progress = (completed: number, total: number) => {
      if (mine === this.controller) [this.completed, this.total] = [completed, total];
    };
    try {
      const result = await start(progress, mine.signal);
      if (mine === this.controller) this.result = result;
      return result;
    } catch (err) {
      if (mine === this.controller && !mine.signal.aborted) {
        this.status = err instanceof ApiError ? err.status : 0;
        this.error = [(err as Error).message, err instanceof ApiError ? err.hint : ''].filter(Boolean).join(' ');
      }
      return undefined;
    } finally {
      if (mine === this.controller) this.running = false;
    }
  }

  stop(): void {
    this.controller?.abort();
    this.running = false;
  }

  /** From 0 to 1; undefined while nobody knows. */
  get share(): number | undefined {
    return this.total > 0 ? this.completed / this.total : undefined;
  }
}
