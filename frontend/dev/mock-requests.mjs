// The mock's journal: lists with filters, totals, exports, replays and explanations.

export function requestRoutes({ state, json, body, sleep, hold, pace }) {
  function fits(query) {
    const before = Date.parse(query.get('before') ?? '') || Infinity;
    const since = Date.parse(query.get('since') ?? '') || 0;
    const wanted = (name) => query.get(name) ?? '';
    const q = wanted('q').toLowerCase();
    return state.entries.filter((e) => {
      const at = Date.parse(e.started_at);
      const words = `${e.client} ${e.model_used} ${e.route} ${e.execution_device} ${e.route_reason} ${e.error} ${e.trace_id}`;
      return (
        at < before &&
        at >= since &&
        (!wanted('client') || e.client === wanted('client')) &&
        (!wanted('model') || e.model_used === wanted('model') || e.model_asked === wanted('model')) &&
        (!wanted('device') || [e.execution_device, e.endpoint_id].includes(wanted('device'))) &&
        (!wanted('outcome') || e.outcome === wanted('outcome')) &&
        (!wanted('reason') || [e.route_rule, e.fallback_reason].includes(wanted('reason'))) &&
        words.toLowerCase().includes(q)
      );
    });
  }

  return {
    'GET /ui/requests': (req, res, _id, query) => {
      const limit = Number(query.get('limit') ?? 50);
      const found = fits(query);
      json(res, 200, { requests: found.slice(0, limit), more: found.length > limit });
    },
    'GET /ui/requests/totals': (req, res, _id, query) => {
      const ended = fits(query).filter((e) => e.state === 'done');
      const count = (...outcomes) => ended.filter((e) => outcomes.includes(e.outcome)).length;
      const sum = (of) => ended.reduce((total, e) => total + (of(e) ?? 0), 0);
      json(res, 200, {
        requests: ended.length,
        completed: count('completed', 'length'),
        cancelled: count('cancelled'),
        failed: count('error', 'timeout', 'rejected'),
        prompt_tokens: sum((e) => e.prompt_tokens),
        completion_tokens: sum((e) => e.completion_tokens),
        device_seconds: sum((e) => e.cost_estimate?.device_seconds),
      });
    },
    'GET /ui/requests/export': (req, res, _id, query) => {
      const csv = query.get('format') === 'csv';
      const lines = fits(query).map((e) => (csv ? `${e.trace_id},${e.client},${e.outcome}` : JSON.stringify(e)));
      res.writeHead(200, {
        'Content-Type': csv ? 'text/csv' : 'application/x-ndjson',
        'Content-Disposition': `attachment; filename="signalbox-requests.${csv ? 'csv' : 'jsonl'}"`,
      });
      res.end([...(csv ? ['trace_id,client,outcome'] : []), ...lines, ''].join('\n'));
    },
    'GET /ui/requests/:id/body': (req, res, id) =>
      state.kept.has(id)
        ? json(res, 200, { request: { messages: [] }, answer: state.kept.get(id) })
        : json(res, 404, { error: 'the prompt of this request was not kept' }),
    'POST /ui/requests/:id/replay': async (req, res, id) => {
      const { device } = await body(req);
      const entry = state.entries.find((e) => e.trace_id === id);
      const on = state.status.devices.find((d) => d.id === device);
      const record = { ...entry, execution_device: on.label, tokens_per_second: 17.2, ttft_ms: 410 };
      const text = `${state.kept.get(id)} And <b>once more</b>.`;
      const line = (l) => res.write(`${JSON.stringify(l)}\n`);
      res.writeHead(200, { 'Content-Type': 'application/x-ndjson' });
      line({ original: { record: entry, text: state.kept.get(id) } });
      for (const word of text.split(/(?<= )/)) {
        await sleep(pace * 4);
        line({ text: word });
      }
      await hold('replay');
      line({ replay: { record, text } });
      res.end();
    },
    'GET /ui/rules': (req, res) =>
      json(res, 200, {
        rules: [
          { name: 'pinned', says: 'A request that names a device gets that device or an error.' },
          {
            name: 'prompt_limit',
            says: 'A prompt goes only where it fits whole.',
            set: "NPU: 1,024 tokens, of the answer at least 128; elsewhere the model's own limit",
          },
          {
            name: 'side_request',
            says: 'A short request without tools goes around a device that is at work on a long one.',
            set: 'prompts up to 256 tokens, answers up to 64; a long one has 512 or more',
          },
          {
            name: 'preference',
            says: 'The first device in the order of preference is taken.',
            set: 'NPU, GPU, CPU',
          },
        ],
      }),
    'POST /api/route/explain': async (req, res) => {
      const request = await body(req);
      if (!request.messages) return json(res, 400, { error: 'messages are required' });
      const prompt_tokens = Math.ceil(request.messages[0].content.length / 4);
      const long = prompt_tokens > 1024;
      json(res, 200, {
        would: 'run',
        as: '/api/chat',
        model: request.model,
        device: long ? 'CPU' : 'NPU',
        routed_device: long ? 'CPU' : 'NPU',
        route_rule: 'context',
        policy_id: 'npu-prompt-limit/1024',
        route_reason: long
          ? `${prompt_tokens} prompt tokens are more than the NPU's 1,024.`
          : `${prompt_tokens} prompt tokens fit the NPU's 1,024; ${request.model} is loaded there.`,
        rejected: long ? [{ device: 'NPU', rule: 'context', reason: "More prompt tokens than the NPU's 1,024." }] : [],
        prompt_tokens,
        prompt_limit: 1024,
        devices: [
          {
            device: 'NPU',
            endpoint_id: 'npu:0',
            loaded: true,
            running: 0,
            queued: 0,
            prompt_limit: 1024,
            first_token_s: 0.4,
          },
          {
            device: 'CPU',
            endpoint_id: 'cpu:0',
            loaded: false,
            running: 0,
            queued: 0,
            prompt_limit: 8192,
            first_token_s: null,
          },
        ],
        status: 200,
      });
    },
  };
}
