// The mock's models: on disk, in memory, on their way, and on the hub.

export const knownModels = [
  known(
    'qwen3:8b',
    'OpenVINO/Qwen3-8B-int4-cw-ov',
    '8B',
    'INT4_SYM',
    4.8e9,
    true,
    'Thinks, calls tools; many languages.',
  ),
  known(
    'qwen3:4b',
    'OpenVINO/Qwen3-4B-int4-ov',
    '4B',
    'INT4_ASYM',
    2.6e9,
    false,
    'Thinks, calls tools; for 16 GB laptops.',
  ),
  known(
    'phi4-mini',
    'OpenVINO/Phi-4-mini-instruct-int4-ov',
    '3.8B',
    'INT4_ASYM',
    2.4e9,
    false,
    'Calls tools; long context.',
  ),
  {
    ...known(
      'bge-small',
      'OpenVINO/bge-small-en-v1.5-int8-ov',
      '33M',
      'INT8',
      3.4e7,
      false,
      'English texts as vectors.',
    ),
    kind: 'embedding',
  },
];

function known(name, repo, parameter_size, quantization, size, npu, description) {
  return { name, repo, kind: 'chat', parameter_size, quantization, size, npu, license: 'apache-2.0', description };
}

const onHub = [
  ['OpenVINO/Qwen3-8B-int4-cw-ov', 8, 'int4', true, 41_200],
  ['OpenVINO/Mistral-7B-Instruct-v0.3-int4-cw-ov', 7, 'int4', true, 12_900],
  ['OpenVINO/gemma-3-4b-it-int8-ov', 4, 'int8', false, 8_100],
];

export function libraryRoutes({ state, json, body, push, sleep, hold, pace, makeModel }) {
  const same = (a, b) => a.replace(/:latest$/, '') === b.replace(/:latest$/, '');
  const find = (name) => state.models.find((m) => same(m.name, name ?? ''));
  let sequence = 0;

  function arrived(name) {
    if (!find(name))
      state.models.unshift(makeModel(name, '8B', 'INT4_SYM', 4.8e9, ['completion', 'tools', 'thinking']));
    state.status.models = state.models.length;
    push();
  }

  const gone = (name) => {
    state.loaded = state.loaded.filter((l) => !same(l.name, name));
    for (const device of state.status.devices) {
      device.models = device.models.filter((m) => !same(m, name));
      if (device.model && same(device.model, name)) device.model = undefined;
    }
    push();
  };

  async function advance(download) {
    while (download.completed < download.total) {
      await sleep(pace * 4);
      if (download.state !== 'downloading') return;
      download.completed = Math.min(download.total, download.completed + download.total / 25);
      if (download.completed >= download.total * 0.8) await hold('download', () => download.state === 'downloading');
    }
    download.state = 'done';
    arrived(download.model);
  }

  const byId = (act) => async (req, res, id) => {
    const download = state.downloads.find((d) => d.id === id);
    if (!download) return json(res, 404, { error: 'there is no download with this id' });
    act(download);
    res.writeHead(204).end();
  };

  return {
    'POST /api/show': async (req, res) => {
      const { model: name } = await body(req);
      const found = find(name);
      if (!found) return json(res, 404, { error: `model '${name}' not found` });
      json(res, 200, {
        license: 'Apache License 2.0\n\nLicensed under …',
        details: found.details,
        model_info: { 'general.architecture': 'llama', 'llama.context_length': 8192 },
        capabilities: found.capabilities,
        npu: found.npu ?? { ok: true, reason: 'its weights are int4 symmetric in groups of 128' },
      });
    },
    'GET /api/ps': (req, res) => json(res, 200, { models: state.loaded }),
    'POST /api/generate': async (req, res) => {
      const request = await body(req);
      state.bodies.push(request);
      gone(request.model);
      json(res, 200, { model: request.model, response: '', done: true, done_reason: 'unload' });
    },
    'DELETE /api/delete': async (req, res) => {
      const { model: name } = await body(req);
      if (!name) return json(res, 400, { error: 'name "" is invalid' });
      const found = find(name);
      if (!found) return json(res, 404, { error: `model '${name}' not found` });
      state.models = state.models.filter((m) => m !== found);
      state.trash.push(found);
      state.status.models = state.models.length;
      gone(name);
      json(res, 200, undefined);
    },
    'POST /ui/models/restore': async (req, res) => {
      const { model: name } = await body(req);
      if (!name) return json(res, 400, { error: 'model is required' });
      const found = state.trash.find((m) => same(m.name, name));
      if (!found) return json(res, 404, { error: 'nothing of that name was deleted since the start' });
      state.trash = state.trash.filter((m) => m !== found);
      state.models.push(found);
      state.status.models = state.models.length;
      push();
      res.writeHead(204).end();
    },
    'POST /api/pull': async (req, res) => {
      const { model: name } = await body(req);
      if (!name) return json(res, 400, { error: 'invalid model name' });
      if (state.offline) return json(res, 503, { error: 'huggingface.co cannot be reached: connect to the internet' });
      res.writeHead(200, { 'Content-Type': 'application/x-ndjson' });
      const line = (frame) => res.write(`${JSON.stringify(frame)}\n`);
      line({ status: 'pulling manifest' });
      for (let step = 0; step <= 10 && !res.destroyed; step++) {
        line({ status: 'pulling aaaaaaaaaaaa', digest: 'sha256:aa', total: 4e8, completed: 4e7 * step });
        line({
          status: 'pulling bbbbbbbbbbbb',
          digest: 'sha256:bb',
          total: 1e7,
          completed: 1e6 * Math.min(10, step * 2),
        });
        if (name.startsWith('broken') && step === 5) {
          line({ error: 'openvino_model.bin from the hub is not what the hub declares: it was deleted' });
          return void res.end();
        }
        await sleep(pace * 6);
      }
      if (res.destroyed) return;
      line({ status: 'verifying sha256 digest' });
      line({ status: 'writing manifest' });
      arrived(name);
      line({ status: 'success' });
      res.end();
    },
    'GET /ui/downloads': (req, res) => json(res, 200, { downloads: state.downloads }),
    'POST /ui/downloads': async (req, res) => {
      const { model: name } = await body(req);
      if (state.offline) return json(res, 503, { error: 'huggingface.co cannot be reached: connect to the internet' });
      const download = {
        id: `d${++sequence}`,
        model: name,
        state: 'downloading',
        total: 4.8e9,
        completed: 0,
        bytes_per_second: 4.2e7,
      };
      state.downloads.push(download);
      void advance(download);
      json(res, 200, download);
    },
    'POST /ui/downloads/:id/pause': byId((d) => Object.assign(d, { state: 'paused' })),
    'POST /ui/downloads/:id/resume': byId((d) => {
      Object.assign(d, { state: 'downloading', error: undefined });
      void advance(d);
    }),
    'DELETE /ui/downloads/:id': byId((d) => {
      d.state = 'cancelled';
      state.downloads = state.downloads.filter((other) => other !== d);
    }),
    'POST /ui/preflight': async (req, res) => {
      const { model: name } = await body(req);
      if (!name) return json(res, 400, { error: 'model is required' });
      await sleep(pace * 20);
      if (state.offline)
        return json(res, 502, { error: 'huggingface.co did not answer within 8s: this computer may be offline' });
      const found = state.known.find((k) => k.name === name || k.repo === name);
      if (!found && !name.includes('/'))
        return json(res, 404, { error: 'pull model manifest: file does not exist: did you mean qwen3:8b?' });
      if (name.startsWith('meta-llama/') && !state.token)
        return json(res, 403, { error: `${name} may be fetched only with a token: accept its license on the hub` });
      const npu = found?.npu ?? name.includes('-cw-');
      const size = found?.size ?? 2.2e9;
      const memory = 34e9;
      json(res, 200, {
        model: name,
        source: found?.repo ?? name,
        commit: '0123456789abcdef0123456789abcdef01234567',
        size,
        free: 212e9,
        memory,
        license: 'apache-2.0',
        gated: name.includes('gemma'),
        installed: find(name) !== undefined,
        quantization: npu ? 'INT4_SYM' : 'INT4_ASYM',
        devices: [
          {
            class: 'NPU',
            ok: npu,
            reason: npu
              ? 'its weights are int4 symmetric by whole channels'
              : 'its weights are int4 asymmetric, NPUs take symmetric ones',
          },
          { class: 'GPU', ok: true, reason: 'GPUs run every quantization, while it fits into memory' },
          { class: 'CPU', ok: true, reason: 'the CPU runs every quantization' },
        ],
        speed: size < 3e9 ? 'fast' : 'comfortable',
        card: `# ${name}\n\nMade with **optimum-intel**. ![logo](https://tracker.example/x.png) <script>alert(1)</script>\n\n- [paper](https://example.org/paper)\n- [bad](javascript:alert(1))`,
        refused: name.includes('30b')
          ? 'there is not enough space: 17 GB are needed and 12 GB are free, of which 1.1 GB stay free'
          : '',
        warnings: name.includes('phi4')
          ? ['It was made with OpenVINO 2027.1, which is newer than the 2026.4.1 here.']
          : [],
      });
    },
    'POST /ui/models/verify': async (req, res) => {
      const { model: name } = await body(req);
      const found = find(name);
      if (!name) return json(res, 400, { error: 'model is required' });
      if (!found) return json(res, 404, { error: `model '${name}' not found` });
      res.writeHead(200, { 'Content-Type': 'application/x-ndjson' });
      for (let step = 1; step <= 10 && !res.destroyed; step++) {
        res.write(
          `${JSON.stringify({ status: 'verifying', total: found.size, completed: (found.size / 10) * step })}\n`,
        );
        await sleep(pace * 4);
      }
      const wrong = found.torn ? ['openvino_model.bin'] : [];
      res.end(
        `${JSON.stringify({ status: 'success', files: 9, recorded: true, wrong, problem: found.damaged ?? '', source: found.source ?? '' })}\n`,
      );
    },
    'POST /ui/models/repair': async (req, res) => {
      const { model: name } = await body(req);
      if (!name) return json(res, 400, { error: 'model is required' });
      const found = find(name);
      const download = {
        id: `d${++sequence}`,
        model: name,
        state: 'downloading',
        total: found.size,
        completed: found.size * 0.7,
      };
      state.downloads.push(download);
      void advance(download).then(() => {
        delete found.torn;
        delete found.damaged;
      });
      json(res, 200, download);
    },
    'POST /ui/models/move': async (req, res) => {
      const { to } = await body(req);
      if (!to?.startsWith('/'))
        return json(res, 400, { error: 'to must be the full path of a folder on this computer' });
      res.writeHead(200, { 'Content-Type': 'application/x-ndjson' });
      for (let step = 0; step <= 10 && !res.destroyed; step++) {
        res.write(`${JSON.stringify({ status: 'moving', total: 5e9, completed: 5e8 * step })}\n`);
        await sleep(pace * 6);
      }
      await hold('move', () => !res.destroyed);
      if (res.destroyed) return;
      state.dir = to;
      res.end(`${JSON.stringify({ status: 'success' })}\n`);
    },
    'POST /desktop/import': async (req, res) => {
      const folder = await body(req);
      if (!folder.path) return json(res, 400, { error: 'path must be the full path of a folder on this computer' });
      if (folder.path.includes('gguf'))
        return json(res, 400, { error: `${folder.path} is a GGUF file of a qwen3 model: pull qwen3:8b instead` });
      state.bodies.push(folder);
      res.writeHead(200, { 'Content-Type': 'application/x-ndjson' });
      for (let step = 0; step <= 10 && !folder.reference && !res.destroyed; step++) {
        res.write(`${JSON.stringify({ status: 'copying', total: 2e9, completed: 2e8 * step })}\n`);
        await sleep(pace * 4);
      }
      const name = folder.name || folder.path.split('/').at(-1);
      arrived(name);
      find(name).elsewhere = folder.reference || undefined;
      res.end(`${JSON.stringify({ status: 'success', model: name })}\n`);
    },
    'POST /desktop/folder': (req, res) => json(res, 200, { path: '/mnt/data/models' }),
    'POST /desktop/dropped': (req, res) => json(res, 200, { path: state.dropped ?? '' }),
    'GET /ui/hub': (req, res) =>
      json(res, 200, {
        endpoint: state.settings.hub_endpoint || 'https://huggingface.co',
        default: 'https://huggingface.co',
        token: state.token ? 'keyring' : '',
      }),
    'PUT /ui/hub/token': async (req, res) => {
      const { token } = await body(req);
      if (token === 'wrong')
        return json(res, 403, { error: 'huggingface.co does not accept the token: it may have expired' });
      state.token = token;
      json(res, 200, { account: token ? 'ada' : '', kept: token ? 'keyring' : '', unchecked: '' });
    },
    'GET /ui/disk': (req, res) =>
      json(res, 200, {
        dir: state.dir ?? '/home/ada/.local/share/signalbox/models',
        free: 212e9,
        total: 494e9,
        models: [
          ...state.models.map((m) => ({ name: m.name, bytes: m.size, state: m.damaged ? 'damaged' : 'ok' })),
          ...state.trash.map((m) => ({ name: m.name, bytes: m.size, state: 'deleted' })),
        ],
        partial: state.downloads.reduce((sum, d) => sum + (d.state === 'done' ? 0 : d.completed), 0),
        trash: state.trash.reduce((sum, m) => sum + m.size, 0),
      }),
    'GET /ui/compiled': (req, res) =>
      json(res, 200, {
        bytes: state.compiled.reduce((sum, m) => sum + m.bytes, 0),
        limit: 20e9,
        models: state.compiled,
      }),
    'DELETE /ui/compiled': (req, res) => {
      const freed = state.compiled.reduce((sum, m) => sum + m.bytes, 0);
      state.compiled = [];
      json(res, 200, { freed });
    },
    'GET /api/models/known': (req, res) => json(res, 200, { models: state.known }),
    'GET /api/search': (req, res, _id, query) => {
      if (state.offline) return json(res, 503, { error: 'huggingface.co cannot be reached: connect to the internet' });
      const models = onHub
        .filter(
          ([repo, billions, , npu]) =>
            billions <= Number(query.get('max_billions') ?? Infinity) &&
            (query.get('npu') !== 'true' || npu) &&
            repo.toLowerCase().includes((query.get('q') ?? '').toLowerCase()),
        )
        .map(([repo, billions, quantization, npu, downloads]) => ({
          repo,
          task: 'chat',
          billions,
          quantization,
          npu,
          downloads,
          likes: 12,
          license: 'apache-2.0',
          gated: repo.includes('gemma'),
        }));
      json(res, 200, { models });
    },
    'GET /ui/cards': (req, res) => json(res, 200, { cards: state.cards }),
    'POST /ui/devices/:id/release': async (req, res, id) => {
      const { model: name } = await body(req);
      const held = state.cards.filter((c) => c.device === id && (!name || c.model === name) && c.quarantined);
      for (const card of held) Object.assign(card, { quarantined: undefined, verdict: '' });
      json(res, 200, { released: held.length });
    },
  };
}
