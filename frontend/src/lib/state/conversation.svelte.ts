import * as backend from '../api/backend';
import { streamChat, type ChatPiece } from '../api/chat';
import { ApiError, OfflineError } from '../api/http';
import type { Chat, ChatMessage, Entry, Record, ToolCall } from '../api/types';
import { newId } from '../id';
import { recordOf, running } from '../words';
import { requests } from './requests.svelte';

/** One message on screen. */
export class Message {
  readonly key = newId();
  readonly role: ChatMessage['role'];
  content = $state('');
  thinking = $state('');
  /** How long the model thought, where this page saw it: null while it does, undefined when it is not known. */
  thoughtMs = $state<number | null>();
  /** When it began to. */
  thinkingSince = 0;
  toolCalls = $state.raw<ToolCall[]>([]);
  record = $state.raw<Record | undefined>();
  stopped = $state(false);
  error = $state('');
  hint = $state('');
  /** The answer is being written. */
  streaming = $state(false);

  constructor(from: ChatMessage) {
    this.role = from.role;
    this.content = from.content;
    this.thinking = from.thinking ?? '';
    this.toolCalls = from.tool_calls ?? [];
    this.record = from.record;
    this.stopped = from.stopped ?? false;
    this.error = from.error ?? '';
  }

  /** Takes what was streamed. Thinking ends where the answer or a call begins. */
  add(piece: ChatPiece): void {
    if (piece.thinking) {
      if (!this.thinking) {
        this.thinkingSince = Date.now();
        this.thoughtMs = null;
      }
      this.thinking += piece.thinking;
    }
    if (piece.text || piece.toolCalls.length) this.endThinking();
    this.content += piece.text;
    if (piece.toolCalls.length) this.toolCalls = [...this.toolCalls, ...piece.toolCalls];
    if (piece.done) this.record = piece.done.record;
  }

  end(): void {
    this.endThinking();
    this.streaming = false;
  }

  private endThinking(): void {
    if (this.thoughtMs === null) this.thoughtMs = Date.now() - this.thinkingSince;
  }

  /** There is something to keep, if only the fact that it failed. */
  get kept(): boolean {
    const said = this.content || this.thinking || this.toolCalls.length || this.error;
    return this.role === 'user' || this.stopped || Boolean(said);
  }

  toJSON(): ChatMessage {
    return {
      role: this.role,
      content: this.content,
      ...(this.thinking ? { thinking: this.thinking } : {}),
      ...(this.toolCalls.length ? { tool_calls: this.toolCalls } : {}),
      ...(this.record ? { record: this.record } : {}),
      ...(this.stopped ? { stopped: true } : {}),
      ...(this.error ? { error: this.hint ? `${this.error} ${this.hint}` : this.error } : {}),
    };
  }
}

export interface SendOptions {
  model: string;
  device?: string;
}

/**
 * One chat: its messages and the answer in the making. It goes on while another chat is on screen, and is saved after each turn; the
 * messages on screen never depend on saving.
 */
export class Conversation {
  readonly id: string;
  title = $state('');
  model = $state('');
  messages = $state<Message[]>([]);
  loading = $state(false);
  loadError = $state('');
  saveError = $state('');
  /** The live row of the answer in the making. */
  live = $state.raw<Entry | undefined>();
  liveSince = $state(0);

  private createdAt = new Date().toISOString();
  private updatedAt = new Date().toISOString();
  private discarded = false;
  private controller: AbortController | null = null;
  private stopListening = () => {};

  constructor(
    id: string,
    private readonly saved: (c: Conversation) => void = () => {},
  ) {
    this.id = id;
  }

  streaming = $derived(this.messages[this.messages.length - 1]?.streaming ?? false);

  async load(): Promise<void> {
    this.loading = true;
    try {
      const chat = await backend.chat(this.id);
      this.title = chat.title;
      this.model = chat.model ?? '';
      this.createdAt = chat.created_at ?? this.createdAt;
      this.updatedAt = chat.updated_at ?? this.updatedAt;
      this.messages = chat.messages.map((message) => new Message(message));
      this.loadError = '';
    } catch (err) {
      this.loadError = (err as Error).message;
    } finally {
      this.loading = false;
    }
  }

  /** Adds what the user said and lets the model answer. */
  async send(text: string, options: SendOptions): Promise<void> {
    if (this.streaming) return;
    this.title ||= titleFrom(text);
    this.messages.push(new Message({ role: 'user', content: text }));
    await this.answer(options);
  }

  /** Says something else at that place: what came after is dropped. */
  async edit(message: Message, text: string, options: SendOptions): Promise<void> {
    const at = this.messages.findIndex((m) => m.key === message.key);
    if (at < 0 || this.streaming) return;
    if (at === 0) this.title = titleFrom(text);
    this.messages.splice(at);
    await this.send(text, options);
  }

  /** Answers the last question again; the present answer goes. */
  async regenerate(options: SendOptions): Promise<void> {
    if (this.streaming) return;
    while (this.messages.length && this.messages[this.messages.length - 1]!.role !== 'user') this.messages.pop();
    if (this.messages.length) await this.answer(options);
  }

  stop(): void {
    this.controller?.abort();
  }

  /** The chat is being deleted: stops, and saves nothing any more. */
  discard(): void {
    this.discarded = true;
    this.stop();
  }

  private async answer(options: SendOptions): Promise<void> {
    this.model = options.model;
    this.updatedAt = new Date().toISOString();
    const history = this.messages
      .filter((m) => m.content || m.role === 'user')
      .map((m) => ({ role: m.role, content: m.content }));
    this.messages.push(new Message({ role: 'assistant', content: '' }));
    const reply = this.messages[this.messages.length - 1]!;
    reply.streaming = true;
    void this.save();

    const requestId = newId();
    const controller = new AbortController();
    this.controller = controller;
    this.followLive(requestId, options.model);
    try {
      const request = { model: options.model, messages: history, device: options.device, requestId };
      for await (const piece of streamChat(request, controller.signal, (id) => this.traceKnown(id))) {
        reply.add(piece);
      }
    } catch (err) {
      if (controller.signal.aborted) reply.stopped = true;
      else fail(reply, err);
      // The stream had no last line; what the listener last said about the request is the best there is.
      reply.record ??= this.live && recordOf(this.live);
    } finally {
      reply.end();
      this.controller = null;
      this.awaitRecord(reply, requestId);
    }
    await this.save();
  }

  private traceId = '';

  private traceKnown(id: string): void {
    this.traceId = id;
    const known = requests.get(id);
    if (known) this.setLive(known);
  }

  /**
   * Finds the live row of our own request: by its id, which the server takes from X-Request-ID or tells with the headers, and until
   * then by what it says about itself.
   */
  private followLive(requestId: string, model: string): void {
    this.stopListening();
    this.live = undefined;
    this.liveSince = Date.now();
    this.traceId = '';
    const sentAt = Date.now();
    this.stopListening = requests.listen((entry) => {
      const exact = entry.trace_id === this.traceId || entry.trace_id === requestId;
      const likely =
        !this.traceId &&
        (!this.live || this.live.trace_id === entry.trace_id) &&
        entry.route === '/api/chat' &&
        entry.user_agent === navigator.userAgent &&
        (entry.model_asked === model || entry.model_used === model) &&
        Date.parse(entry.started_at) >= sentAt - 2000 &&
        running(entry);
      if (exact || likely) this.setLive(entry);
    });
  }

  private setLive(entry: Entry): void {
    if (this.live?.state !== entry.state || this.live?.phase !== entry.phase) this.liveSince = Date.now();
    this.live = entry;
  }

  /**
   * A stopped or failed answer gets its finished record from the events, a moment later. The listener is asked too: an event that
   * came while the page was not connected does not come again.
   */
  private awaitRecord(reply: Message, requestId: string): void {
    const release = this.stopListening;
    this.stopListening = () => {};
    if (reply.record?.outcome) return release();
    const traceId = this.traceId || this.live?.trace_id || requestId;
    release();
    const take = (entry: Entry | undefined) => {
      if (entry?.trace_id !== traceId || running(entry) || reply.record?.outcome) return;
      reply.record = recordOf(entry);
      end();
      void this.save();
    };
    const ask = () =>
      void backend.request(traceId).then(take, () => {
        // Not known there, or nobody answers: nothing is shown of it.
      });
    const timers = [setTimeout(ask, 500), setTimeout(ask, 5_000), setTimeout(() => end(), 30_000)];
    const done = requests.listen(take);
    const end = () => {
      done();
      timers.forEach(clearTimeout);
    };
    take(requests.get(traceId));
  }

  async rename(title: string): Promise<void> {
    if (this.loadError || (!this.messages.length && !this.loading)) await this.load();
    this.title = title;
    await this.save();
  }

  toJSON(): Chat {
    return {
      id: this.id,
      title: this.title,
      model: this.model,
      created_at: this.createdAt,
      updated_at: this.updatedAt,
      messages: this.messages.filter((m) => m.kept).map((m) => m.toJSON()),
    };
  }

  private saving: Promise<void> = Promise.resolve();

  /** One save at a time, in order: a slow early one must not overwrite a later one. */
  save(): Promise<void> {
    this.saving = this.saving.then(async () => {
      if (this.discarded) return;
      try {
        await backend.saveChat(this.toJSON());
        this.saveError = '';
        this.saved(this);
      } catch (err) {
        this.saveError = (err as Error).message;
      }
    });
    return this.saving;
  }

  /** The page goes away in the middle of an answer: keep what is there. */
  saveOnLeave(): void {
    if (!this.streaming || this.discarded) return;
    const chat = this.toJSON();
    const last = chat.messages[chat.messages.length - 1];
    if (last?.role === 'assistant') last.stopped = true;
    backend.saveChat(chat, true).catch(() => {});
  }
}

function fail(reply: Message, err: unknown): void {
  if (err instanceof OfflineError) {
    reply.error = 'Signalbox does not answer.';
    reply.hint = 'It may have been closed. Open it again, then try again.';
    return;
  }
  reply.error = (err as Error).message || 'The answer ended without a reason.';
  if (err instanceof ApiError) reply.hint = err.hint;
  // A connection that breaks in the middle has a browser's words ("network error", "Load failed").
  if (err instanceof TypeError) {
    reply.error = 'The connection broke in the middle of the answer.';
    reply.hint = 'What was written until then is kept.';
  }
}

/** The first line of what was asked, short enough for the list. */
export function titleFrom(text: string): string {
  const line = text.trim().split('\n', 1)[0]!.replace(/\s+/g, ' ');
  const letters = [...line];
  return letters.length > 60 ? `${letters.slice(0, 59).join('').trimEnd()}…` : line || 'New chat';
}
