import * as backend from '../api/backend';
import type { Model } from '../api/types';

class ModelsState {
  all = $state.raw<Model[]>([]);
  loaded = $state(false);
  error = $state('');
  /** Chosen in the picker; rules over what a setting or an older chat says. */
  chosen = $state('');
  /** Device pin: "", "npu", "gpu" or "cpu". */
  pin = $state('');

  chat = $derived(this.all.filter(canChat));

  async load(): Promise<void> {
    try {
      this.all = await backend.models();
      this.error = '';
    } catch (err) {
      this.error = (err as Error).message;
    } finally {
      this.loaded = true;
    }
  }

  /** The first of the wished names that is there, else the first model that can chat. */
  pick(...wished: (string | undefined)[]): string {
    for (const name of wished) {
      const found = name && this.chat.find((model) => sameModel(model.name, name));
      if (found) return found.name;
    }
    return this.chat[0]?.name ?? '';
  }
}

export const sameModel = (a: string, b: string) => a.replace(/:latest$/, '') === b.replace(/:latest$/, '');

function canChat(model: Model): boolean {
  const can = model.capabilities;
  return !model.damaged && (!can?.length || can.includes('completion'));
}

export const models = new ModelsState();
