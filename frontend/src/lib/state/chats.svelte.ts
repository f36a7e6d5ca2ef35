import * as backend from '../api/backend';
import { ApiError } from '../api/http';
import type { ChatSummary } from '../api/types';
import { newId } from '../id';
import { Conversation } from './conversation.svelte';
import { toasts } from './toasts.svelte';

/** The list of chats, and the conversations that are open. */
class ChatsState {
  list = $state.raw<ChatSummary[]>([]);
  loaded = $state(false);
  error = $state('');
  /** Conversations that were opened; they go on while another is on screen. */
  private open = $state.raw(new Map<string, Conversation>());

  async load(): Promise<void> {
    try {
      this.list = await backend.chats();
      this.error = '';
    } catch (err) {
      this.error = (err as Error).message;
    } finally {
      this.loaded = true;
    }
  }

  create(): Conversation {
    return this.keep(new Conversation(newId(), (c) => this.saved(c)));
  }

  /** The conversation of a chat; its messages are fetched when it is opened for the first time. */
  conversation(id: string): Conversation {
    const known = this.open.get(id);
    if (known) return known;
    const made = this.keep(new Conversation(id, (c) => this.saved(c)));
    void made.load();
    return made;
  }

  streaming(id: string): boolean {
    return this.open.get(id)?.streaming ?? false;
  }

  private keep(c: Conversation): Conversation {
    const open = new Map(this.open);
    open.set(c.id, c);
    this.open = open;
    return c;
  }

  private saved(c: Conversation): void {
    const { id, title, model, updated_at } = c.toJSON();
    this.list = [{ id, title, model, updated_at }, ...this.list.filter((chat) => chat.id !== id)].sort(
      (a, b) => Date.parse(b.updated_at) - Date.parse(a.updated_at),
    );
  }

  async rename(id: string, title: string): Promise<void> {
    const wanted = title.trim();
    const old = this.list.find((chat) => chat.id === id);
    if (!wanted || !old || old.title === wanted) return;
    this.list = this.list.map((chat) => (chat.id === id ? { ...chat, title: wanted } : chat));
    const known = this.open.get(id);
    try {
      if (known) {
        await known.rename(wanted);
        if (known.saveError) throw new Error(known.saveError);
      } else await backend.saveChat({ ...(await backend.chat(id)), title: wanted }).then(() => {});
    } catch (err) {
      this.list = this.list.map((chat) => (chat.id === id ? old : chat));
      toasts.show(`Not renamed: ${(err as Error).message}`, { level: 'error' });
    }
  }

  /** Deletes at once; Undo puts the chat back as it was. */
  async delete(id: string): Promise<void> {
    const before = this.list;
    const title = before.find((chat) => chat.id === id)?.title || 'the chat';
    try {
      const kept = await backend.chat(id);
      await backend.deleteChat(id);
      toasts.show(`Deleted “${title}”`, {
        action: {
          label: 'Undo',
          run: () => {
            backend
              .saveChat(kept)
              .then(() => this.load())
              .catch((err: Error) => toasts.show(`Not restored: ${err.message}`, { level: 'error' }));
          },
        },
      });
    } catch (err) {
      if (!(err instanceof ApiError && err.status === 404)) {
        toasts.show(`Not deleted: ${(err as Error).message}`, { level: 'error' });
        return;
      }
    }
    this.open.get(id)?.discard();
    const open = new Map(this.open);
    open.delete(id);
    this.open = open;
    this.list = this.list.filter((chat) => chat.id !== id);
  }

  saveOnLeave(): void {
    for (const c of this.open.values()) c.saveOnLeave();
  }
}

export const chats = new ChatsState();
