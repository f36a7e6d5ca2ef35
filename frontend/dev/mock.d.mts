import type {
  Card,
  Compiled,
  Chat,
  Device,
  Download,
  Entry,
  Known,
  LoadedModel,
  Model,
  Settings,
  Status,
} from '../src/lib/api/types';

export interface MockState {
  status: Status & { devices: Device[]; notices: { level: string; text: string }[] };
  settings: Settings;
  models: Model[];
  chats: Map<string, Chat>;
  entries: Entry[];
  opened: string[];
  desktop: boolean;
  hits: string[];
  bodies: {
    model: string;
    messages: { role: string; content: string }[];
    options?: { device?: string };
    keep_alive?: number;
  }[];
  refuse: { saveChat?: string };
  offline: boolean;
  loaded: LoadedModel[];
  trash: Model[];
  kept: Map<string, string>;
  /**
   * What waits until its name is taken out, so that a test can look at it for as long as it needs: "position 2" and "compiling for NPU"
   * of [[queue]], "prefill", "thoughts" at their end, "answer" in its middle, "cut", "replay", "download", "move".
   */
  held: Set<string>;
  downloads: Download[];
  known: Known[];
  cards: Card[];
  compiled: NonNullable<Compiled['models']>;
}

export interface Mock {
  state: MockState;
  push(): void;
  tell(entry: Entry): void;
  url: string;
  port: number;
  seed(n: number): void;
  close(): Promise<void>;
}

export function startMock(options?: { port?: number; pace?: number }): Promise<Mock>;
