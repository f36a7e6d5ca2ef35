import * as library from '../api/library';
import { ApiError, isMissing } from '../api/http';
import type { Card, Compiled, DiskUse, Download, HubSource, Known, LoadedModel, PullFrame } from '../api/types';
import { bytes } from '../format';
import { models, sameModel } from './models.svelte';
import { toasts } from './toasts.svelte';

/** A model that this page is fetching. */
export class Pull {
  readonly model: string;
  status = $state('asking the hub');
  completed = $state(0);
  total = $state(0);
  error = $state('');
  done = $state(false);
  private readonly controller = new AbortController();
  private readonly parts = new Map<string, { total: number; completed: number }>();

  constructor(model: string) {
    this.model = model;
  }

  running = $derived(!this.done && !this.error);

  async run(): Promise<boolean> {
    try {
      for await (const frame of library.pull(this.model, this.controller.signal)) this.take(frame);
      this.done = true;
      return true;
    } catch (err) {
      if (!this.controller.signal.aborted) this.error = (err as Error).message;
      return false;
    }
  }

  /** Adds up the files, each of which tells of itself. What is shown never goes back. */
  take(frame: PullFrame): void {
    if (!frame.digest) {
      this.status = frame.status;
      return;
    }
    this.status = 'fetching';
    this.parts.set(frame.digest, { total: frame.total ?? 0, completed: frame.completed ?? 0 });
    let [total, completed] = [0, 0];
    for (const part of this.parts.values()) {
      total += part.total;
      completed += part.completed;
    }
    this.total = Math.max(this.total, total);
    this.completed = Math.max(this.completed, Math.min(completed, this.total));
  }

  stop(): void {
    this.controller.abort();
  }
}

/** What is in memory, on disk and on its way. Undefined is what this build does not have: its controls are not shown. */
class LibraryState {
  loaded = $state.raw<LoadedModel[]>([]);
  disk = $state.raw<DiskUse | undefined>();
  compiled = $state.raw<Compiled | undefined>();
  known = $state.raw<Known[] | undefined>();
  downloads = $state.raw<Download[] | undefined>();
  cards = $state.raw<Card[] | undefined>();
  pulls = $state.raw<Pull[]>([]);
  source = $state.raw<HubSource | undefined>();
  canPull = $state(false);
  canRemove = $state(false);
  canRestore = $state(false);
  canPreflight = $state(false);
  canVerify = $state(false);
  canRepair = $state(false);
  canMove = $state(false);
  canImport = $state(false);
  private asked = false;

  /** Asks what this build can do, once; again where nobody answered. */
  async discover(): Promise<void> {
    if (this.asked) return;
    this.asked = true;
    try {
      [
        this.canPull,
        this.canRemove,
        this.canRestore,
        this.canPreflight,
        this.canVerify,
        this.canRepair,
        this.canMove,
        this.canImport,
        this.known,
        this.source,
      ] = await Promise.all([
        library.canPull(),
        library.canRemove(),
        library.canRestore(),
        library.canPreflight(),
        library.canVerify(),
        library.canRepair(),
        library.canMove(),
        library.canImport(),
        library.known(),
        library.source(),
      ]);
    } catch {
      this.asked = false;
    }
  }

  async refresh(): Promise<void> {
    const take = <T>(found: Promise<T>, put: (value: T) => void) => found.then(put).catch(() => {});
    await Promise.all([
      take(library.loaded(), (list) => (this.loaded = list)),
      take(library.disk(), (use) => (this.disk = use)),
      take(library.compiled(), (compiled) => (this.compiled = compiled)),
      take(library.cards(), (cards) => (this.cards = cards)),
      this.refreshDownloads(),
    ]);
  }

  async refreshDownloads(): Promise<void> {
    try {
      const before = this.downloads?.filter(active).length ?? 0;
      this.downloads = await library.downloads();
      if ((this.downloads?.filter(active).length ?? 0) < before) void models.load();
    } catch {
      // The last answer stays; the page says by itself that nobody answers.
    }
  }

  loadedOn(name: string): LoadedModel[] {
    return this.loaded.filter((model) => sameModel(model.name, name));
  }

  pulling(name: string): Pull | undefined {
    return this.pulls.find((pull) => sameModel(pull.model, name));
  }

  async pull(name: string): Promise<void> {
    if (this.pulling(name)?.running || (await this.download(name))) return;
    const pull = new Pull(name);
    this.pulls = [...this.pulls.filter((other) => !sameModel(other.model, name)), pull];
    const done = await pull.run();
    if (done) {
      toasts.show(`${name} is here`);
      await models.load();
    }
    if (done || !pull.error) this.dismiss(pull);
    void this.refresh();
  }

  /** Leaves it to the listener, where that can. */
  private async download(name: string): Promise<boolean> {
    if (!this.downloads) return false;
    try {
      await library.startDownload(name);
    } catch (err) {
      if (err instanceof ApiError && isMissing(err.status)) return false;
      toasts.show(
        `${name} is not fetched: ${[(err as Error).message, err instanceof ApiError ? err.hint : ''].filter(Boolean).join(' ')}`,
        { level: 'error', ms: 12_000 },
      );
    }
    await this.refreshDownloads();
    return true;
  }

  dismiss(pull: Pull): void {
    pull.stop();
    this.pulls = this.pulls.filter((other) => other !== pull);
  }

  async release(card: Card): Promise<void> {
    try {
      await library.release(card.device, card.model);
    } catch (err) {
      toasts.show(`Not released: ${(err as Error).message}`, { level: 'error' });
    }
    await this.refresh();
  }

  async unload(name: string): Promise<void> {
    try {
      await library.unload(name);
    } catch (err) {
      toasts.show(`Not unloaded: ${(err as Error).message}`, { level: 'error' });
    }
    await this.refresh();
  }

  /** Deletes at once; Undo brings the files back, where the build can. */
  async remove(name: string): Promise<void> {
    try {
      await library.remove(name);
    } catch (err) {
      toasts.show(`Not deleted: ${(err as Error).message}`, { level: 'error' });
      return;
    }
    toasts.show(`Deleted ${name}`, this.canRestore ? { action: { label: 'Undo', run: () => this.restore(name) } } : {});
    await Promise.all([models.load(), this.refresh()]);
  }

  async removeCompiled(): Promise<void> {
    try {
      const { freed } = await library.removeCompiled();
      toasts.show(`${bytes(freed)} are free again`);
    } catch (err) {
      toasts.show(`Not removed: ${(err as Error).message}`, { level: 'error' });
    }
    await this.refresh();
  }

  async refreshSource(): Promise<void> {
    try {
      this.source = await library.source();
    } catch {
      // The last answer stays.
    }
  }

  /** Fetches again what is wrong of a model: a download like any other. */
  async repair(name: string): Promise<void> {
    try {
      await library.repair(name);
    } catch (err) {
      toasts.show(`Not repaired: ${(err as Error).message}`, { level: 'error', ms: 12_000 });
    }
    await this.refreshDownloads();
  }

  async restore(name: string): Promise<void> {
    try {
      await library.restore(name);
    } catch (err) {
      toasts.show(`Not restored: ${(err as Error).message}`, { level: 'error' });
    }
    await Promise.all([models.load(), this.refresh()]);
  }

  async steer(download: Download, action: 'pause' | 'resume' | 'cancel'): Promise<void> {
    try {
      await (action === 'cancel' ? library.cancelDownload(download.id) : library.steerDownload(download.id, action));
    } catch (err) {
      toasts.show(`Not ${action === 'cancel' ? 'cancelled' : `${action}d`}: ${(err as Error).message}`, {
        level: 'error',
      });
    }
    await this.refreshDownloads();
  }
}

export const active = (download: Download) => download.state !== 'done';

export const libraryState = new LibraryState();
