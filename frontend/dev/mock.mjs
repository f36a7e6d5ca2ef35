// A stand-in for Signalbox's UI listener, for developing the window and for its tests. It keeps the contract of the real one (paths,
// shapes, headers, policy) and does what the words in a message ask for:
//
//   [[say TEXT]]   answers exactly TEXT          [[queue]]      waits in line first, then loads and compiles
//   [[slow MS]]    pause per piece               [[error]]      refuses before the first byte
//   [[hang]]       never goes on                 [[error-after N]]  fails after N pieces
//   [[cut]]        ends without a last line      [[long]]       a long answer with code and tables
//   [[think]]      thinks before the answer      [[tool]]       calls a tool after it
//   [[hostile]]    Markdown that tries to get out    [[fallback]]   another device than the rules chose
//
// npm run mock [port] serves it with the built page; startMock() is for tests.
import { createServer } from 'node:http';
import { readFile } from 'node:fs/promises';
import { dirname, extname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';
import { requestRoutes } from './mock-requests.mjs';
import { knownModels, libraryRoutes } from './mock-library.mjs';
import { hostileMarkdown, longAnswer, shortAnswer, thoughts } from './texts.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const dist = join(here, '..', 'dist');
const types = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.svg': 'image/svg+xml',
  '.woff2': 'font/woff2',
};
const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self' data: blob:; connect-src 'self'; " +
  "frame-ancestors 'none'; form-action 'none'; base-uri 'none'";

const device = (cls, name, more = {}) => ({
  id: `${cls.toLowerCase()}:0`,
  label: more.emulated ? `${cls} (emulated on CPU)` : cls,
  class: cls,
  name,
  emulated: false,
  state: 'idle',
  models: [],
  running: 0,
  queued: 0,
  tokens_per_second: null,
  ...more,
});

export function initialState() {
  return {
    status: {
      version: '0.1.0',
      server: { state: 'running', url: 'http://127.0.0.1:11434' },
      runtime: { ok: true, version: '2026.4.1' },
      engine: 'openvino',
      devices: [
        device('NPU', 'Intel(R) AI Boost', {
          model: 'smollm2:135m',
          models: ['smollm2:135m'],
          tokens_per_second: 31.4,
        }),
        device('GPU', 'Intel(R) Arc(TM) 140V GPU', { state: 'off' }),
        device('CPU', 'Intel(R) Core(TM) Ultra 7 258V', { model: 'all-minilm', models: ['all-minilm'] }),
      ],
      models: 3,
      active: [],
      desktop: { window: true, tray: 'shown' },
      notices: [],
    },
    settings: {
      port: 11434,
      keep_alive: '5m0s',
      default_model: '',
      theme: 'system',
      preference: ['NPU', 'GPU', 'CPU'],
      emulate_npu: false,
      npu_prompt_limit: 1024,
      npu_response_reserve: 128,
      parallel: 4,
      queue_limit: 512,
      journal_retention_days: 30,
      prefix_cache_megabytes: 512,
      never_fall_back: false,
      battery_prefers_npu: true,
      side_request_prompt: 256,
      side_request_answer: 64,
      pins: [{ client: 'Zed', device: 'npu' }],
      probe_models: true,
      keep_bodies: false,
      bodies_retention_days: 7,
      something_new: { of: ['a', 'later', 'build'] },
    },
    models: [
      model('smollm2:135m', '134.5M', 'INT4_SYM', 92_000_000, ['completion']),
      model('qwen3:4b', '4.0B', 'INT4_SYM_CW', 2_400_000_000, ['completion', 'tools', 'thinking']),
      model('all-minilm', '22.7M', 'INT8', 24_000_000, ['embedding']),
    ],
    chats: new Map(),
    entries: [],
    /** What the page asked the desktop to open; null: there is no desktop. */
    opened: [],
    desktop: true,
    /** Every request path, in order. */
    hits: [],
    bodies: [],
    refuse: {},
    /** Routes that this build does not have: "POST /api/pull". */
    /** What waits until it is taken out of here: see mock.d.mts. */
    held: new Set(),
    /** The hub cannot be reached. */
    offline: false,
    loaded: [
      {
        name: 'smollm2:135m',
        device: 'NPU',
        size: 140_000_000,
        context_length: 1152,
        expires_at: '2318-01-01T00:00:00Z',
      },
      { name: 'all-minilm', device: 'CPU', size: 25_000_000, context_length: 512, expires_at: '2318-01-01T00:00:00Z' },
    ],
    trash: [],
    /** Prompts and answers of requests, by id. */
    kept: new Map(),
    downloads: [],
    known: knownModels,
    compiled: [{ model: 'smollm2:135m', device: 'npu:0', label: 'NPU', bytes: 118_000_000 }],
    cards: [
      {
        model: 'smollm2:135m',
        device: 'npu:0',
        label: 'NPU',
        loads: true,
        prompt_limit: 1024,
        decode_tokens_per_second: 31.4,
        verdict: 'right',
      },
      { model: 'smollm2:135m', device: 'cpu:0', label: 'CPU', assumed: true, prompt_limit: 8192 },
      {
        model: 'qwen3:4b',
        device: 'npu:0',
        label: 'NPU',
        loads: true,
        quarantined: 'asked “2+2” it said “!!!!!!!!”',
        verdict: 'wrong',
      },
      { model: 'qwen3:4b', device: 'gpu:0', label: 'GPU', load_error: 'out of memory: 2.4 GB are needed' },
    ],
  };
}

export function model(name, parameter_size, quantization_level, size, capabilities) {
  return {
    name,
    model: name,
    size,
    digest: 'ab'.repeat(32),
    modified_at: new Date().toISOString(),
    details: { format: 'openvino', family: 'llama', families: ['llama'], parameter_size, quantization_level },
    capabilities,
  };
}

const sleep = (ms, signal) =>
  new Promise((resolve, reject) => {
    const aborted = () => {
      clearTimeout(timer);
      reject(new Error('aborted'));
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', aborted);
      resolve();
    }, ms);
    signal?.addEventListener('abort', aborted);
  });

/** Starts the mock. state may be changed at any time; push() tells the page. */
export async function startMock({ port = 0, pace = 12 } = {}) {
  const state = initialState();
  const streams = new Set();
  const running = new Map();
  let sequence = 0;

  /** Waits while a test holds name, and while wanted says so. */
  const hold = async (name, wanted = () => true, signal) => {
    while (state.held.has(name) && wanted()) {
      signal?.throwIfAborted();
      await sleep(5, signal);
    }
  };

  const event = (name, data) => {
    for (const stream of streams) stream.write(`event: ${name}\ndata: ${JSON.stringify(data)}\n\n`);
  };
  const push = () => event('status', state.status);
  const tell = (entry) => event('request', entry);

  function json(res, code, body) {
    res.writeHead(code, { 'Content-Type': 'application/json; charset=utf-8' });
    res.end(body === undefined ? '' : JSON.stringify(body));
  }

  async function body(req) {
    const chunks = [];
    for await (const chunk of req) chunks.push(chunk);
    return chunks.length ? JSON.parse(Buffer.concat(chunks).toString()) : undefined;
  }

  const routes = {
    'GET /ui/status': (req, res) => json(res, 200, state.status),
    'GET /ui/events': (req, res) => {
      res.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-store' });
      streams.add(res);
      req.on('close', () => streams.delete(res));
      res.write(`event: status\ndata: ${JSON.stringify(state.status)}\n\n`);
      for (const entry of state.entries.filter((e) => e.state !== 'done')) {
        res.write(`event: request\ndata: ${JSON.stringify(entry)}\n\n`);
      }
    },
    ...requestRoutes({ state, json, body, sleep, hold, pace }),
    'GET /ui/requests/:id': (req, res, id) => {
      const entry = state.entries.find((e) => e.trace_id === id);
      json(res, entry ? 200 : 404, entry ?? { error: 'no such request' });
    },
    'POST /ui/requests/:id/cancel': (req, res, id) => {
      running.get(id)?.abort('cancelled in the window');
      res.writeHead(204).end();
    },
    'POST /ui/server': async (req, res) => {
      const { running: on } = await body(req);
      await sleep(150);
      state.status.server = on
        ? { state: 'running', url: `http://127.0.0.1:${state.settings.port}` }
        : { state: 'stopped', url: '' };
      json(res, 200, state.status);
      push();
    },
    'GET /ui/settings': (req, res) => json(res, 200, state.settings),
    'PUT /ui/settings': async (req, res) => {
      const next = await body(req);
      if (next.port === 1)
        return json(res, 400, { error: 'port 1 needs more rights than Signalbox has: choose one above 1023' });
      state.settings = next;
      json(res, 200, state.settings);
    },
    'GET /ui/chats': (req, res) =>
      json(res, 200, {
        chats: [...state.chats.values()]
          .map(({ id, title, model, updated_at }) => ({ id, title, model, updated_at }))
          .sort((a, b) => b.updated_at.localeCompare(a.updated_at)),
      }),
    'GET /ui/chats/:id': (req, res, id) =>
      state.chats.has(id) ? json(res, 200, state.chats.get(id)) : json(res, 404, { error: 'no such chat' }),
    'PUT /ui/chats/:id': async (req, res, id) => {
      const chat = await body(req);
      if (state.refuse.saveChat) return json(res, 500, { error: state.refuse.saveChat });
      state.chats.set(id, chat);
      res.writeHead(204).end();
    },
    'DELETE /ui/chats/:id': (req, res, id) => {
      state.chats.delete(id);
      res.writeHead(204).end();
    },
    'POST /desktop/open': async (req, res) => {
      const { url } = await body(req);
      if (!state.desktop) return json(res, 404, { error: 'there is no desktop here' });
      state.opened.push(url);
      res.writeHead(204).end();
    },
    'GET /ui/connect': (req, res, _id, query) => json(res, 200, connectOf(state, query.get('model'))),
    'GET /api/tags': (req, res) => json(res, 200, { models: state.models }),
    'POST /api/chat': chat,
    ...libraryRoutes({ state, json, body, push, sleep, hold, pace, makeModel: model }),
  };

  function record(requestId, asked) {
    const mock = state.status.engine === 'fake';
    const taken = state.entries.some((e) => e.trace_id === requestId);
    return {
      trace_id: requestId && !taken ? requestId : `mock-${++sequence}`,
      model_used: asked,
      model_version: `sha256:${'ab'.repeat(32)}`,
      provider: mock ? 'fake' : 'openvino/2026.4.1',
      endpoint_id: '',
      inference_region: 'local',
      sovereignty_class: 'on-device',
      policy_id: '',
      retention: 'metadata/30d',
      cost_estimate: { amount: 0, currency: 'EUR', device_seconds: null, energy_joules: null, basis: 'measured' },
      routed_device: '',
      execution_device: '',
      route_rule: '',
      route_reason: '',
      prompt_tokens: null,
      completion_tokens: null,
      cached_tokens: null,
      queue_ms: null,
      load_ms: null,
      ttft_ms: null,
      prefill_ms: null,
      decode_ms: null,
      cancel_ms: null,
      tokens_per_second: null,
    };
  }

  /** Puts the entry's decision in, as the router would. */
  function decide(entry, request, text) {
    const pinned = request.options?.device;
    const usable = state.status.devices.filter((d) => d.state !== 'unavailable');
    const chosen = usable.find((d) => (pinned ? d.class.toLowerCase() === pinned : true));
    if (!chosen) {
      throw Object.assign(
        new Error(`no ${pinned.toUpperCase()} can be used here: unpin it, or choose another device`),
        { code: 400 },
      );
    }
    const gpu = state.status.devices.find((d) => d.class === 'GPU');
    Object.assign(entry, {
      endpoint_id: chosen.id,
      policy_id: pinned ? 'pinned' : 'npu-prompt-limit/1024',
      routed_device: chosen.label,
      execution_device: chosen.label,
      route_rule: pinned ? 'pinned' : 'context',
      route_reason: pinned
        ? `The request asked for the ${chosen.label}.`
        : `${entry.prompt_tokens} prompt tokens fit the ${chosen.class}'s 1,024; ${entry.model_used} is loaded there.`,
      rejected:
        gpu && chosen !== gpu
          ? [{ device: 'GPU', rule: 'preference', reason: 'Would do as well; the NPU is preferred.' }]
          : [],
    });
    if (text.includes('[[fallback]]')) {
      entry.execution_device = 'CPU';
      entry.fallback_reason = 'busy';
      entry.route_reason = 'The NPU is busy for about 9 s; the CPU is free now.';
      entry.rejected = [{ device: 'NPU', rule: 'busy', reason: 'One request is running and two are waiting.' }];
      return state.status.devices.find((d) => d.class === 'CPU') ?? chosen;
    }
    return chosen;
  }

  async function chat(req, res) {
    const request = await body(req);
    state.bodies.push(request);
    const text = request.messages.at(-1)?.content ?? '';
    const arrived = Date.now();
    const abort = new AbortController();
    res.on('close', () => abort.abort('the client left'));
    const entry = {
      ...record(req.headers['x-request-id'], request.model),
      state: 'queued',
      client: 'Signalbox',
      user_agent: req.headers['user-agent'],
      route: '/api/chat',
      model_asked: request.model,
      started_at: new Date(arrived).toISOString(),
      tokens_so_far: 0,
      prompt_tokens: request.messages.reduce((n, m) => n + Math.ceil(m.content.length / 4) + 4, 0),
    };
    running.set(entry.trace_id, abort);
    state.entries.unshift(entry);
    state.entries.sort((a, b) => b.started_at.localeCompare(a.started_at));
    res.setHeader('X-Request-ID', entry.trace_id);
    const answer = answerTo(text);
    const slow = Number(/\[\[slow (\d+)\]\]/.exec(text)?.[1] ?? pace);
    const failAfter = Number(/\[\[error-after (\d+)\]\]/.exec(text)?.[1] ?? Infinity);
    const held = (name) => hold(name, undefined, abort.signal);
    let used;
    const phase = (next, more = {}) => {
      Object.assign(entry, { state: next, ...more });
      tell(entry);
    };
    const stamp = () => {
      const now = Date.now();
      entry.completion_tokens = entry.tokens_so_far;
      if (decodeAt) {
        entry.decode_ms = now - decodeAt;
        entry.tokens_per_second =
          entry.tokens_so_far > 1 ? (entry.tokens_so_far - 1) / Math.max(0.001, (now - decodeAt) / 1000) : null;
      }
      entry.cost_estimate.device_seconds = prefillAt ? (now - prefillAt) / 1000 : null;
    };
    const end = (outcome, more = {}) => {
      stamp();
      Object.assign(entry, {
        state: 'done',
        outcome,
        ended_at: new Date().toISOString(),
        position: undefined,
        ...more,
      });
      if (used) {
        Object.assign(used, { state: 'idle', running: 0, queued: 0, phase: undefined });
        if (entry.tokens_per_second) used.tokens_per_second = entry.tokens_per_second;
      }
      tell(entry);
      push();
      running.delete(entry.trace_id);
    };
    let prefillAt = 0;
    let decodeAt = 0;
    const line = (data) =>
      res.write(`${JSON.stringify({ model: request.model, created_at: new Date().toISOString(), ...data })}\n`);

    try {
      used = decide(entry, request, text);
      if (text.includes('[[error]]')) {
        throw Object.assign(
          new Error('load smollm2:135m on NPU: the driver refused the model: update the NPU driver, or pin the CPU'),
          { code: 500 },
        );
      }
      if (text.includes('[[queue]]')) {
        for (const position of [3, 2, 1]) {
          phase('queued', { position });
          Object.assign(used, { state: 'busy', running: 1, queued: position });
          push();
          await sleep(700, abort.signal);
          await held(`position ${position}`);
        }
        for (const name of ['reading', 'compiling for NPU', 'warming up']) {
          phase('loading', { phase: name, position: undefined });
          Object.assign(used, { state: 'loading', phase: name, queued: 0 });
          push();
          await sleep(name.startsWith('comp') ? 3200 : 500, abort.signal);
          await held(name);
        }
        entry.queue_ms = 2100;
        entry.load_ms = 4200;
      } else {
        Object.assign(entry, { queue_ms: 0.4, load_ms: 0 });
      }
      prefillAt = Date.now();
      phase('prefill', { phase: undefined, position: undefined });
      Object.assign(used, {
        state: 'busy',
        running: 1,
        phase: undefined,
        model: request.model,
        models: [request.model],
      });
      push();
      await sleep(text.includes('[[queue]]') ? 1500 : slow * 4, abort.signal);
      await held('prefill');
      if (text.includes('[[hang]]')) await sleep(600_000, abort.signal);
      entry.prefill_ms = Date.now() - prefillAt;
      decodeAt = Date.now();
      entry.ttft_ms = decodeAt - arrived;
      res.writeHead(200, { 'Content-Type': 'application/x-ndjson' });
      let told = 0;
      if (text.includes('[[think]]')) {
        for (const thinking of inPieces(thoughts)) {
          entry.tokens_so_far++;
          if (entry.tokens_so_far % 8 === 1) phase('decoding');
          line({ message: { role: 'assistant', content: '', thinking }, done: false });
          await sleep(slow, abort.signal);
        }
        await held('thoughts');
      }
      for (const [i, piece] of answer.entries()) {
        if (i === answer.length >> 1) await held('answer');
        entry.tokens_so_far++;
        if (Date.now() - told > 250) {
          told = Date.now();
          phase('decoding');
        }
        if (entry.tokens_so_far > failAfter)
          throw Object.assign(new Error('the engine on NPU ended (exit 139): try again, it was restarted'), {
            code: 500,
          });
        line({ message: { role: 'assistant', content: piece }, done: false });
        if (slow) await sleep(slow, abort.signal);
      }
      if (text.includes('[[tool]]')) {
        const call = { index: 0, name: 'read_file', arguments: { path: 'src/<main>.go', lines: [1, 40] } };
        line({ message: { role: 'assistant', content: '', tool_calls: [{ id: 'c1', function: call }] }, done: false });
      }
      if (text.includes('[[cut]]')) {
        end('error', { error: 'cut' });
        // What was written must be out before the connection breaks: a browser drops what nobody has read by then.
        await sleep(50, abort.signal);
        await held('cut');
        return void res.destroy();
      }
      end('completed');
      const llmeu = { ...entry };
      for (const key of liveOnly) delete llmeu[key];
      line({
        message: { role: 'assistant', content: '' },
        done: true,
        done_reason: 'stop',
        eval_count: entry.tokens_so_far,
        llmeu,
      });
      res.end();
    } catch (err) {
      if (abort.signal.aborted) {
        end('cancelled', { cancel_ms: 21, error: String(abort.signal.reason) });
        if (!res.destroyed) {
          if (res.headersSent) line({ error: 'the request was cancelled in the Signalbox window' });
          else
            res
              .writeHead(499, { 'Content-Type': 'application/json' })
              .write('{"error":"the request was cancelled in the Signalbox window"}');
          res.end();
        }
        return;
      }
      end(res.headersSent ? 'error' : 'rejected', { error: err.message });
      if (res.headersSent) {
        res.write(`${JSON.stringify({ error: err.message })}\n`);
        res.end();
      } else json(res, err.code ?? 500, { error: err.message });
    }
  }

  async function file(path, res) {
    const name = normalize(path.replace(/^\/ui\/?/, '') || 'index.html');
    if (name.startsWith('..')) return json(res, 404);
    try {
      const data = await readFile(join(dist, name));
      res.writeHead(200, { 'Content-Type': types[extname(name)] ?? 'application/octet-stream' });
      res.end(data);
    } catch {
      res.writeHead(404).end('404 page not found');
    }
  }

  const server = createServer(async (req, res) => {
    const url = new URL(req.url, 'http://localhost');
    state.hits.push(`${req.method} ${url.pathname}`);
    res.setHeader('Content-Security-Policy', policy);
    res.setHeader('Referrer-Policy', 'no-referrer');
    res.setHeader('X-Content-Type-Options', 'nosniff');
    res.setHeader('Cache-Control', 'no-store');
    const parts = url.pathname.split('/');
    const withId = `${req.method} ${[...parts.slice(0, 3), ':id', ...parts.slice(4)].join('/')}`;
    const route = routes[`${req.method} ${url.pathname}`];
    const byId = parts.length >= 4 && parts[1] === 'ui' ? routes[withId] : undefined;
    try {
      if (route) await route(req, res, '', url.searchParams);
      else if (byId) await byId(req, res, decodeURIComponent(parts[3]), url.searchParams);
      else if (req.method === 'GET' && url.pathname.startsWith('/ui')) await file(url.pathname, res);
      else json(res, 404, { error: '404 page not found' });
    } catch (err) {
      if (!res.headersSent) json(res, 500, { error: err.message });
    }
  });
  await new Promise((resolve) => server.listen(port, '127.0.0.1', resolve));

  return {
    state,
    push,
    tell,
    url: `http://127.0.0.1:${server.address().port}/ui/`,
    port: server.address().port,
    /** Puts n finished requests of several clients into the journal. */
    seed(n) {
      const now = Date.now();
      for (let i = 0; i < n; i++) state.entries.push(sample(i, now));
    },
    async close() {
      state.held.clear();
      for (const stream of streams) stream.destroy();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function connectOf(state, wanted) {
  const url = state.status.server.url || `http://127.0.0.1:${state.settings.port}`;
  const model = wanted || state.models.find((m) => m.capabilities.includes('completion'))?.name || '';
  const seen = (name) => state.entries.find((e) => e.client === name)?.started_at ?? null;
  const client = (id, name, kind, speaks, steps, note) => ({
    id,
    name,
    kind,
    speaks,
    steps: steps.map(([title, language, text, file]) => ({ title, language, text, ...(file ? { file } : {}) })),
    ...(note ? { note } : {}),
    last_seen: seen(name),
  });
  return {
    url,
    running: state.status.server.state === 'running',
    model,
    clients: [
      client('continue', 'Continue', 'editor', 'openai', [
        [
          'Settings of the extension and of the command cn',
          'yaml',
          `name: Signalbox\nmodels:\n  - name: Signalbox\n    provider: ollama\n    model: "${model}"\n    apiBase: ${url}\n`,
          '~/.continue/config.yaml',
        ],
      ]),
      client(
        'cline',
        'Cline',
        'editor',
        'ollama',
        [["In Cline's settings", 'text', `API Provider: Ollama\nBase URL: ${url}\nModel: ${model}`]],
        'Its first prompt has about 5,500 tokens: choose a model with a large context, and a device that takes it.',
      ),
      client('zed', 'Zed', 'editor', 'ollama', [
        [
          "In Zed's settings",
          'json',
          `{\n  "language_models": { "ollama": { "api_url": "${url}" } }\n}`,
          '~/.config/zed/settings.json',
        ],
      ]),
      client('codex', 'Codex', 'agent', 'openai', [
        ['Settings', 'toml', `model = "${model}"\nbase_url = "${url}/v1"`, '~/.codex/config.toml'],
        ['Or, on port 11434, without settings', 'bash', `codex --oss --local-provider ollama -m ${model}`],
      ]),
      client('claude', 'Claude Code', 'agent', 'anthropic', [
        ['In a terminal', 'bash', `export ANTHROPIC_BASE_URL=${url} ANTHROPIC_MODEL=${model}\nclaude`],
      ]),
      client('open-webui', 'Open WebUI', 'app', 'ollama', [['In a terminal', 'bash', `OLLAMA_BASE_URL=${url}`]]),
      client('openai-python', 'openai-python', 'library', 'openai', [
        ['In your program', 'python', `client = OpenAI(base_url="${url}/v1", api_key="signalbox")`],
      ]),
    ],
  };
}

function answerTo(text) {
  const say = /\[\[say ([\s\S]*?)\]\]/.exec(text)?.[1];
  const whole =
    say ?? (text.includes('[[hostile]]') ? hostileMarkdown : text.includes('[[long]]') ? longAnswer : shortAnswer);
  return inPieces(whole);
}

/** Pieces of a few characters, as tokens are; never within a code point. */
function inPieces(whole) {
  return [...whole].reduce((pieces, letter) => {
    const last = pieces.at(-1);
    if (last === undefined || /\s$/.test(last) || last.length >= 5) pieces.push(letter);
    else pieces[pieces.length - 1] += letter;
    return pieces;
  }, []);
}

const liveOnly = [
  'state',
  'position',
  'phase',
  'client',
  'user_agent',
  'route',
  'model_asked',
  'started_at',
  'ended_at',
  'error',
  'tokens_so_far',
];

const agents = [
  ['Zed', 'Zed/0.219.0'],
  ['Continue', 'continue-vscode/1.3.2'],
  ['curl', 'curl/7.88.1'],
  ['Signalbox', 'Mozilla/5.0'],
  ['openai-python', 'OpenAI/Python 2.8.0'],
];

function sample(i, now) {
  const [client, user_agent] = agents[(i * 7) % agents.length];
  const outcome = i % 11 === 4 ? 'cancelled' : i % 17 === 6 ? 'error' : i % 13 === 5 ? 'length' : 'completed';
  const label = outcome === 'error' ? '' : ['NPU', 'CPU', 'NPU', 'GPU', 'NPU'][i % 5];
  const output = 20 + ((i * 37) % 400);
  const rate = { NPU: 31, GPU: 58, CPU: 17 }[label];
  const prefill = 60 + ((i * 53) % 900);
  const fallback = label === 'CPU' && i % 3 === 0;
  const started = now - 40_000 * (i + 1) - ((i * 7919) % 20_000);
  return {
    trace_id: `seed-${i}`,
    model_used: i % 4 ? 'smollm2:135m' : 'qwen3:4b',
    model_version: `sha256:${'cd'.repeat(32)}`,
    provider: 'openvino/2026.4.1',
    endpoint_id: label ? `${label.toLowerCase()}:0` : '',
    inference_region: 'local',
    sovereignty_class: 'on-device',
    policy_id: 'npu-prompt-limit/1024',
    retention: 'metadata/30d',
    cost_estimate: {
      amount: 0,
      currency: 'EUR',
      device_seconds: label ? prefill / 1000 + output / rate : null,
      energy_joules: null,
      basis: 'measured',
    },
    routed_device: fallback ? 'NPU' : label,
    execution_device: label,
    route_rule: 'context',
    route_reason:
      label === 'NPU'
        ? "412 prompt tokens fit the NPU's 1,024; smollm2:135m is loaded there."
        : 'The prompt is longer than the NPU takes.',
    ...(fallback ? { fallback_reason: 'busy' } : {}),
    rejected:
      label === 'CPU'
        ? [{ device: 'NPU', rule: 'context', reason: "2,310 prompt tokens are more than the NPU's 1,024." }]
        : [],
    prompt_tokens: outcome === 'error' ? null : 40 + ((i * 101) % 2400),
    completion_tokens: outcome === 'error' ? null : output,
    cached_tokens: i % 3 ? 0 : 32,
    queue_ms: i % 6 ? 0.3 : 800,
    load_ms: i % 9 ? 0 : 1900,
    ttft_ms: outcome === 'error' ? null : prefill + 10,
    prefill_ms: outcome === 'error' ? null : prefill,
    decode_ms: outcome === 'error' ? null : (output / rate) * 1000,
    cancel_ms: outcome === 'cancelled' ? 24 : null,
    tokens_per_second: outcome === 'error' ? null : rate + (i % 7) / 3,
    outcome,
    state: 'done',
    client,
    user_agent,
    route: i % 2 ? '/v1/chat/completions' : '/api/chat',
    model_asked: i % 4 ? 'smollm2:135m' : 'qwen3:4b',
    started_at: new Date(started).toISOString(),
    ended_at: new Date(started + 3000).toISOString(),
    ...(outcome === 'error' ? { error: 'load qwen3:4b on GPU: out of memory: choose a smaller model' } : {}),
    tokens_so_far: output,
  };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const mock = await startMock({ port: Number(process.argv[2] ?? 5199), pace: 30 });
  mock.seed(240);
  console.log(mock.url);
}
