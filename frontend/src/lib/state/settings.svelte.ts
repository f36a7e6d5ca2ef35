import * as backend from '../api/backend';
import type { Settings } from '../api/types';

class SettingsState {
  current = $state.raw<Settings | undefined>();
  error = $state('');
  saving = $state(false);
  /** What the user has switched to but the listener has not kept yet. */
  private wishedTheme = $state<Settings['theme']>();

  theme = $derived(this.wishedTheme ?? this.current?.theme ?? 'system');

  async load(): Promise<void> {
    try {
      this.current = await backend.settings();
      this.error = '';
    } catch (err) {
      this.error = (err as Error).message;
    }
  }

  /** Saves a change. False, with `error` set, when the listener refused it. */
  async save(change: Settings): Promise<boolean> {
    this.saving = true;
    try {
      this.current = await backend.saveSettings({ ...this.current, ...change });
      this.error = '';
      return true;
    } catch (err) {
      this.error = (err as Error).message;
      return false;
    } finally {
      this.saving = false;
    }
  }

  async setTheme(theme: NonNullable<Settings['theme']>): Promise<void> {
    this.wishedTheme = theme;
    await this.save({ theme });
  }
}

export const settings = new SettingsState();
