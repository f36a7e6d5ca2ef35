import * as library from '../api/library';
import { ApiError } from '../api/http';
import type { Card, Compiled, DiskUse, Download, HubSource, Known, LoadedModel } from '../api/types';
import { bytes } from '../format';
import { models, sameModel } from './models.svelte';
import { toasts } from './toasts.svelte';

/** What is in memory, on disk and on its way. Undefined is what was not told yet. */
class LibraryState {
  loaded = $state.raw<LoadedModel[]>([]);
  disk = $state.raw<DiskUse | undefined>();
  compiled = $state.raw<Compiled | undefined>();
  known = $state.raw<Known[] | undefined>();
  downloads = $state.raw<Download[] | undefined>();
  cards = $state.raw<Card[] | undefined>();
  source = $state.raw<HubSource | undefined>();
  private asked = false;

  /** What hardly changes: asked once, and again where nobody answered. */
  async discover(): Promise<void> {
    if (this.asked) return;
    this.asked = true;
    try {
      [this.known, this.source] = await Promise.all([library.known(), library.source()]);
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

  /** Begins a download, which goes on by itself, also when the page is gone. */
  async download(name: string): Promise<void> {
    try {
      await library.startDownload(name);
    } catch (err) {
      toasts.show(
        `${name} is not fetched: ${[(err as Error).message, err instanceof ApiError ? err.hint : ''].filter(Boolean).join(' ')}`,
        { level: 'error', ms: 12_000 },
      );
    }
    await this.refreshDownloads();
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

  /** Deletes at once; Undo brings the files back. */
  async remove(name: string): Promise<void> {
    try {
      await library.remove(name);
    } catch (err) {
      toasts.show(`Not deleted: ${(err as Error).message}`, { level: 'error' });
      return;
    }
    toasts.show(`Deleted ${name}`, { action: { label: 'Undo', run: () => this.restore(name) } });
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
